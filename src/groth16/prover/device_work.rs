//! A partition's way through a device: admission, staging, the stages under `compute`, and back.

use std::sync::Arc;

use twinlock_api::{Error as DeviceError, Event as Mark, MemoryClass, View};

use super::assemble::MsmSums;
use super::attempt::Failure;
use super::bases::{Kept, load_query};
use super::lane::Lane;
use super::layout::{ProofLayout, Stage};
use super::partition::{Inputs, Memory, Partition, StageError, StageResult};
use super::plan::{KeyId, Plan, fitting_layout, no_place, query_of, smaller_chunk};
use super::shape::ProofShape;
use super::slot::{DeviceSlot, OpenDevice, Pools};
use super::{Prover, ProvingKey};
use crate::groth16::params::{ParameterSource, Query};
use crate::scheduler::admission::{Profile, Refusal, ResidentPlacement};
use crate::scheduler::core::Event;
use crate::scheduler::events::Life;
use crate::scheduler::locks::{ComputeGuard, LockToken};
use crate::scheduler::plan::parameters_shape;
use crate::scheduler::runtime::{Duty, Memories, Seat, Turn};
use crate::scheduler::staging::StagingRing;
use crate::{Error, Result};

/// The device that a worker is at.
struct Post<'p> {
    prover: &'p Prover,
    slot: &'p DeviceSlot,
    open: Arc<OpenDevice>,
}

impl<'p> Post<'p> {
    fn at(prover: &'p Prover, seat: &Seat<'_>) -> Result<Self> {
        let slot = prover.slot(seat.device())?;
        Ok(Self { prover, slot, open: slot.current()? })
    }

    fn failed(&self, error: StageError) -> Failure {
        let error = self.slot.named(error);
        if self.open.is_stuck() { Failure::Stuck(error) } else { Failure::Error(error) }
    }

    fn refused(&self, error: DeviceError) -> Failure {
        self.failed(error.into())
    }

    fn lane(&self) -> Result<Lane, Failure> {
        Lane::new(self.open.device.clone(), self.prover.options.timeout)
            .map_err(|error| self.refused(error))
    }

    fn pools(&self) -> Result<Arc<Pools>, Failure> {
        let why = "the memories went away before the partition came";
        self.open.pools().ok_or_else(|| self.refused(DeviceError::invalid(why)))
    }
}

/// Proves `inputs` up to the sums of the MSMs. What the partition held is wiped when this returns,
/// whatever it returns.
pub(super) fn compute(
    prover: &Prover,
    seat: &Seat<'_>,
    (inputs, shape): (Inputs<'_>, ProofShape),
    stays: Option<KeyId>,
    token: &mut LockToken,
) -> Result<MsmSums, Failure> {
    let post = Post::at(prover, seat)?;
    let plan = admit(&post, seat, (shape, stays), |plan| Ok(plan.profile.clone()), token)?;
    let queries = plan.layout.groups.iter().flat_map(|group| &group.queries);
    let streamed = queries.filter(|query| query.streamed).map(|query| query.query.name()).collect();
    seat.tell(Life::Planned { streamed });
    // Before the partition, so that they are wiped after its copies have ended.
    let mut staging = post.open.staging.ring(seat.ticket().0);
    let outcome = run(&post, seat, inputs, &plan, &mut staging, token);
    let wiped = staging.wipe();
    // A stuck device is known as such only now, when the partition is gone. Of a cancelled partition
    // too: what it held may still be written to.
    let sums = outcome.map_err(|failure| match failure {
        Failure::Error(error) if post.open.is_stuck() => Failure::Stuck(error),
        Failure::Halted(_) if post.open.is_stuck() => Failure::Stuck(Error::Cancelled),
        other => other,
    })?;
    wiped.map_err(|error| post.refused(error))?;
    seat.post(Event::StageEnded { ticket: seat.ticket(), stage: Stage::Drain as u8 });
    Ok(sums)
}

fn run(
    post: &Post<'_>,
    seat: &Seat<'_>,
    inputs: Inputs<'_>,
    plan: &Plan,
    staging: &mut StagingRing,
    token: &mut LockToken,
) -> Result<MsmSums, Failure> {
    let failed = |error| post.failed(error);
    let pools = post.pools()?;
    let memory = Memory::new(post.open.clone(), pools.clone(), &plan.layout);
    let mut partition = Partition::new(post.lane()?, inputs, plan, memory);

    let mut asked = None;
    while seat.await_turn(&mut asked, partition.is_staged(), token)? == Turn::Prestage {
        let placements = seat.prestage(token)?;
        partition.place(&placements);
        upload(seat, &mut partition, staging, token).map_err(failed)?;
    }
    // What had no room then has it now, and perhaps before `compute` comes.
    let (placements, residents) = seat.reserve(token)?;
    partition.place(&placements);
    upload(seat, &mut partition, staging, token).map_err(failed)?;
    let layout = &plan.layout;
    bring(
        post,
        seat,
        inputs.source,
        (layout, &pools, &residents),
        staging,
        token,
        |query, points| {
            partition.place_resident(query, points);
        },
    )?;

    for query in Query::ALL.into_iter().filter(|query| plan.layout.shape.query_len(*query) == 0) {
        let nothing = pools.view(MemoryClass::Resident).slice(0, 0);
        partition.place_resident(query, nothing.map_err(|error| post.refused(error))?);
    }

    let mut guard = ComputeGuard::enter(seat.await_compute(token)?, token);
    seat.tell(Life::ComputeStarted);
    staging.computes();
    let computed = run_stages(seat, &mut partition, staging, &mut guard);
    seat.tell(Life::ComputeEnded);
    guard.hand_back();
    computed.map_err(failed)?;
    if let Some(halt) = seat.halted() {
        return Err(halt.into());
    }
    seat.post(Event::ComputeEnded { ticket: seat.ticket() });

    let mut wait = token.device_wait();
    seat.tell(Life::StageStarted(Stage::Drain.name()));
    let sums = post.open.with_readback(&post.prover.options, |readback| {
        let sums = partition.drain(readback)?;
        partition.finish(&mut wait)?;
        Ok(sums)
    });
    seat.tell(Life::StageEnded(Stage::Drain.name()));
    sums.map_err(failed)
}

/// Uploads what of the prestage has a place, unless the device has nothing else to do: then the
/// stages upload what they need.
fn upload(
    seat: &Seat<'_>,
    partition: &mut Partition<'_>,
    staging: &mut StagingRing,
    token: &mut LockToken,
) -> StageResult {
    let wanted = |partition: &Partition<'_>, token: &mut LockToken| {
        partition.has_to_stage() && !seat.may_compute(token)
    };
    if !wanted(partition, token) {
        return Ok(());
    }
    telling_of_uploads(seat, true, || {
        while wanted(partition, token) {
            partition.prestage_next(staging, &mut token.device_wait())?;
        }
        Ok(())
    })
}

/// Enqueues each stage while the one before it runs, and gives back what the host has seen end.
/// Then, while the stage runs, sends ahead what the next one needs, into memory of those that ended.
fn run_stages(
    seat: &Seat<'_>,
    partition: &mut Partition<'_>,
    staging: &mut StagingRing,
    guard: &mut ComputeGuard<'_>,
) -> StageResult {
    let ticket = seat.ticket();
    let end = |partition: &mut Partition<'_>,
               (stage, mark): (Stage, Mark),
               guard: &mut ComputeGuard<'_>| {
        let ended = partition.complete(stage, &mark, &mut guard.device_wait());
        seat.tell(Life::StageEnded(stage.name()));
        if ended.is_ok() {
            seat.post(Event::StageEnded { ticket, stage: stage as u8 });
        }
        ended
    };
    partition.run(Stage::Prestage, staging, &mut guard.device_wait())?;
    seat.post(Event::StageEnded { ticket, stage: Stage::Prestage as u8 });
    let mut running: Option<(Stage, Mark)> = None;
    let mut stages = [Stage::Quotient, Stage::H, Stage::La, Stage::B].into_iter().peekable();
    while let Some(stage) = stages.next() {
        if seat.halted().is_some() {
            break;
        }
        let uploads = partition.has_to_stage_for(stage);
        let next = telling_of_uploads(seat, uploads, || {
            partition.run(stage, staging, &mut guard.device_wait())?;
            partition.mark()
        });
        if let Some(before) = running.take() {
            end(partition, before, guard)?;
        }
        running = Some((stage, next?));
        seat.tell(Life::StageStarted(stage.name()));
        if let Some(following) = stages.peek() {
            let uploads = partition.has_to_stage_for(*following);
            telling_of_uploads(seat, uploads, || {
                partition.send_ahead(*following, staging, &mut guard.device_wait())
            })?;
        }
    }
    match running {
        Some(last) => end(partition, last, guard),
        None => Ok(()),
    }
}

/// Does `work`; where that `uploads` what a partition has not staged, it is told of as its prestage.
fn telling_of_uploads<R>(seat: &Seat<'_>, uploads: bool, work: impl FnOnce() -> R) -> R {
    if !uploads {
        return work();
    }
    seat.tell(Life::StageStarted(Stage::Prestage.name()));
    let done = work();
    seat.tell(Life::StageEnded(Stage::Prestage.name()));
    done
}

/// Loads a key's queries, as many as the device's plan for its proofs keeps there.
pub(super) fn load(
    prover: &Prover,
    seat: &Seat<'_>,
    key: &ProvingKey<'_>,
    token: &mut LockToken,
) -> Result<(), Failure> {
    let post = Post::at(prover, seat)?;
    let shape = parameters_shape(key.source)?.shape;
    let plan = admit(&post, seat, (shape, prover.stays(key)), Plan::residents_only, token)?;
    let pools = post.pools()?;
    let (_, residents) = seat.reserve(token)?;
    let mut staging = post.open.staging.ring(seat.ticket().0);
    let places = (&plan.layout, &*pools, &residents[..]);
    bring(&post, seat, key.source, places, &mut staging, token, |_, _| ())?;
    staging.wipe().map_err(|error| post.refused(error))?;
    ComputeGuard::enter(seat.await_compute(token)?, token).hand_back();
    seat.post(Event::ComputeEnded { ticket: seat.ticket() });
    Ok(())
}

/// Finds the plan with the largest chunks that the device takes, making its memories larger where
/// that helps, and has `profile` of it admitted.
fn admit(
    post: &Post<'_>,
    seat: &Seat<'_>,
    (shape, stays): (ProofShape, Option<KeyId>),
    profile: impl Fn(&Plan) -> Result<Arc<Profile>>,
    token: &mut LockToken,
) -> Result<Plan, Failure> {
    let (open, options) = (&post.open, &post.prover.options);
    let (mut most, mut whole) = (None, false);
    // What the driver had not, and the bytes of the plan that it was for.
    let mut short: Option<(DeviceError, u64)> = None;
    loop {
        let budget = open.budget_bytes(stays.is_some());
        let fitting = fitting_layout(&*open.device, shape, stays.is_some(), most, budget, options);
        let layout = match (fitting, short.take()) {
            (Ok(layout), before) => {
                let is_smaller = |(_, bytes): &(_, u64)| Plan::bytes_of(&layout, stays) < *bytes;
                if let Some((said, _)) = before.filter(|before| !is_smaller(before)) {
                    return Err(post.refused(said));
                }
                layout
            }
            // Nothing is small enough for what the driver has.
            (Err(_), Some((said, _))) => return Err(post.refused(said)),
            // What it had not some time ago it may have now.
            (Err(DeviceError::ExceedsLimit { .. }), None) if open.forget_refusal() => continue,
            (Err(error), None) => return Err(post.refused(error)),
        };
        let plan = if whole { Plan::whole(layout, stays) } else { Plan::by_buffer(layout, stays) }?;
        // Making the memories anew loses what stays in them, so there they are made for all workers.
        let crowd = if stays.is_some() { usize::MAX } else { seat.crowd(token) };
        let partitions = crowd.min(options.workers);
        if open.wanted_sizes(&plan, partitions) != open.sizes() {
            if seat.await_memories(token)? == Memories::LookAgain {
                continue;
            }
            // Another may have made them meanwhile.
            let wanted = open.wanted_sizes(&plan, partitions);
            let made = match wanted == open.sizes() {
                true => Ok(()),
                false => open.make_pools(wanted, &plan, &mut token.device_wait()),
            };
            seat.memories_made(open.pool_specs());
            match made {
                // Memories smaller than asked for are for another number of tables, and those of this
                // one would be loaded in vain.
                Ok(()) if plan.layout.variant.tables > 1 && open.sizes() != wanted => continue,
                Ok(()) => {}
                Err(error @ DeviceError::OutOfMemory { .. }) => {
                    short = Some((error, Plan::bytes_of(&plan.layout, stays)));
                    continue;
                }
                Err(error) => return Err(post.refused(error)),
            }
        }
        match seat.arrive(profile(&plan)?, token)? {
            Ok(()) => return Ok(plan),
            // Others made the memories anew before it came.
            Err(Refusal::NeverFits { .. })
                if open.wanted_sizes(&plan, partitions) != open.sizes() => {}
            // Buffers one by one may leave holes that the layout's own places do not.
            Err(Refusal::NeverFits { .. }) if !whole => whole = true,
            Err(Refusal::NeverFits { needed_bytes, capacity_bytes, .. }) => {
                let Some(chunk) = smaller_chunk(&plan.layout) else {
                    return Err(post.refused(no_place(needed_bytes, capacity_bytes)));
                };
                (most, whole) = (Some(chunk), false);
            }
            Err(why) => {
                let why = format!("the device's memories do not take the partition: {why:?}");
                return Err(post.refused(DeviceError::invalid(why)));
            }
        }
    }
}

/// Sees to it that the residents of a partition are on the device: loads those that nobody loads,
/// waits for the others. `found` is told of each.
fn bring(
    post: &Post<'_>,
    seat: &Seat<'_>,
    source: &dyn ParameterSource,
    (layout, pools, residents): (&ProofLayout, &Pools, &[ResidentPlacement]),
    staging: &mut StagingRing,
    token: &mut LockToken,
    mut found: impl FnMut(Query, View),
) -> Result<(), Failure> {
    for resident in residents {
        let Some(query) = query_of(resident.key) else { continue };
        let (tables, shift_bits) = layout.tables(query);
        // As many points as were planned; an h query may have one more.
        let table_bytes = (layout.shape.query_len(query) * query.point_bytes()) as u64;
        let size_bytes = table_bytes.saturating_mul(tables.into());
        let points = (pools.view(MemoryClass::Resident))
            .slice(resident.offset_bytes, size_bytes)
            .map_err(|error| post.refused(error))?
            .named(query.name());
        if seat.await_resident(resident.key, token)? == Duty::Load {
            seat.tell(Life::StageStarted("residents"));
            let kept = Kept { query, points, tables, shift_bits };
            let loaded = load_resident(post, source, kept, staging, token);
            seat.tell(Life::StageEnded("residents"));
            loaded?;
            seat.resident_loaded(resident.key, token);
        }
        found(query, points);
    }
    Ok(())
}

fn load_resident(
    post: &Post<'_>,
    source: &dyn ParameterSource,
    kept: Kept,
    staging: &mut StagingRing,
    token: &mut LockToken,
) -> Result<(), Failure> {
    let _wait = token.device_wait();
    let lane = post.lane()?;
    let loaded = post.open.with_decode_status(|status| {
        post.open.with_readback(&post.prover.options, |readback| {
            load_query(&lane, source, kept, status, staging, readback)
        })
    });
    if loaded.is_err() && !lane.settle() {
        post.open.retire();
    }
    loaded.map_err(|error| post.failed(error))
}
