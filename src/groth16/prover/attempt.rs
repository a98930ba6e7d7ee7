//! One worker carries one partition through one attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::Error as DeviceError;

use super::assemble::{Blinding, MsmSums, assemble};
use super::lane::Lane;
use super::layout::Stage;
use super::partition::{Inputs, Memory, Partition, StageError};
use super::plan::{POOLS, Plan};
use super::shape::ProofShape;
use super::slot::{DeviceSlot, SMALLEST_CHUNK};
use super::{Proved, Prover, ProvingKey, circuit_shape};
use crate::groth16::assignment::Assignment;
use crate::groth16::params::check_shape;
use crate::groth16::verifier::verify_proof;
use crate::scheduler::admission::Refusal;
use crate::scheduler::core::{Event, Fault};
use crate::scheduler::events::Life;
use crate::scheduler::locks::{ComputeGuard, LockToken};
use crate::scheduler::runtime::{Halt, Seat};
use crate::{Error, Result};

/// Makes an assignment; the same at every call.
pub(super) type Synthesis<'e> = Box<dyn Fn() -> Result<Assignment> + Send + Sync + 'e>;

/// Where a partition's assignment comes from.
pub(super) enum Supply<'e> {
    Ready(&'e Assignment),
    Synthesis(Synthesis<'e>),
}

/// A partition in the queue.
pub(super) struct Item<'e> {
    pub key: &'e ProvingKey<'e>,
    pub supply: Supply<'e>,
    pub blinding: Blinding,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    failed_attempts: Vec<String>,
    outcome: Option<Result<Proved>>,
}

impl<'e> Item<'e> {
    pub fn new(key: &'e ProvingKey<'e>, supply: Supply<'e>, blinding: Blinding) -> Self {
        Self { key, supply, blinding, tally: Mutex::default() }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of it, once it has ended.
    pub fn outcome(&self) -> Option<Result<Proved>> {
        self.tally().outcome.take()
    }

    /// What went wrong in the attempts, in one line.
    pub fn attempts(&self) -> String {
        self.tally().failed_attempts.join("; ")
    }
}

/// Why there is no proof.
enum Failure {
    Halted(Halt),
    /// The device computed wrongly: another may do better.
    Wrong(String),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

/// Says that the attempt failed if nobody else does: a circuit of the caller's may panic.
struct SayFailed<'a, 'r>(Option<&'a Seat<'r>>);

impl Drop for SayFailed<'_, '_> {
    fn drop(&mut self) {
        if let Some(seat) = self.0 {
            seat.fail(Fault::Final, "its worker panicked".into());
        }
    }
}

/// Makes one attempt and says what came of it.
pub(super) fn carry(prover: &Prover, seat: &Seat<'_>, item: &Item<'_>, token: &mut LockToken) {
    let mut otherwise = SayFailed(Some(seat));
    let outcome = attempt(prover, seat, item, token);
    otherwise.0 = None;
    let ticket = seat.ticket();
    match outcome {
        Ok(proved) => {
            item.tally().outcome = Some(Ok(proved));
            seat.post(Event::Finished { ticket });
        }
        Err(Failure::Halted(Halt::Stop)) => seat.post(Event::Stopped { ticket }),
        Err(Failure::Halted(Halt::Abandon)) => {
            seat.fail(Fault::Lost, "its device was lost".into());
        }
        Err(Failure::Wrong(reason)) => {
            item.tally().failed_attempts.push(reason.clone());
            seat.fail(Fault::Wrong, reason);
        }
        Err(Failure::Error(error)) => {
            let fault = match &error {
                Error::Device { source: DeviceError::DeviceLost { .. }, .. } => Fault::Lost,
                Error::Device { source: DeviceError::KernelFailed { .. }, .. } => Fault::Wrong,
                Error::Device { source: DeviceError::ExceedsLimit { .. }, .. } => Fault::NoRoom,
                _ => Fault::Final,
            };
            let reason = error.to_string();
            let mut tally = item.tally();
            tally.failed_attempts.push(reason.clone());
            tally.outcome = Some(Err(error));
            drop(tally);
            seat.fail(fault, reason);
        }
    }
}

fn attempt(
    prover: &Prover,
    seat: &Seat<'_>,
    item: &Item<'_>,
    token: &mut LockToken,
) -> Result<Proved, Failure> {
    let key = item.key;
    let made;
    let assignment = match &item.supply {
        Supply::Ready(assignment) => *assignment,
        Supply::Synthesis(synthesis) => {
            made = on_host(seat, "synthesis", synthesis)?;
            &made
        }
    };
    let shape = ProofShape::of(assignment)?;
    check_shape(key.source, &circuit_shape(assignment))?;
    let slot = prover.slot(seat.device())?;
    let resident = key.resident.as_ref().filter(|(device, _)| *device == seat.device().0);
    let inputs =
        Inputs { assignment, source: key.source, resident: resident.map(|(_, kept)| kept) };

    let start = Instant::now();
    let plan = admit(prover, slot, seat, shape, inputs.resident.is_none(), token)?;
    let sums = compute(prover, slot, seat, inputs, &plan, token)?;
    seat.post(Event::Drained { ticket: seat.ticket() });

    let proof = assemble(key.source.verifying_key(), &sums, &item.blinding);
    let prove_time = start.elapsed();
    let device = slot.device.info().name.clone();
    let mut check_time = Duration::ZERO;
    if prover.options.self_check {
        let start = Instant::now();
        let valid = on_host(seat, "check", || {
            verify_proof(&key.verifying_key, &proof, assignment.public_inputs())
        })?;
        check_time = start.elapsed();
        if !valid {
            tracing::error!(device, "a proof failed its self-check");
            if let Some(row) = assignment.first_unsatisfied() {
                let attempts = format!(
                    "{device}: failed its self-check, for the witness does not satisfy \
                     constraint {row}"
                );
                return Err(Error::InvalidProof { attempts }.into());
            }
            let reason = format!("{device}: failed its self-check");
            let Some(fallback) = prover.fallback()? else { return Err(Failure::Wrong(reason)) };
            let Blinding { r, s } = item.blinding;
            seat.tell(Life::Retried { reason: reason.clone() });
            return match fallback.prove(key, assignment, r, s) {
                Ok(mut proved) => {
                    proved.failed_attempts.insert(0, reason);
                    Ok(proved)
                }
                Err(Error::InvalidProof { attempts }) => {
                    Err(Error::InvalidProof { attempts: format!("{reason}; {attempts}") }.into())
                }
                Err(error) => Err(error.into()),
            };
        }
    }
    let failed_attempts = item.tally().failed_attempts.clone();
    Ok(Proved { proof, device, prove_time, check_time, failed_attempts })
}

fn on_host<R>(seat: &Seat<'_>, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    seat.tell(Life::HostStarted(name));
    let done = work();
    seat.tell(Life::HostEnded(name));
    done
}

/// Finds the plan with the largest chunks that the device takes, making its memories larger where
/// that helps.
fn admit(
    prover: &Prover,
    slot: &DeviceSlot,
    seat: &Seat<'_>,
    shape: ProofShape,
    streamed: bool,
    token: &mut LockToken,
) -> Result<Plan, Failure> {
    let named = |error: DeviceError| slot.named(error.into());
    let (mut most, mut whole) = (None, false);
    loop {
        let fitting = slot.fitting_layout(shape, streamed, most, &prover.options);
        let (layout, chunk) = fitting.map_err(named)?;
        let plan = if whole { Plan::whole(layout) } else { Plan::by_buffer(layout) }?;
        let short = |slot: &DeviceSlot, partitions| {
            let wanted = slot.wanted_sizes(&plan.layout, partitions);
            let here = slot.pools().map_or([0, 0], |pools| pools.sizes());
            (wanted != here).then_some(wanted)
        };
        let partitions = seat.crowd(token).min(prover.options.workers);
        if short(slot, partitions).is_some() {
            seat.await_memories(token)?;
            let one = POOLS.map(|class| plan.layout.peak_bytes(class));
            // Another may have made them meanwhile.
            let made = match short(slot, partitions) {
                Some(wanted) => slot.make_pools(wanted, one, &mut token.device_wait()),
                None => Ok(()),
            };
            seat.memories_made(slot.pool_specs());
            made.map_err(named)?;
        }
        match seat.arrive(plan.profile.clone(), token)? {
            Ok(()) => return Ok(plan),
            // Buffers one by one may leave holes that the layout's own places do not.
            Err(Refusal::NeverFits { .. }) if !whole => whole = true,
            Err(Refusal::NeverFits { .. }) if chunk > SMALLEST_CHUNK => {
                (most, whole) = (Some(chunk / 2), false);
            }
            Err(Refusal::NeverFits { needed_bytes, capacity_bytes, .. }) => {
                return Err(Failure::Error(named(DeviceError::ExceedsLimit {
                    what: "bytes of device memory for a proof".into(),
                    requested: needed_bytes,
                    limit: capacity_bytes,
                })));
            }
            Err(why) => {
                let why = format!("the device's memories do not take the partition: {why:?}");
                return Err(Failure::Error(named(DeviceError::invalid(why))));
            }
        }
    }
}

/// Runs all stages. What the partition held is wiped when this returns, whatever it returns.
fn compute(
    prover: &Prover,
    slot: &DeviceSlot,
    seat: &Seat<'_>,
    inputs: Inputs<'_>,
    plan: &Plan,
    token: &mut LockToken,
) -> Result<MsmSums, Failure> {
    let failed = |error: StageError| Failure::Error(slot.named(error));
    let pools = slot.pools().ok_or_else(|| {
        failed(DeviceError::invalid("the memories went away before the partition came").into())
    })?;
    let mut staging = slot.staging.ring();
    let lane = Lane::new(slot.device.clone(), prover.options.timeout);
    let lane = lane.map_err(|error| failed(error.into()))?;
    let mut partition = Partition::new(lane, inputs, plan, Memory::new(pools, &plan.layout));

    let mut upload = |partition: &mut Partition<'_>, placements: Vec<_>, token: &mut LockToken| {
        partition.place(&placements);
        if partition.has_to_stage() {
            seat.tell(Life::StageStarted(Stage::Prestage.name()));
            let staged = partition.prestage_placed(&mut staging, &mut token.device_wait());
            seat.tell(Life::StageEnded(Stage::Prestage.name()));
            staged.map_err(failed)?;
        }
        Ok::<(), Failure>(())
    };
    let placements = seat.prestage(token)?;
    upload(&mut partition, placements, token)?;
    // What had no room then has it now, and perhaps before `compute` comes.
    let placements = seat.reserve(token)?;
    upload(&mut partition, placements, token)?;

    let mut guard = ComputeGuard::enter(seat.await_compute(token)?, token);
    seat.tell(Life::ComputeStarted);
    let computed = slot
        .with_readback(&prover.options, |readback| {
            for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Drain) {
                if seat.halted().is_some() {
                    break;
                }
                let mut wait = guard.device_wait();
                let shown = stage != Stage::Prestage;
                if shown {
                    seat.tell(Life::StageStarted(stage.name()));
                }
                let ran = partition.run(stage, &mut staging, readback, &mut wait);
                let ran = ran.and_then(|_| partition.complete(&mut wait));
                if shown {
                    seat.tell(Life::StageEnded(stage.name()));
                }
                ran?;
                seat.post(Event::StageEnded { ticket: seat.ticket(), stage: stage as u8 });
            }
            Ok(())
        })
        .map_err(failed);
    seat.tell(Life::ComputeEnded);
    guard.hand_back();
    computed?;
    if let Some(halt) = seat.halted() {
        return Err(halt.into());
    }
    seat.post(Event::ComputeEnded { ticket: seat.ticket() });

    let mut wait = token.device_wait();
    seat.tell(Life::StageStarted(Stage::Drain.name()));
    let sums = slot.with_readback(&prover.options, |readback| {
        let sums = partition.run(Stage::Drain, &mut staging, readback, &mut wait)?;
        partition.finish(&mut wait)?;
        staging.wipe()?;
        sums.ok_or_else(|| DeviceError::invalid("no stage gave sums").into())
    });
    seat.tell(Life::StageEnded(Stage::Drain.name()));
    let sums = sums.map_err(failed)?;
    seat.post(Event::StageEnded { ticket: seat.ticket(), stage: Stage::Drain as u8 });
    Ok(sums)
}
