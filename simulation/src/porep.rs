//! Partitions of a 32 GiB PoRep on cards of given sizes, by the prover's own plans.

use std::sync::Arc;

use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock::scheduler::admission::Ticket;
use twinlock::scheduler::core::Order;
use twinlock::scheduler::plan::{Limits, MemoryPlan, best, named_shape};
use twinlock_api::{Device, MemoryClass, Result};
use twinlock_sim::{Clock, SimCard};

use crate::card::{SlotSpec, config};
use crate::model_inputs::ModelInputs;
use crate::program::Program;
use crate::protocol::ours::{CardSpec, Job, PoolWish, Scene};
use crate::protocol::workers::Shop;
use crate::shape::program;

/// A GiB in bytes.
pub const GIB: u64 = 1 << 30;

fn invalid(error: &twinlock::Error) -> twinlock_api::Error {
    twinlock_api::Error::invalid(error.to_string())
}

/// Opens a card that knows sizes and does nothing, and lets `plan` ask it.
fn on_card<R>(gib: u64, plan: impl FnOnce(&dyn Device, u64) -> Result<R>) -> Result<R> {
    let device = SimCard::new(config("sizes", gib * GIB), Clock::new()).open()?;
    let usable_bytes = device.memory()?.free_bytes;
    plan(&*device, usable_bytes)
}

/// A partition that stages 12 GiB (a, b and the assignment), holds them through the quotient and
/// less after it. All bases are streamed.
///
/// # Errors
/// What the size queries answer.
pub fn of_12_gib(inputs: &ModelInputs) -> Result<Program> {
    let shape = named_shape("porep-32gib").map_err(|error| invalid(&error))?.shape;
    let variant = Variant {
        chunk: 1 << 24,
        bases_chunk: 1 << 20,
        windows: Windows::OfChunk,
        resident: QuerySet::NONE,
        tables: 1,
        ntt_buffers: NttBuffers::Two,
        assignment: AssignmentUpload::Prestage,
        ahead: false,
    };
    let plan =
        on_card(16, |device, bytes| MemoryPlan::new(device, shape, variant, &Limits::new(bytes)))?;
    program(&plan, inputs).map_err(|error| invalid(&error))
}

/// The plan that the prover makes for a card of `gib`.
///
/// # Errors
/// `ExceedsLimit` when there is none, or what the size queries answer.
pub fn best_plan(gib: u64) -> Result<MemoryPlan> {
    let shape = named_shape("porep-32gib").map_err(|error| invalid(&error))?.shape;
    on_card(gib, |device, bytes| best(device, shape, &Limits::new(bytes)))
}

/// The program of [`best_plan`].
///
/// # Errors
/// As [`best_plan`].
pub fn of_card(gib: u64, inputs: &ModelInputs) -> Result<Program> {
    program(&best_plan(gib)?, inputs).map_err(|error| invalid(&error))
}

/// The program of one variant.
///
/// # Errors
/// What the size queries answer.
pub fn of_variant(gib: u64, variant: Variant, inputs: &ModelInputs) -> Result<Program> {
    let shape = named_shape("porep-32gib").map_err(|error| invalid(&error))?.shape;
    let plan =
        on_card(gib, |device, bytes| MemoryPlan::new(device, shape, variant, &Limits::new(bytes)))?;
    program(&plan, inputs).map_err(|error| invalid(&error))
}

/// The program of [`best_plan`] as it would be if nothing were sent ahead.
///
/// # Errors
/// As [`best_plan`].
pub fn not_ahead(gib: u64, inputs: &ModelInputs) -> Result<Program> {
    of_variant(gib, Variant { ahead: false, ..best_plan(gib)?.variant }, inputs)
}

/// `partitions` of one job, all there from the start, on one card of `gib` with `workers`.
pub fn scene(gib: u64, workers: usize, partitions: u32, program: &Arc<Program>) -> Scene {
    let residents: u64 = program.residents().map(|(_, bytes)| bytes).sum();
    let bases_bytes = residents + program.layout_bytes.get(1).copied().unwrap_or(0);
    // One partition computes at a time, so one at a time has bases to stream.
    let pools = vec![
        PoolWish { class: MemoryClass::Work, share: 256, most_bytes: u64::MAX },
        PoolWish { class: MemoryClass::Resident, share: 256, most_bytes: bases_bytes },
    ];
    let card = CardSpec {
        config: config(format!("sim:{gib}"), gib * GIB),
        workers,
        slots: SlotSpec::default(),
        pools,
        open_attempts: 1,
    };
    let jobs = (0..partitions).map(|index| Job {
        ticket: ticket(index),
        host_bytes: 0,
        at: std::time::Duration::ZERO,
        cancelled_at: None,
        plans: vec![vec![program.clone()]],
    });
    Scene { cards: vec![card], jobs: jobs.collect(), ..Scene::default() }
}

/// The partition's place in the queue.
pub fn ticket(index: u32) -> Ticket {
    Order { priority: 0, job: 0, index }.ticket()
}

/// The same for the protocols that went before.
pub fn shop(gib: u64, workers: usize, partitions: u64, program: &Arc<Program>) -> Shop {
    Shop {
        config: config(format!("sim:{gib}"), gib * GIB),
        slots: SlotSpec::default(),
        workers,
        partitions,
        program: program.clone(),
    }
}
