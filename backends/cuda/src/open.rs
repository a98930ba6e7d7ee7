//! Opens a card, warm: nothing that comes later makes the driver load or compile, or allocate more
//! than a few MiB of its own.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use twinlock_api::{Error, Result};

use crate::context::Context;
use crate::discover::Found;
use crate::driver::{Meaning, Refusal};
use crate::events::EventPool;
use crate::faults::Faults;
use crate::gpu::{Gpu, Tables};
use crate::launcher::Launcher;
use crate::memory::{Allocation, Memory, Pinned, out_of_memory};
use crate::modules::Modules;
use crate::ops;
use crate::profile::Profile;
use crate::settings::Settings;
use crate::streams::StreamPool;
use crate::tables::{Table, TablePlaces};

/// How long tables may take to be filled.
const FILL_WAIT: Duration = Duration::from_secs(60);

/// Opens what was found.
pub(crate) fn open(found: Found, settings: &Settings, faults: Arc<Faults>) -> Result<Arc<Gpu>> {
    let Found { card, discovered } = found;
    let info = discovered.usable.map_err(Error::Unsupported)?;
    let refused = |refusal: Refusal| match refusal.meaning() {
        Meaning::OutOfMemory => out_of_memory(&format!("a context on {}", info.name), 0, None),
        Meaning::Refused => Error::Unsupported(format!("{}: {refusal}", info.name)),
        // Seen on driver 580: after a fault on the card the process gets no new context.
        Meaning::Lost => Error::DeviceLost {
            reason: format!(
                "{refusal}; what went wrong on a card stays with the process: restart it"
            ),
        },
    };
    let context = Context::new(card.ordinal).map_err(refused)?;
    let plain_allocations = settings.plain_allocations || !card.maps_memory;
    let tables = ops::tables();
    let gpu = {
        let _current = context.enter().map_err(refused)?;
        let modules = Modules::load(&card, twinlock_cuda_kernels::images())
            .map_err(|reason| Error::Unsupported(format!("{}: {reason}", info.name)))?;
        let streams = StreamPool::new().map_err(refused)?;
        let events = EventPool::new().map_err(refused)?;
        let places = TablePlaces::new(&tables);
        let size_bytes = places.size_bytes;
        let allocation = match size_bytes {
            0 => None,
            _ => Some(
                Allocation::new(card.ordinal, size_bytes, plain_allocations).map_err(refused)?,
            ),
        };
        let address = allocation.map_or(0, |allocation| allocation.address);
        let profile = settings.profile.then(Profile::new).transpose().map_err(refused)?;
        (modules, streams, events, Tables { address, places, allocation }, profile)
    };
    let (modules, streams, events, device_tables, profile) = gpu;
    let gpu = Arc::new(Gpu {
        info,
        card,
        plain_allocations,
        modules,
        tables: device_tables,
        memory: Memory::new(settings.memory_bytes),
        streams,
        events,
        profile,
        faults: Arc::clone(&faults),
        lost: OnceLock::new(),
        context: Some(context),
    });
    for (name, kernel) in gpu.modules.iter() {
        tracing::debug!(
            name,
            registers = kernel.registers,
            local_bytes = kernel.local_bytes,
            shared_bytes = kernel.static_shared_bytes,
            "kernel"
        );
    }
    fill(&gpu, tables).inspect_err(|error| {
        // What still runs must end before its memory goes.
        gpu.lose(error.to_string());
        // The driver would wait for hanging work for ever when the context is destroyed.
        if matches!(error, Error::Timeout { .. }) {
            std::mem::forget(Arc::clone(&gpu));
        }
    })?;
    faults.attach(Arc::downgrade(&gpu));
    Ok(gpu)
}

/// Has every stream run once, and fills the tables.
fn fill(gpu: &Gpu, tables: Vec<Table>) -> Result<()> {
    let _current = gpu.enter()?;
    let refused = |refusal| gpu.failed("open", refusal);
    if gpu.tables.address != 0 {
        let host = Pinned::new(4).map_err(refused)?;
        let ends = gpu.streams.warm(&gpu.events, gpu.tables.address, host).map_err(refused)?;
        for end in &ends {
            gpu.wait(end, "a stream's first work", Instant::now(), FILL_WAIT)?;
        }
        gpu.memory.free_pinned(gpu, (host, 4), ends);
    }
    let raw = gpu.streams.take().map_err(refused)?;
    for Table { name, fill, .. } in tables {
        fill(&mut Launcher::new(gpu, name, raw.0, Vec::new()))?;
    }
    let end = gpu.record(raw.0)?;
    gpu.wait(&end, "the constant tables", Instant::now(), FILL_WAIT)?;
    gpu.streams.give_back(raw, Some(end));
    Ok(())
}
