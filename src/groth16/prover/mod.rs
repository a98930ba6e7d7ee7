//! The prover: assignments in, checked proofs out.

mod assemble;
mod bases;
mod lane;
pub mod layout;
mod partition;
pub(crate) mod placement;
pub mod shape;
pub mod variant;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bellpepper_core::Circuit;
use blstrs::Scalar;
use ff::Field;
use rand::RngCore;
use twinlock_api::{Device, Error as DeviceError, MemoryClass, OpenOptions};

use self::assemble::{Blinding, Factors, assemble};
use self::bases::ResidentQueries;
use self::lane::Lane;
use self::layout::{ProofLayout, Stage};
use self::partition::{Inputs, Memory, Partition, StageError};
use self::shape::ProofShape;
use self::variant::{AssignmentUpload, NttBuffers, QuerySet, Variant, Windows};
use super::assignment::{Assignment, synthesize, synthesize_batch};
use super::params::{CircuitShape, ParameterSource, check_shape};
use super::proof::Proof;
use super::verifier::{PreparedVerifyingKey, prepare_verifying_key, verify_proof};
use crate::config::ProverOptions;
use crate::registry;
use crate::scheduler::arena::Arena;
use crate::scheduler::plan::{self, Limits, Residents};
use crate::scheduler::staging::{Readback, StagingRing};
use crate::{Error, Result};

/// Scalars of one digit plan, unless the options or a small device say otherwise.
const DEFAULT_CHUNK: usize = 1 << 20;
/// A streamed query is cut into about this many chunks, so that its buffers stay small beside it.
const STREAMED_CHUNKS: usize = 8;
/// Streamed chunks below this only add work.
const SMALLEST_STREAMED_CHUNK: usize = 1 << 13;
/// Window sums and status words of one proof are some tens of KiB.
const READBACK_BYTES: u64 = 256 << 10;

/// A proving key as a [`Prover`] uses it: made once, shared by any number of proofs.
pub struct ProvingKey<'a> {
    source: &'a dyn ParameterSource,
    verifying_key: PreparedVerifyingKey,
    /// A device and the queries kept there; for proofs elsewhere they are streamed.
    resident: Option<(Arc<dyn Device>, ResidentQueries)>,
}

impl ProvingKey<'_> {
    /// What proofs are checked against.
    pub fn verifying_key(&self) -> &PreparedVerifyingKey {
        &self.verifying_key
    }

    /// Whether the queries are kept on a device, not streamed for each proof.
    pub fn is_resident(&self) -> bool {
        self.resident.is_some()
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

/// Devices with their memory, opened once. Calls from several threads take turns on a device.
#[derive(Debug)]
pub struct Prover {
    options: ProverOptions,
    devices: Vec<DeviceSlot>,
}

struct DeviceSlot {
    device: Arc<dyn Device>,
    state: Mutex<DeviceState>,
}

struct DeviceState {
    arena: Arena,
    staging: StagingRing,
    readback: Readback,
}

impl fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device.info().name)
    }
}

impl Prover {
    /// Opens the device that `options` names.
    ///
    /// # Errors
    /// `Unknown` or `Device`.
    pub fn new(options: ProverOptions) -> Result<Self> {
        let open = OpenOptions { threads: options.threads };
        Self::with_devices(vec![registry::open(&options.device, &open)?], options)
    }

    /// Proves on `devices`, the preferred first; a proof that fails its self-check on one is
    /// retried once on the next.
    ///
    /// # Errors
    /// `Unknown` when there are none; `Device` when one cannot give staging buffers.
    pub fn with_devices(devices: Vec<Arc<dyn Device>>, options: ProverOptions) -> Result<Self> {
        if devices.is_empty() {
            let known = "at least one is needed".into();
            return Err(Error::Unknown { kind: "device", name: String::new(), known });
        }
        let devices = devices
            .into_iter()
            .map(|device| DeviceSlot::new(device, &options))
            .collect::<Result<_>>()?;
        Ok(Self { options, devices })
    }

    /// Names of the devices, the preferred first.
    pub fn device_names(&self) -> Vec<&str> {
        self.devices.iter().map(|slot| slot.device.info().name.as_str()).collect()
    }

    /// A key whose queries are streamed from `source` for each proof: least memory, and the best
    /// choice for a single proof.
    ///
    /// # Errors
    /// `Key` when the verifying key must not be used.
    pub fn key<'a>(&self, source: &'a dyn ParameterSource) -> Result<ProvingKey<'a>> {
        let verifying_key = prepare_verifying_key(source.verifying_key())?;
        Ok(ProvingKey { source, verifying_key, resident: None })
    }

    /// A key whose queries are loaded onto the first device now and stay there.
    ///
    /// # Errors
    /// `Key`, `Parameters` for a malformed point, `Device` when they do not fit.
    pub fn load<'a>(&self, source: &'a dyn ParameterSource) -> Result<ProvingKey<'a>> {
        let mut key = self.key(source)?;
        if let Some(slot) = self.devices.first() {
            let loaded = slot.load(source, self.options.timeout);
            let queries = loaded.map_err(|error| slot.named(error))?;
            key.resident = Some((slot.device.clone(), queries));
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
        (assignments.into_iter().zip(r_s.iter().zip(s_s)))
            .map(|(assignment, (r, s))| Ok(self.prove(key, &assignment, *r, *s)?.proof))
            .collect()
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
        let shape = ProofShape::of(assignment)?;
        check_shape(key.source, &circuit_shape(assignment))?;
        if !self.options.self_check {
            // Without the check of the proof, the check of the witness.
            refuse_unsatisfied("no device", assignment)?;
        }
        let blinding = Blinding { r, s };
        let mut failed_attempts: Vec<String> = Vec::new();
        for attempt in 0..2 {
            let fallback;
            let slot = match self.devices.get(attempt) {
                Some(slot) => slot,
                None => match self.cpu_slot() {
                    Ok(slot) => {
                        fallback = slot;
                        &fallback
                    }
                    Err(error) => {
                        failed_attempts.push(error.to_string());
                        break;
                    }
                },
            };
            let outcome = self.attempt(slot, key, assignment, shape, &blinding);
            let device = &slot.device.info().name;
            match outcome {
                Ok(Some(mut proved)) => {
                    proved.failed_attempts = failed_attempts;
                    return Ok(proved);
                }
                Ok(None) => {
                    tracing::error!(device, "a proof failed its self-check");
                    refuse_unsatisfied(device, assignment)?;
                    failed_attempts.push(format!("{device}: failed its self-check"));
                }
                Err(Error::Device { device, source }) if self.may_retry(attempt, &source) => {
                    tracing::error!(device, error = %source, "a proof failed");
                    failed_attempts.push(format!("{device}: {source}"));
                }
                Err(error) if failed_attempts.is_empty() => return Err(error),
                Err(error) => failed_attempts.push(error.to_string()),
            }
        }
        let hint =
            "the witness satisfies the circuit; `params check` tells whether the key is whole";
        let attempts = format!("{} ({hint})", failed_attempts.join("; "));
        Err(Error::InvalidProof { attempts })
    }

    /// Whether a device's failure sends the proof to another: a fault of the device, not of the
    /// call, and there is another that was not ruled out by naming one.
    fn may_retry(&self, attempt: usize, error: &DeviceError) -> bool {
        let fault = matches!(
            error,
            DeviceError::KernelFailed { .. }
                | DeviceError::DeviceLost { .. }
                | DeviceError::Timeout { .. }
                | DeviceError::OutOfMemory { .. }
        );
        let others = self.devices.len() > attempt + 1 || self.options.device == registry::AUTO;
        fault && attempt == 0 && others
    }

    /// One proof on one device; `None` when it failed its self-check.
    fn attempt(
        &self,
        slot: &DeviceSlot,
        key: &ProvingKey<'_>,
        assignment: &Assignment,
        shape: ProofShape,
        blinding: &Blinding,
    ) -> Result<Option<Proved>> {
        let resident = (key.resident.as_ref())
            .filter(|(device, _)| Arc::ptr_eq(device, &slot.device))
            .map(|(_, queries)| queries);
        let inputs = Inputs { assignment, source: key.source, resident };
        let start = Instant::now();
        let sums = slot.prove(inputs, shape, &self.options).map_err(|error| slot.named(error))?;
        let proof = assemble(key.source.verifying_key(), &sums, blinding);
        let prove_time = start.elapsed();
        let mut check_time = Duration::ZERO;
        if self.options.self_check {
            let start = Instant::now();
            if !verify_proof(&key.verifying_key, &proof, assignment.public_inputs())? {
                return Ok(None);
            }
            check_time = start.elapsed();
        }
        let device = slot.device.info().name.clone();
        Ok(Some(Proved { proof, device, prove_time, check_time, failed_attempts: Vec::new() }))
    }

    fn cpu_slot(&self) -> Result<DeviceSlot> {
        let open = OpenOptions { threads: self.options.threads };
        DeviceSlot::new(registry::open("cpu", &open)?, &self.options)
    }
}

impl DeviceSlot {
    fn new(device: Arc<dyn Device>, options: &ProverOptions) -> Result<Self> {
        let name = device.info().name.clone();
        Self::open(device, options).map_err(|source| Error::Device { device: name, source })
    }

    fn open(device: Arc<dyn Device>, options: &ProverOptions) -> Result<Self, DeviceError> {
        let free = device.memory()?.free_bytes;
        let budget = options.memory_bytes.unwrap_or(free / 10 * 9);
        let staging = StagingRing::new(
            &*device,
            options.staging_slots,
            options.staging_slot_bytes,
            options.timeout,
        )?;
        let readback = Readback::new(&*device, READBACK_BYTES, options.timeout)?;
        let arena = Arena::new(device.clone(), budget);
        Ok(Self { device, state: Mutex::new(DeviceState { arena, staging, readback }) })
    }

    fn named(&self, error: StageError) -> Error {
        error.on(&self.device.info().name)
    }

    fn load(
        &self,
        source: &dyn ParameterSource,
        timeout: Duration,
    ) -> Result<ResidentQueries, StageError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let DeviceState { arena, staging, readback } = &mut *state;
        let bytes = ResidentQueries::size_bytes(source);
        let status_bytes = twinlock_api::layout::ARENA_ALIGN_BYTES;
        arena.reserve_all(&[(MemoryClass::Resident, bytes), (MemoryClass::Work, status_bytes)])?;
        let lane = Lane::new(self.device.clone(), timeout)?;
        ResidentQueries::load(&lane, arena, source, staging, readback)
    }

    fn prove(
        &self,
        inputs: Inputs<'_>,
        shape: ProofShape,
        options: &ProverOptions,
    ) -> Result<assemble::MsmSums, StageError> {
        // A poisoned lock means that another proof panicked; its partition wiped and released what
        // it held while unwinding.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let DeviceState { arena, staging, readback } = &mut *state;
        let layout = fitting_layout(arena, shape, inputs.resident.is_some(), options)?;
        arena.reserve_all(
            &[MemoryClass::Work, MemoryClass::Resident]
                .map(|class| (class, layout.peak_bytes(class))),
        )?;
        let lane = Lane::new(self.device.clone(), options.timeout)?;
        let memory = Memory::lease(arena, &layout)?;
        let partition = Partition::new(lane, inputs, &layout, memory);
        let sums = run_stages(partition, staging, readback);
        // Both, and after a failed proof too, whose own error comes first.
        let wiped = staging.wipe().and(readback.wipe());
        let sums = sums?;
        wiped?;
        Ok(sums)
    }
}

/// Runs every stage, then gives up the partition's streams and memory.
fn run_stages(
    mut partition: Partition<'_>,
    staging: &mut StagingRing,
    readback: &mut Readback,
) -> Result<assemble::MsmSums, StageError> {
    let mut sums = Err(DeviceError::invalid("no stage gave sums").into());
    for stage in Stage::ALL {
        if let Some(found) = partition.run(stage, staging, readback)? {
            sums = Ok(found);
        }
    }
    partition.finish()?;
    sums
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

/// The usual layout if it fits the budget beside what is resident, else the best that does.
fn fitting_layout(
    arena: &Arena,
    shape: ProofShape,
    is_resident: bool,
    options: &ProverOptions,
) -> Result<ProofLayout, DeviceError> {
    let device = &**arena.device();
    let loaded = if is_resident { QuerySet::ALL } else { QuerySet::NONE };
    if let Some(variant) = options.variant {
        let resident = variant.resident.and(loaded);
        return ProofLayout::new(device, shape, Variant { resident, ..variant });
    }
    let (chunk, windows) = match is_resident {
        true => (DEFAULT_CHUNK, Windows::OfQuery),
        // Streaming is for little memory, and buckets are the largest part of it.
        false => (
            (shape.domain() / STREAMED_CHUNKS).clamp(SMALLEST_STREAMED_CHUNK, DEFAULT_CHUNK),
            Windows::OfChunk,
        ),
    };
    let chunk = options.msm_chunk.unwrap_or(chunk).max(1);
    let usual = Variant {
        chunk,
        bases_chunk: chunk,
        windows: options.window_bits.map_or(windows, Windows::Fixed),
        resident: loaded,
        ntt_buffers: NttBuffers::Three,
        assignment: AssignmentUpload::Prestage,
    };
    let budget_bytes = arena.budget_bytes().saturating_sub(arena.usage().in_use_bytes);
    let layout = ProofLayout::new(device, shape, usual)?;
    let needed = layout.peak_bytes(MemoryClass::Work) + layout.peak_bytes(MemoryClass::Resident);
    if needed <= budget_bytes {
        return Ok(layout);
    }
    let limits = Limits {
        residents: Residents::Loaded(loaded),
        most_chunk: Some(chunk),
        window_bits: options.window_bits,
        ..Limits::new(budget_bytes)
    };
    let variant = plan::best(device, shape, &limits)?.variant;
    tracing::debug!(?variant, budget_bytes, "not the usual layout, for want of memory");
    ProofLayout::new(device, shape, variant)
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
