//! The CPU as a device: memory is host memory, a stream is a thread, kernels run on a rayon pool.

mod execute;
mod memory;
mod staging;
mod stream;

use crate::field::{Coordinate, Fp, Fp2};
use crate::msm::{self, Shape};
use crate::ntt;
use execute::{Execution, Regions};
pub use memory::system_memory_bytes;
use memory::{Claim, Memory};
use staging::CpuStaging;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stream::{EventState, Queue};
use twinlock_api::device::check_copy;
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Backend, Device, DeviceInfo, Discovered, Error, Event, Group, MemoryClass, MemoryInfo, Op,
    OpenOptions, Region, Result, Staging, StagingKind, Stream, View,
};

/// The name of the backend and of its one device.
const NAME: &str = "cpu";
/// More threads than this only take memory.
const MAX_THREADS: usize = 1024;
/// What is taken for the system's memory where it does not tell, in bytes.
const ASSUMED_MEMORY_BYTES: u64 = 8 << 30;

/// The CPU backend; its one device is `cpu`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

fn device_info() -> DeviceInfo {
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let memory_bytes = system_memory_bytes().map_or(ASSUMED_MEMORY_BYTES, |(_, total)| total);
    DeviceInfo {
        name: NAME.to_owned(),
        backend: NAME,
        model: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        driver: "none".to_owned(),
        memory_bytes,
        max_region_bytes: memory_bytes,
        max_lg_domain: ntt::MAX_LG,
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        vec![Discovered { name: NAME.to_owned(), usable: Ok(device_info()) }]
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
        if name != NAME {
            return Err(Error::invalid(format!("no device {name}; the backend has {NAME}")));
        }
        if let Some(threads) = options.threads
            && !(1..=MAX_THREADS).contains(&threads)
        {
            return Err(Error::invalid(format!("threads: {threads}, 1 to {MAX_THREADS} possible")));
        }
        // 0 is rayon's word for one thread a core.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads.unwrap_or(0))
            .thread_name(|i| format!("cpu-kernel-{i}"))
            .build()
            .map_err(|error| Error::Unsupported(format!("no threads for kernels: {error}")))?;
        Ok(Arc::new(CpuDevice {
            info: device_info(),
            pool: Arc::new(pool),
            identity: Arc::new(()),
            state: Mutex::default(),
        }))
    }
}

/// A device's event, with the device it belongs to.
struct CpuEvent {
    device: Arc<()>,
    state: Arc<EventState>,
}

#[derive(Default)]
struct State {
    regions: HashMap<Region, Arc<Memory>>,
    regions_bytes: u64,
    streams: HashMap<Stream, Queue>,
    /// Threads of all streams, until they are known to have ended.
    threads: Vec<JoinHandle<()>>,
}

struct CpuDevice {
    info: DeviceInfo,
    pool: Arc<rayon::ThreadPool>,
    /// Tells this device's events from another's.
    identity: Arc<()>,
    state: Mutex<State>,
}

impl CpuDevice {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a region or a staging buffer.
    fn new_memory(&self, what: &str, size_bytes: u64) -> Result<Arc<Memory>> {
        let limit = self.info.max_region_bytes;
        if size_bytes > limit {
            let (what, requested) = (format!("{what} (bytes)"), size_bytes);
            return Err(Error::ExceedsLimit { what, requested, limit });
        }
        let free_bytes = system_memory_bytes().map(|(free, _)| free);
        // The system would grant more than it has, and kill the process when it is used.
        let fits = free_bytes.is_none_or(|free| size_bytes <= free);
        usize::try_from(size_bytes).ok().filter(|_| fits).and_then(Memory::new).ok_or_else(|| {
            Error::OutOfMemory { what: what.to_owned(), requested_bytes: size_bytes, free_bytes }
        })
    }

    fn memory_of(state: &State, view: View) -> Result<(u64, Arc<Memory>)> {
        let region = view.region();
        let memory = state.regions.get(&region).ok_or_else(|| {
            Error::invalid(format!("{}: its region is not alive on {NAME}", view.name()))
        })?;
        Ok((region.id(), Arc::clone(memory)))
    }

    fn queue(state: &State, stream: Stream) -> Result<&Queue> {
        let unknown = || Error::invalid(format!("stream {} is not alive on {NAME}", stream.id()));
        state.streams.get(&stream).ok_or_else(unknown)
    }

    fn event<'e>(&self, event: &'e Event) -> Result<&'e Arc<EventState>> {
        event
            .payload::<CpuEvent>()
            .filter(|event| Arc::ptr_eq(&event.device, &self.identity))
            .map(|event| &event.state)
            .ok_or_else(|| Error::invalid("an event of another device"))
    }

    /// Enqueues a copy between a staging buffer and a view.
    fn copy(
        &self,
        stream: Stream,
        staging: &mut dyn Staging,
        offset_bytes: u64,
        view: View,
        wanted: StagingKind,
    ) -> Result<()> {
        check_copy(staging.kind(), wanted, staging.size_bytes(), offset_bytes, view)?;
        let staging = staging
            .as_any_mut()
            .downcast_mut::<CpuStaging>()
            .ok_or_else(|| Error::invalid("a staging buffer of another backend"))?;
        staging.forget_done();
        let state = self.state();
        let (_, region) = Self::memory_of(&state, view)?;
        let queue = Self::queue(&state, stream)?;
        let host = Arc::clone(&staging.memory);
        let name = if wanted == StagingKind::Upload { "upload" } else { "download" };
        let pool = Arc::clone(&self.pool);
        queue.run(name, move || {
            let to_device = wanted == StagingKind::Upload;
            let renamed = |error| match error {
                Error::KernelFailed { reason, .. } => Error::KernelFailed { name, reason },
                other => other,
            };
            let mut device = Claim::new(&region, view, to_device).map_err(renamed)?;
            let mut host =
                Claim::range(&host, "staging", offset_bytes, view.len_bytes(), !to_device)
                    .map_err(renamed)?;
            let (target, source) =
                if to_device { (&mut device, &host) } else { (&mut host, &device) };
            pool.install(|| crate::vector::copy(target.bytes_mut(), source.bytes()))
                .map_err(|error| Error::KernelFailed { name, reason: error.to_string() })
        })?;
        staging.pending.push(queue.record()?);
        Ok(())
    }

    /// The shape of a plan, if this backend can make it.
    fn shape(shape: DigitsShape) -> Result<Shape> {
        if shape.tables != 1 {
            let what = format!("{} tables of bases on the CPU backend, only 1", shape.tables);
            return Err(Error::Unsupported(what));
        }
        let limit = Shape::MAX_LEN as u64;
        let len = usize::try_from(shape.max_len).ok().filter(|_| shape.max_len <= limit);
        let Some(len) = len else {
            let what = "scalars of a digit plan".to_owned();
            return Err(Error::ExceedsLimit { what, requested: shape.max_len, limit });
        };
        Shape::new(len, shape.window_bits).map_err(|error| Error::Unsupported(error.to_string()))
    }

    fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

/// An MSM's sizes in bytes: accumulator, scratch of `accumulate`, scratch of `reduce`.
fn msm_bytes<F: Coordinate>(shape: &Shape, threads: usize) -> [u64; 3] {
    [
        shape.num_accumulators() * 2 * size_of::<F>(),
        msm::accumulate_workspace_bytes::<F>(shape, threads),
        msm::reduce_workspace_bytes::<F>(shape, threads),
    ]
    .map(|bytes| bytes as u64)
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let regions_bytes = self.state().regions_bytes;
        let (free_bytes, total_bytes) = system_memory_bytes()
            .unwrap_or((ASSUMED_MEMORY_BYTES.saturating_sub(regions_bytes), ASSUMED_MEMORY_BYTES));
        Ok(MemoryInfo { free_bytes, total_bytes, regions_bytes })
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let memory = self.new_memory(name, size_bytes)?;
        let region = Region::fresh(class, size_bytes);
        let mut state = self.state();
        state.regions.insert(region, memory);
        state.regions_bytes += size_bytes;
        Ok(region)
    }

    fn free(&self, region: Region) -> Result<()> {
        let mut state = self.state();
        // Work that still uses the memory holds it too.
        if state.regions.remove(&region).is_none() {
            return Err(Error::invalid(format!("region {} is not alive on {NAME}", region.id())));
        }
        state.regions_bytes -= region.size_bytes();
        Ok(())
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        let memory = self.new_memory(name, size_bytes)?;
        Ok(Box::new(CpuStaging::new(name, kind, size_bytes, memory)))
    }

    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        let (queue, thread) = Queue::start(name)?;
        let stream = Stream::fresh();
        let mut state = self.state();
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
        state.streams.insert(stream, queue);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let mut state = self.state();
        Self::queue(&state, stream)?;
        state.streams.remove(&stream);
        Ok(())
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let state = Self::queue(&self.state(), stream)?.record()?;
        Ok(Event::new(CpuEvent { device: Arc::clone(&self.identity), state }))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        let event = Arc::clone(self.event(event)?);
        Self::queue(&self.state(), stream)?.wait(event)
    }

    fn query(&self, event: &Event) -> Result<bool> {
        self.event(event)?.query()
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        self.event(event)?.wait("event", timeout)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        self.copy(stream, source, source_offset_bytes, target, StagingKind::Upload)
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.copy(stream, target, target_offset_bytes, source, StagingKind::Download)
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        if let Op::BaseTables(_) = op {
            // Here an MSM's buckets fit the cache; tables of bases would not.
            return Err(Error::Unsupported("base_tables on the CPU backend".to_owned()));
        }
        let state = self.state();
        let mut regions: Regions = Vec::new();
        for (view, _) in op.views() {
            let (id, memory) = Self::memory_of(&state, view)?;
            if regions.iter().all(|(known, _)| *known != id) {
                regions.push((id, memory));
            }
        }
        let (op, pool) = (op.clone(), Arc::clone(&self.pool));
        Self::queue(&state, stream)?.run(op.name(), move || {
            let execution = Execution { name: op.name(), regions: &regions };
            pool.install(|| execution.run(&op))
        })
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        let bytes = ntt::workspace_bytes(lg_domain, self.threads());
        let workspace_bytes = bytes.map_err(|_| Error::ExceedsLimit {
            what: "lg_domain of an NTT".to_owned(),
            requested: lg_domain.into(),
            limit: ntt::MAX_LG.into(),
        })? as u64;
        Ok(NttLayout { lg_domain, workspace_bytes })
    }

    fn window_bits(&self, _group: Group, len: u64) -> u32 {
        Shape::best_window_bits(usize::try_from(len).unwrap_or(usize::MAX).min(Shape::MAX_LEN))
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        let sizes = Self::shape(shape)?;
        Ok(DigitsLayout {
            shape,
            plan_bytes: sizes.plan_bytes() as u64,
            workspace_bytes: sizes.digits_workspace_bytes(self.threads()) as u64,
        })
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        let sizes = Self::shape(shape)?;
        let bytes = match group {
            Group::G1 => msm_bytes::<Fp>(&sizes, self.threads()),
            Group::G2 => msm_bytes::<Fp2>(&sizes, self.threads()),
        };
        Ok(MsmLayout {
            shape,
            group,
            accumulator_bytes: bytes[0],
            accumulate_workspace_bytes: bytes[1],
            reduce_workspace_bytes: bytes[2],
            num_windows: sizes.num_windows() as u32,
        })
    }
}

impl Drop for CpuDevice {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Without their queues the threads finish and end.
        state.streams.clear();
        for thread in state.threads.drain(..) {
            // A stream's thread catches panics of its work; there is nothing else to report.
            let _ = thread.join();
        }
    }
}
