//! One worker carries one partition, or the loading of a key, through one attempt.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::Error as DeviceError;

use super::assemble::{Blinding, assemble};
use super::device_work::{compute, load};
use super::partition::Inputs;
use super::shape::ProofShape;
use super::{Proved, Prover, ProvingKey, circuit_shape, refuse_unsatisfied};
use crate::groth16::assignment::Assignment;
use crate::groth16::params::check_shape;
use crate::groth16::verifier::verify_proof;
use crate::registry;
use crate::scheduler::core::{Event, Fault};
use crate::scheduler::events::Life;
use crate::scheduler::locks::LockToken;
use crate::scheduler::runtime::{Halt, Seat};
use crate::{Error, Result};

/// Makes an assignment; the same at every call.
pub(super) type Synthesis<'e> = Box<dyn Fn() -> Result<Assignment> + Send + Sync + 'e>;

/// Where a partition's assignment comes from.
pub(super) enum Supply<'e> {
    Ready(&'e Assignment),
    Synthesis(Synthesis<'e>),
}

/// What there is to do for an entry of the queue.
pub(super) enum Task<'e> {
    Prove {
        supply: Supply<'e>,
        blinding: Blinding,
    },
    /// Bring the key's queries to the device, to stay there.
    Load,
}

/// An entry of the queue.
pub(super) struct Item<'e> {
    pub key: &'e ProvingKey<'e>,
    pub task: Task<'e>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    failed_attempts: Vec<String>,
    outcome: Option<Result<Proved>>,
}

impl<'e> Item<'e> {
    pub fn new(key: &'e ProvingKey<'e>, task: Task<'e>) -> Self {
        Self { key, task, tally: Mutex::default() }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // Each change is one push or assignment, so a panic elsewhere in the thread leaves it whole.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the attempt ended in a panic, which has wiped what it held.
    pub fn panicked(&self, seat: &Seat<'_>) {
        let (what, problem) = ("partition".into(), "its worker panicked".to_owned());
        let reason = problem.clone();
        self.tally().outcome = Some(Err(Error::Invalid { what, problem }));
        seat.fail(Fault::Final, reason);
    }

    /// What came of it, once it has ended; nothing for a load that succeeded, and for what nobody
    /// could take.
    pub fn outcome(&self) -> Option<Result<Proved>> {
        self.tally().outcome.take()
    }
}

/// Why there is no proof.
pub(super) enum Failure {
    Halted(Halt),
    /// The proof failed its self-check; what the device is called.
    Wrong(String),
    /// Work on the device ran past its time and cannot be stopped.
    Stuck(Error),
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

impl Failure {
    /// What the dispatcher makes of it, and the error that the caller gets if nobody does better.
    fn explain(self) -> (Fault, Error) {
        match self {
            Self::Halted(_) => (Fault::Lost, Error::Cancelled),
            Self::Wrong(device) => {
                let attempts = format!("{device}: failed its self-check");
                (Fault::Wrong, Error::InvalidProof { attempts })
            }
            Self::Stuck(error) => (Fault::Lost, error),
            Self::Error(error) => {
                let fault = match &error {
                    Error::Device { source, .. } => match source {
                        DeviceError::DeviceLost { .. } => Fault::Lost,
                        DeviceError::ExceedsLimit { .. } => Fault::NoRoom,
                        DeviceError::KernelFailed { .. }
                        | DeviceError::Timeout { .. }
                        | DeviceError::OutOfMemory { .. } => Fault::Wrong,
                        _ => Fault::Final,
                    },
                    _ => Fault::Final,
                };
                (fault, error)
            }
        }
    }
}

/// An attempt in a few words, for a list of them.
fn in_short(error: &Error) -> String {
    match error {
        Error::InvalidProof { attempts } => attempts.clone(),
        Error::Device { device, source } => format!("{device}: {source}"),
        other => other.to_string(),
    }
}

/// The error after several attempts: the only one as it is, more in a list.
fn joined(mut attempts: Vec<String>, last: Error) -> Error {
    let is_only = attempts.is_empty() && !matches!(last, Error::InvalidProof { .. });
    if is_only {
        return last;
    }
    attempts.push(in_short(&last));
    Error::InvalidProof { attempts: attempts.join("; ") }
}

/// Makes one attempt and says what came of it.
pub(super) fn carry(prover: &Prover, seat: &Seat<'_>, item: &Item<'_>, token: &mut LockToken) {
    let outcome = match &item.task {
        Task::Prove { supply, blinding } => {
            prove(prover, seat, item, (supply, blinding), token).map(Some)
        }
        Task::Load => load(prover, seat, item.key, token).map(|()| None),
    };
    let ticket = seat.ticket();
    match outcome {
        Ok(proved) => {
            item.tally().outcome = proved.map(Ok);
            seat.post(Event::Finished { ticket });
        }
        Err(Failure::Halted(Halt::Stop)) => seat.post(Event::Stopped { ticket }),
        Err(Failure::Halted(Halt::Abandon)) => {
            seat.fail(Fault::Lost, "its device was lost".into());
        }
        Err(failure) => {
            let (fault, error) = failure.explain();
            let reason = in_short(&error);
            let mut tally = item.tally();
            let earlier = tally.failed_attempts.clone();
            tally.failed_attempts.push(reason.clone());
            tally.outcome = Some(Err(joined(earlier, error)));
            drop(tally);
            seat.fail(fault, reason);
        }
    }
}

fn prove(
    prover: &Prover,
    seat: &Seat<'_>,
    item: &Item<'_>,
    (supply, blinding): (&Supply<'_>, &Blinding),
    token: &mut LockToken,
) -> Result<Proved, Failure> {
    let made;
    let assignment = match supply {
        Supply::Ready(assignment) => *assignment,
        Supply::Synthesis(synthesis) => {
            let synthesize = || {
                catch_unwind(AssertUnwindSafe(synthesis)).unwrap_or_else(|_| {
                    let (what, problem) = ("circuit".into(), "its synthesis panicked".into());
                    Err(Error::Invalid { what, problem })
                })
            };
            made = on_host(seat, "synthesis", synthesize)?;
            &made
        }
    };
    let shape = ProofShape::of(assignment)?;
    check_shape(item.key.source, &circuit_shape(assignment))?;
    if !prover.options.self_check {
        // Without the check of the proof, the check of the witness.
        refuse_unsatisfied("no device", assignment)?;
    }
    let failure = match prove_here(prover, seat, item, (assignment, shape, blinding), token) {
        Ok(proved) => return Ok(proved),
        Err(failure) => failure,
    };
    if let Failure::Wrong(device) = &failure {
        tracing::error!(device, "a proof failed its self-check");
        refuse_unsatisfied(device, assignment)?;
    }
    let Some(cpu) = helper_for(prover, &failure)? else { return Err(failure) };
    let (_, error) = failure.explain();
    let reason = in_short(&error);
    // The CPU may take long; the device is others' meanwhile.
    seat.post(Event::GaveUp { ticket: seat.ticket() });
    seat.tell(Life::Retried { reason: reason.clone() });
    let repeated = cpu.prove_for(Some(seat.halting()), item.key, assignment, blinding);
    if let Some(halt) = seat.halted() {
        return Err(halt.into());
    }
    match repeated {
        Ok(mut proved) => {
            proved.failed_attempts.insert(0, reason);
            Ok(proved)
        }
        Err(error) => Err(joined(vec![reason], error).into()),
    }
}

/// The CPU, where the only device failed: always for a wrong proof, for a failing device only
/// when the choice of the device was ours.
fn helper_for<'p>(prover: &'p Prover, failure: &Failure) -> Result<Option<&'p Prover>, Failure> {
    let auto = prover.options.device == registry::AUTO;
    let helps = match failure {
        Failure::Wrong(_) => true,
        // The CPU may have more memory, unless it is what failed.
        Failure::Error(Error::Device { source: DeviceError::ExceedsLimit { .. }, device }) => {
            auto && device != "cpu"
        }
        Failure::Error(Error::Device {
            source:
                DeviceError::KernelFailed { .. }
                | DeviceError::Timeout { .. }
                | DeviceError::OutOfMemory { .. },
            ..
        }) => auto,
        _ => false,
    };
    if helps { Ok(prover.fallback()?) } else { Ok(None) }
}

fn prove_here(
    prover: &Prover,
    seat: &Seat<'_>,
    item: &Item<'_>,
    (assignment, shape, blinding): (&Assignment, ProofShape, &Blinding),
    token: &mut LockToken,
) -> Result<Proved, Failure> {
    let key = item.key;
    let start = Instant::now();
    let inputs = Inputs { assignment, source: key.source };
    let sums = compute(prover, seat, (inputs, shape), prover.stays(key), token)?;
    seat.post(Event::Drained { ticket: seat.ticket() });
    let proof = assemble(key.source.verifying_key(), &sums, blinding);
    let prove_time = start.elapsed();
    let device = prover.slot(seat.device())?.current()?.device.info().name.clone();
    let mut check_time = Duration::ZERO;
    if prover.options.self_check {
        let start = Instant::now();
        let valid = on_host(seat, "check", || {
            verify_proof(&key.verifying_key, &proof, assignment.public_inputs())
        })?;
        check_time = start.elapsed();
        if !valid {
            return Err(Failure::Wrong(device));
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
