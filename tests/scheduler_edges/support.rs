//! Cards, provers on them, and keys whose reads can be counted and held up.

#[path = "../shared/seed.rs"]
mod seed;

pub use seed::rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blstrs::Scalar;
use ff::Field;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::assignment::Assignment;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::{ParameterSource, Parameters, PointEncoding, Query, VerifyingKey};
use twinlock::groth16::prover::{Opener, ProvingKey};
use twinlock::groth16::verifier::verify_proof;
use twinlock::scheduler::events::{EventKind, Life, Recorder};
use twinlock::{Error, Job, PartitionInput, Proved, Prover, ProverOptions, registry};
use twinlock_api::{Error as DeviceError, OpenOptions};
use twinlock_sim::{Arithmetic, Clock, Fault, SimCard, SimConfig};

/// For what must come; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Fails instead of hanging with `test`, whose thread is then left behind.
pub fn without_hanging(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = ended.send(());
    });
    match end.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still not done after {PATIENCE:?}"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Lets through who waits behind it when it is sent to or dropped.
pub type Gate = Sender<()>;

/// A gate that is shut, and the wait for it.
pub fn gate() -> (Gate, impl Fn() + Send + Sync) {
    let (gate, opened) = mpsc::channel();
    let opened = Mutex::new(opened);
    let wait = move || {
        let _ = opened.lock().unwrap().recv_timeout(2 * PATIENCE);
    };
    (gate, wait)
}

/// A key in memory that counts how many points of each query were read.
pub struct Source {
    inner: Parameters,
    read: Mutex<BTreeMap<Query, usize>>,
    shut: Mutex<Option<Receiver<()>>>,
    /// Whether those that come to the shut gate after the first wait, too.
    pub stops_all: AtomicBool,
    readers: Mutex<BTreeSet<String>>,
    /// Whether a read has come to the shut gate.
    pub has_stopped: AtomicBool,
    /// Whether reading panics.
    pub panics: AtomicBool,
}

impl Source {
    pub fn new(lg: u32, rng: &mut ChaCha20Rng) -> Self {
        Self::of(shape(lg), rng)
    }

    pub fn of(shape: MixShape, rng: &mut ChaCha20Rng) -> Self {
        let inner = parameters(shape, rng);
        let (read, shut, readers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let [stops_all, has_stopped, panics] = [(); 3].map(|()| AtomicBool::new(false));
        Self { inner, read, shut, stops_all, readers, has_stopped, panics }
    }

    /// How often each query was read whole since the last call.
    pub fn times_read(&self) -> Vec<usize> {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let times = |query| read.get(&query).unwrap_or(&0).div_ceil(self.inner.query_len(query));
        Query::ALL.into_iter().map(times).collect()
    }

    /// The names of the threads that read since the last call; those without one count as one.
    pub fn readers(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.readers.lock().unwrap())
    }

    /// The next read waits until the gate opens.
    pub fn shut(&self) -> Gate {
        let (gate, opened) = mpsc::channel();
        *self.shut.lock().unwrap() = Some(opened);
        gate
    }

    /// Waits until a read has come to the gate.
    pub fn await_stop(&self) {
        until(|| self.has_stopped.load(Ordering::SeqCst), "nobody reads the key");
    }
}

impl ParameterSource for Source {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn verifying_key(&self) -> &VerifyingKey {
        self.inner.verifying_key()
    }
    fn query_len(&self, query: Query) -> usize {
        self.inner.query_len(query)
    }
    fn encoding(&self) -> PointEncoding {
        self.inner.encoding()
    }
    fn point_offset(&self, query: Query, index: usize) -> u64 {
        self.inner.point_offset(query, index)
    }
    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> twinlock::Result<()> {
        assert!(!self.panics.load(Ordering::SeqCst), "the source panics, for a test");
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.readers.lock().unwrap().insert(name);
        let mut gate = self.shut.lock().unwrap();
        if let Some(opened) = gate.take() {
            // Others wait for the lock.
            let _held = self.stops_all.load(Ordering::SeqCst).then_some(gate);
            self.has_stopped.store(true, Ordering::SeqCst);
            // Longer than anybody waits for what others do meanwhile.
            let _ = opened.recv_timeout(2 * PATIENCE);
        }
        *self.read.lock().unwrap().entry(query).or_default() += out.len() / query.point_bytes();
        self.inner.read_points(query, first, out)
    }
}

/// Waits for what other threads do.
pub fn until(mut is_so: impl FnMut() -> bool, problem: &str) {
    let step = Duration::from_millis(2);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(step);
    }
    panic!("{problem}");
}

pub fn shape(lg: u32) -> MixShape {
    MixShape::new(lg, Profile::Even).unwrap()
}

pub fn parameters(shape: MixShape, rng: &mut ChaCha20Rng) -> Parameters {
    generate_parameters(Mix::blank(shape), rng, &|_, _| ()).unwrap()
}

pub fn card(memory_bytes: u64) -> Arc<SimCard> {
    card_named("sim:0", memory_bytes)
}

pub fn card_named(name: &str, memory_bytes: u64) -> Arc<SimCard> {
    let cpu = registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
    let mut config = SimConfig::new(name, memory_bytes);
    config.arithmetic = Arithmetic::Of(cpu);
    SimCard::new(config, Clock::new())
}

/// Another process takes so much of the card, for good.
pub fn take(card: &SimCard, bytes: u64) {
    let (from, until) = (Duration::ZERO, Duration::from_secs(1 << 20));
    card.inject(Fault::OtherProcess { from, until, bytes });
}

pub fn opener(card: &Arc<SimCard>) -> Opener {
    let card = card.clone();
    Arc::new(move || match card.open() {
        Ok(device) => Ok(device),
        Err(source) => Err(Error::Device { device: card.info().name.clone(), source }),
    })
}

pub fn prover(card: &Arc<SimCard>, change: impl FnOnce(&mut ProverOptions)) -> Prover {
    let mut options = ProverOptions::default();
    options.msm_chunk = Some(1 << 9);
    options.device = "sim:0".into();
    change(&mut options);
    Prover::with_openers(vec![opener(card)], options).unwrap()
}

pub fn recorder(prover: &Prover) -> Arc<Recorder> {
    let recorder = Arc::new(Recorder::default());
    prover.observe(recorder.clone());
    recorder
}

/// Partitions that ended with a proof.
pub fn done(recorder: &Recorder) -> usize {
    let is_done = |kind: &EventKind| matches!(kind, EventKind::Partition(_, Life::Done));
    recorder.events().iter().filter(|event| is_done(&event.kind)).count()
}

/// A partition whose assignment is made by `synthesis`, blinded with ones.
pub fn partition<'e>(
    synthesis: impl Fn() -> twinlock::Result<Assignment> + Send + Sync + 'e,
) -> PartitionInput<'e> {
    PartitionInput::synthesized(synthesis, 0, Scalar::ONE, Scalar::ONE)
}

pub fn inputs(
    shape: MixShape,
    count: usize,
    rng: &mut ChaCha20Rng,
) -> Vec<PartitionInput<'static>> {
    let input = |_| {
        let circuit = Mix::random(shape, rng);
        let (r, s) = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
        PartitionInput::synthesized(move || circuit.clone().assignment(), 0, r, s)
    };
    (0..count).map(input).collect()
}

/// Proves `count` partitions and verifies what comes.
pub fn prove(
    prover: &Prover,
    key: &ProvingKey<'_>,
    (lg, count): (u32, usize),
    rng: &mut ChaCha20Rng,
) -> Vec<twinlock::Result<Proved>> {
    let assignments: Vec<_> =
        (0..count).map(|_| Mix::random(shape(lg), rng).assignment().unwrap()).collect();
    let partitions = (assignments.iter())
        .map(|assignment| {
            PartitionInput::ready(assignment, Scalar::random(&mut *rng), Scalar::random(&mut *rng))
        })
        .collect();
    let proved = prover
        .serve(|session| session.submit(Job { key, priority: 0, partitions }).unwrap().wait());
    for (outcome, assignment) in proved.iter().zip(&assignments) {
        if let Ok(proved) = outcome {
            let inputs = assignment.public_inputs();
            assert!(verify_proof(key.verifying_key(), &proved.proof, inputs).unwrap());
        }
    }
    proved
}

/// Proves one partition and verifies it.
pub fn prove_one(
    prover: &Prover,
    key: &ProvingKey<'_>,
    lg: u32,
    rng: &mut ChaCha20Rng,
) -> twinlock::Result<Proved> {
    prove(prover, key, (lg, 1), rng).pop().unwrap()
}

/// What the device answered, where the error is a device's.
pub fn device_error<R>(outcome: twinlock::Result<R>) -> DeviceError {
    match outcome {
        Err(Error::Device { source, .. }) => source,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is an outcome, not an error"),
    }
}
