//! The prover: assignments in, checked proofs out.

mod assemble;
mod attempt;
mod bases;
mod canary;
mod device_work;
mod index_maps;
mod lane;
pub mod layout;
mod partition;
pub(crate) mod placement;
mod plan;
mod session;
pub mod shape;
mod slot;
pub mod variant;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bellpepper_core::Circuit;
use blstrs::Scalar;
use ff::Field;
use rand::RngCore;
use twinlock_api::{Device, Error as DeviceError, KernelTime, OpenOptions};

use self::assemble::{Blinding, Factors};
use self::plan::KeyId;
use self::session::CloseAtEnd;
pub use self::session::{Canceller, Job, JobHandle, PartitionInput, Session};
use self::slot::DeviceSlot;
pub use self::slot::Opener;
use super::assignment::{Assignment, synthesize, synthesize_batch};
use super::params::{CircuitShape, ParameterSource, Query};
use super::proof::Proof;
use super::verifier::{PreparedVerifyingKey, prepare_verifying_key};
use crate::config::ProverOptions;
use crate::device_names;
use crate::host_memory;
use crate::host_threads;
use crate::registry;
use crate::scheduler::core::{DeviceId, MemoryUsage};
use crate::scheduler::events::{EventSink, Log};
use crate::scheduler::locks::LockToken;
use crate::scheduler::runtime::{Halted, Runtime};
use crate::{Error, Result};

/// Numbers the keys whose queries stay on devices.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// A proving key as a [`Prover`] uses it: made once, shared by any number of proofs.
pub struct ProvingKey<'a> {
    source: &'a dyn ParameterSource,
    verifying_key: PreparedVerifyingKey,
    /// Set where the queries stay on each device that proves with them.
    stays: Option<KeyId>,
}

impl ProvingKey<'_> {
    /// What proofs are checked against.
    pub fn verifying_key(&self) -> &PreparedVerifyingKey {
        &self.verifying_key
    }

    /// About what an assignment for this key takes on the host, in bytes.
    pub fn assignment_bytes(&self) -> u64 {
        let len = |query| self.source.query_len(query) as u64;
        let inputs = self.source.verifying_key().ic.len() as u64;
        // a, b and c fill most of the domain, of which h has one point less.
        let elements = 3 * (len(Query::H) + 1) + len(Query::L) + inputs;
        elements.saturating_mul(size_of::<Scalar>() as u64)
    }

    /// Whether the queries stay on devices, as far as there is room, and are not streamed for each
    /// proof.
    pub fn is_resident(&self) -> bool {
        self.stays.is_some()
    }
}

impl fmt::Debug for ProvingKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvingKey")
            .field("source", &self.source.name())
            .field("resident", &self.is_resident())
            .finish_non_exhaustive()
    }
}

/// A proof and how it came about.
#[derive(Debug, Clone)]
pub struct Proved {
    /// The proof; verified unless the self-check is off.
    pub proof: Proof,
    /// The name of the device that computed it.
    pub device: String,
    /// From the assignment to the proof, without the self-check.
    pub prove_time: Duration,
    /// The self-check; zero when it is off.
    pub check_time: Duration,
    /// Outcomes of attempts that failed before this one.
    pub failed_attempts: Vec<String>,
}

/// Devices with their memory, opened once, and the queue before them. May be used from several
/// threads at once.
pub struct Prover {
    options: ProverOptions,
    slots: Vec<DeviceSlot>,
    runtime: Runtime,
    jobs: AtomicU32,
    /// Numbers of the threads at work.
    workers: Mutex<BTreeSet<usize>>,
    /// The CPU, for proofs that the only device computed wrongly.
    fallback: OnceLock<Option<Box<Prover>>>,
    /// Whether queries are streamed whatever the key says.
    streams: bool,
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prover")
            .field("options", &self.options)
            .field("devices", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Prover {
    /// Opens the devices that `options` names, again if one is lost.
    ///
    /// # Errors
    /// `Unknown`, `Device`, or `Invalid` for names that make no sense.
    pub fn new(options: ProverOptions) -> Result<Self> {
        let open = OpenOptions { threads: options.threads };
        let devices = device_names::open(&options.device, &open)?;
        let slots = devices
            .into_iter()
            .map(|(device, opener)| DeviceSlot::new(device, Some(opener), &options));
        let slots = slots.collect::<Result<_>>()?;
        Self::with_slots(slots, options)
    }

    /// Proves on `devices`, the preferred first; a proof that fails its self-check on one is
    /// retried once on another. A device that is lost stays so.
    ///
    /// # Errors
    /// `Unknown` when there are none; `Device` when one cannot give staging buffers.
    pub fn with_devices(devices: Vec<Arc<dyn Device>>, options: ProverOptions) -> Result<Self> {
        let slots = devices.into_iter().map(|device| DeviceSlot::new(device, None, &options));
        let slots = slots.collect::<Result<_>>()?;
        Self::with_slots(slots, options)
    }

    /// As [`with_devices`](Self::with_devices), with devices that are opened now, and again when
    /// they are lost.
    ///
    /// # Errors
    /// As there, and what the openers answer.
    pub fn with_openers(openers: Vec<Opener>, options: ProverOptions) -> Result<Self> {
        let slots = openers.into_iter().map(|open| {
            let device = open()?;
            DeviceSlot::new(device, Some(open), &options)
        });
        let slots = slots.collect::<Result<_>>()?;
        Self::with_slots(slots, options)
    }

    fn with_slots(slots: Vec<DeviceSlot>, options: ProverOptions) -> Result<Self> {
        if slots.is_empty() {
            let known = "at least one is needed".into();
            return Err(Error::Unknown { kind: "device", name: String::new(), known });
        }
        let names: Vec<_> = slots.iter().map(|slot| slot.name.clone()).collect();
        options.check_memory_names(&names)?;
        let host_bytes =
            options.host_memory_bytes.unwrap_or_else(host_memory::half_of_available_bytes);
        let runtime = Runtime::new(names, options.workers, host_bytes);
        runtime.observe(Arc::new(Log));
        Ok(Self {
            options,
            slots,
            runtime,
            jobs: AtomicU32::new(0),
            workers: Mutex::default(),
            fallback: OnceLock::new(),
            streams: false,
        })
    }

    /// Tells `sink` of each partition's life from now on.
    pub fn observe(&self, sink: Arc<dyn EventSink>) {
        self.runtime.observe(sink);
    }

    /// Starts as many threads as the devices have workers, gives `user` a session to submit jobs
    /// to, and ends when all of them have.
    pub fn serve<'e, R>(&'e self, user: impl FnOnce(&Session<'e>) -> R) -> R {
        let session = Session::new(self, None);
        let workers = self.options.workers.max(1) * self.slots.len();
        std::thread::scope(|scope| {
            let _close = CloseAtEnd(&session);
            for _ in 0..workers {
                scope.spawn(|| session.work());
            }
            user(&session)
        })
    }

    /// Names of the devices, the preferred first.
    pub fn device_names(&self) -> Vec<&str> {
        self.slots.iter().map(|slot| slot.name.as_str()).collect()
    }

    /// What kernels ran on each device since this was last asked, by name: of those whose backends were
    /// told to time them ([`Device::kernel_time`]).
    pub fn kernel_times(&self) -> BTreeMap<String, KernelTime> {
        let time = |slot: &DeviceSlot| {
            let time = slot.current().ok()?.device.kernel_time()?;
            Some((slot.name.clone(), time))
        };
        self.slots.iter().filter_map(time).collect()
    }

    /// What lies in each device's memories now, in the order of
    /// [`device_names`](Self::device_names).
    pub fn memory_usage(&self) -> Vec<MemoryUsage> {
        let mut token = LockToken::for_this_thread();
        let devices = (0..self.slots.len()).map(DeviceId);
        devices.map(|device| self.runtime.memory_usage(device, &mut token)).collect()
    }

    /// A key whose queries are streamed from `source` for each proof: least memory, and the best
    /// choice for a single proof.
    ///
    /// # Errors
    /// `Key` when the verifying key must not be used.
    pub fn key<'a>(&self, source: &'a dyn ParameterSource) -> Result<ProvingKey<'a>> {
        let verifying_key = prepare_verifying_key(source.verifying_key())?;
        Ok(ProvingKey { source, verifying_key, stays: None })
    }

    /// A key whose queries are loaded onto every device now, to stay there: as many as there is room
    /// for, until partitions of other keys need the room. The others are streamed.
    ///
    /// # Errors
    /// `Key`, `Parameters` for a malformed point, `Device` when no device has room for even the
    /// smallest plan for a proof.
    pub fn load<'a>(&self, source: &'a dyn ParameterSource) -> Result<ProvingKey<'a>> {
        let mut key = self.key(source)?;
        let number = KEYS.fetch_add(1, Ordering::Relaxed);
        key.stays = Some(KeyId(number));
        {
            let session = Session::new(self, None);
            let loads = session.submit_loads(&key);
            session.close();
            std::thread::scope(|scope| {
                for _ in 1..self.slots.len() {
                    scope.spawn(|| session.work());
                }
                host_threads::apart(|| session.work());
            });
            loads.loaded()?;
        }
        Ok(key)
    }

    /// Proves `circuit` with blinding factors `r` and `s`. With zeros for both the proof is valid
    /// but hides nothing.
    ///
    /// # Errors
    /// As [`Prover::prove`], and what synthesis answers.
    pub fn create_proof<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        key: &ProvingKey<'_>,
        r: Scalar,
        s: Scalar,
    ) -> Result<Proof> {
        Ok(self.prove(key, &synthesize(circuit)?, r, s)?.proof)
    }

    /// Proves `circuit` with blinding factors from `rng`.
    ///
    /// # Errors
    /// As [`Prover::create_proof`].
    pub fn create_random_proof<C: Circuit<Scalar>>(
        &self,
        circuit: C,
        key: &ProvingKey<'_>,
        mut rng: impl RngCore,
    ) -> Result<Proof> {
        let blinding = Blinding { r: Scalar::random(&mut rng), s: Scalar::random(&mut rng) };
        self.create_proof(circuit, key, blinding.r, blinding.s)
    }

    /// Proves circuits of one shape; they are synthesised in parallel.
    ///
    /// # Errors
    /// `Shape` for no circuits, unequal ones, or not one `r` and `s` a circuit; else as
    /// [`Prover::create_proof`].
    pub fn create_proof_batch<C: Circuit<Scalar> + Send>(
        &self,
        circuits: Vec<C>,
        key: &ProvingKey<'_>,
        r_s: &[Scalar],
        s_s: &[Scalar],
    ) -> Result<Vec<Proof>> {
        if circuits.is_empty() {
            return Err(Error::shape("circuits of a batch, at least", 1, 0));
        }
        for (what, factors) in [("blinding factors r", r_s), ("blinding factors s", s_s)] {
            if factors.len() != circuits.len() {
                return Err(Error::shape(what, circuits.len(), factors.len()));
            }
        }
        let assignments = synthesize_batch(circuits)?;
        let partitions = (assignments.iter().zip(r_s.iter().zip(s_s)))
            .map(|(assignment, (r, s))| PartitionInput::ready(assignment, *r, *s))
            .collect();
        self.serve(|session| {
            let mut job = session.submit(Job { key, priority: 0, partitions })?;
            let proofs = job.by_ref().map(|outcome| Ok(outcome?.proof)).collect();
            // Of no use without the one that failed.
            drop(job);
            proofs
        })
    }

    /// Proves an assignment. A proof that fails its self-check is never returned: it is retried
    /// once on another device (else on the CPU), unless the assignment itself is at fault. So is a
    /// proof whose device failed, but never past the devices that were asked for by name.
    ///
    /// # Errors
    /// `Shape` when the assignment does not belong to the key, `Limit`, `Device`, `Parameters`,
    /// `Io`, and `InvalidProof` with every attempt's outcome.
    pub fn prove(
        &self,
        key: &ProvingKey<'_>,
        assignment: &Assignment,
        r: Scalar,
        s: Scalar,
    ) -> Result<Proved> {
        self.prove_for(None, key, assignment, &Blinding { r, s })
    }

    /// The same; given up with the partition whose work it is.
    fn prove_for(
        &self,
        outer: Option<Halted>,
        key: &ProvingKey<'_>,
        assignment: &Assignment,
        blinding: &Blinding,
    ) -> Result<Proved> {
        let partitions = vec![PartitionInput::ready(assignment, blinding.r, blinding.s)];
        let session = Session::new(self, outer);
        let mut job = session.submit(Job { key, priority: 0, partitions })?;
        // The calling thread is the only worker, unless it is one that might be given other proofs.
        session.close();
        host_threads::apart(|| session.work());
        job.next().unwrap_or(Err(Error::Cancelled))
    }

    fn slot(&self, device: DeviceId) -> Result<&DeviceSlot> {
        self.slots.get(device.0).ok_or_else(|| Error::Unknown {
            kind: "device",
            name: format!("number {}", device.0),
            known: self.device_names().join(", "),
        })
    }

    fn stays(&self, key: &ProvingKey<'_>) -> Option<KeyId> {
        key.stays.filter(|_| !self.streams)
    }

    /// Opens a lost device again and says what came of it.
    fn reopen(&self, device: DeviceId) {
        let reopened = self.slot(device).and_then(|slot| {
            let reopen = AssertUnwindSafe(|| slot.reopen(&self.options));
            catch_unwind(reopen).unwrap_or_else(|_| {
                let (what, problem) = ("opener of a device".into(), "it panicked".into());
                Err(Error::Invalid { what, problem })
            })
        });
        let name = self.slots.get(device.0).map_or("", |slot| &slot.name);
        let reopened = reopened.or_else(|error| {
            if self.options.device != registry::AUTO || name == "cpu" {
                return Err(error);
            }
            tracing::error!(device = name, %error, "the device is lost; the CPU takes its place");
            self.slot(device)?.replace_by_cpu(&self.options)
        });
        match &reopened {
            Ok(()) => tracing::warn!(device = name, "the device was lost and opened again"),
            Err(error) => {
                tracing::error!(device = name, %error, "the device is lost; it needs a restart");
            }
        }
        self.runtime.reopened(device, reopened.is_ok());
    }

    fn nobody_left(&self) -> Error {
        let reason = "no device is left to prove on".into();
        let device = self.device_names().join(", ");
        Error::Device { device, source: DeviceError::DeviceLost { reason } }
    }

    /// A number for a thread, which no other at work has.
    fn worker(&self) -> WorkerNumber<'_> {
        let mut taken = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(usize::MAX);
        taken.insert(number);
        WorkerNumber { taken: &self.workers, number }
    }

    /// Who repeats a proof that the only device computed wrongly; nobody if there are others.
    fn fallback(&self) -> Result<Option<&Self>> {
        if self.slots.len() > 1 {
            return Ok(None);
        }
        if self.fallback.get().is_none() {
            let open = OpenOptions { threads: self.options.threads };
            let devices = vec![registry::open("cpu", &open)?];
            // The limit was meant for the device that failed.
            let options = self.options.without_memory_limits();
            let mut cpu = Self::with_devices(devices, options)?;
            // For one proof a whole key is not worth its memory.
            cpu.streams = true;
            // It has nobody to fall back to.
            let _ = cpu.fallback.set(None);
            // If another thread was first, its one serves as well.
            let _ = self.fallback.set(Some(Box::new(cpu)));
        }
        Ok(self.fallback.get().and_then(Option::as_deref))
    }
}

/// Free again when dropped.
struct WorkerNumber<'p> {
    taken: &'p Mutex<BTreeSet<usize>>,
    number: usize,
}

impl Drop for WorkerNumber<'_> {
    fn drop(&mut self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// The assignment's own fault, named: no other device would do better.
fn refuse_unsatisfied(device: &str, assignment: &Assignment) -> Result<()> {
    let Some(row) = assignment.first_unsatisfied() else { return Ok(()) };
    Err(Error::InvalidProof {
        attempts: format!("{device}: the witness does not satisfy constraint {row}"),
    })
}

fn circuit_shape(assignment: &Assignment) -> CircuitShape {
    CircuitShape {
        num_inputs: assignment.instance.len(),
        num_witness: assignment.witness.len(),
        a_density: assignment.a_witness_density.count(),
        b_input_density: assignment.b_input_density.count(),
        b_witness_density: assignment.b_witness_density.count(),
        domain: assignment.domain(),
    }
}

/// Proves `circuit` on the best device found; bellperson's function of this name.
///
/// # Errors
/// As [`Prover::create_proof`].
pub fn create_proof<C: Circuit<Scalar>>(
    circuit: C,
    params: &dyn ParameterSource,
    r: Scalar,
    s: Scalar,
) -> Result<Proof> {
    let prover = Prover::new(ProverOptions::default())?;
    prover.create_proof(circuit, &prover.key(params)?, r, s)
}

/// Proves `circuit` on the best device found, blinded from `rng`; bellperson's function of this
/// name.
///
/// # Errors
/// As [`Prover::create_proof`].
pub fn create_random_proof<C: Circuit<Scalar>>(
    circuit: C,
    params: &dyn ParameterSource,
    rng: impl RngCore,
) -> Result<Proof> {
    let prover = Prover::new(ProverOptions::default())?;
    prover.create_random_proof(circuit, &prover.key(params)?, rng)
}

/// Proves circuits of one shape on the best device found; bellperson's function of this name.
///
/// # Errors
/// As [`Prover::create_proof_batch`].
pub fn create_proof_batch<C: Circuit<Scalar> + Send>(
    circuits: Vec<C>,
    params: &dyn ParameterSource,
    r_s: &[Scalar],
    s_s: &[Scalar],
) -> Result<Vec<Proof>> {
    let prover = Prover::new(ProverOptions::default())?;
    prover.create_proof_batch(circuits, &prover.key(params)?, r_s, s_s)
}

/// As [`create_proof_batch`], blinded from `rng`.
///
/// # Errors
/// As [`Prover::create_proof_batch`].
pub fn create_random_proof_batch<C: Circuit<Scalar> + Send>(
    circuits: Vec<C>,
    params: &dyn ParameterSource,
    mut rng: impl RngCore,
) -> Result<Vec<Proof>> {
    let mut factors = || Factors(circuits.iter().map(|_| Scalar::random(&mut rng)).collect());
    let (r_s, s_s) = (factors(), factors());
    create_proof_batch(circuits, params, &r_s.0, &s_s.0)
}
