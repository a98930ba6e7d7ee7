//! Faults of a device below the prover: each ends in its own kind of error, and the next proof
//! works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use twinlock::groth16::params::Parameters;
use twinlock::groth16::prover::Opener;
use twinlock::scheduler::events::{EventKind, EventSink, Life, TimedEvent};
use twinlock::{Error, Prover};
use twinlock_api::{Device, Error as DeviceError, Faults};

use crate::{Gpu, LG, options, parameters, prove_one, rng};

fn prover_on(device: &Arc<dyn Device>, timeout: Duration) -> Prover {
    let mut options = options(&device.info().name);
    options.timeout = timeout;
    Prover::with_devices(vec![device.clone()], options).unwrap()
}

const LONG: Duration = Duration::from_secs(600);

/// A proof with nothing in the way.
fn assert_proves(prover: &Prover, params: &Parameters, device: &str, rng: &mut ChaCha20Rng) {
    let key = prover.key(params).unwrap();
    assert_eq!(prove_one(prover, &key, LG, rng).unwrap(), device);
}

pub fn out_of_memory_is_told_and_the_next_proof_works(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let (device, faults) = gpu.open_faulty(name).unwrap();
    let prover = prover_on(&device, LONG);
    let key = prover.key(&params).unwrap();
    faults.refuse_allocations(true);
    let error = prove_one(&prover, &key, LG, &mut rng).unwrap_err();
    let Error::Device { device: named, source: DeviceError::OutOfMemory { .. } } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(named, name);
    faults.refuse_allocations(false);
    assert_proves(&prover, &params, name, &mut rng);
    // A single refusal does not even show: the memories are made smaller.
    let (device, faults) = gpu.open_faulty(name).unwrap();
    let prover = prover_on(&device, LONG);
    faults.fail_next_allocation();
    assert_proves(&prover, &params, name, &mut rng);
}

/// Another process takes the memory after the first proof: what serves still serves, what needs more
/// is told so, and gets it once it is there again.
pub fn memory_taken_between_proofs_is_told_and_missed_only_where_needed(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let [small, large] = [LG, LG + 2].map(|lg| (lg, parameters(lg, &mut rng)));
    let (device, faults) = gpu.open_faulty(name).unwrap();
    let prover = prover_on(&device, LONG);
    let mut prove = |(lg, params): &(u32, Parameters)| {
        let key = prover.key(params).unwrap();
        prove_one(&prover, &key, *lg, &mut rng)
    };
    assert_eq!(prove(&small).unwrap(), name);
    faults.refuse_allocations(true);
    assert_eq!(prove(&small).unwrap(), name);
    let error = prove(&large).unwrap_err();
    let Error::Device { source: DeviceError::OutOfMemory { requested_bytes, .. }, .. } = &error
    else {
        panic!("{error:?}");
    };
    assert!(*requested_bytes > 0);
    faults.refuse_allocations(false);
    for key in [&large, &small] {
        assert_eq!(prove(key).unwrap(), name);
    }
}

pub fn a_lost_device_is_told_and_the_next_proof_works(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let (device, faults) = gpu.open_faulty(name).unwrap();
    let prover = prover_on(&device, LONG);
    assert_proves(&prover, &params, name, &mut rng);
    faults.lose();
    // Nobody knows how to open it again.
    for _ in 0..2 {
        let key = prover.key(&params).unwrap();
        let error = prove_one(&prover, &key, LG, &mut rng).unwrap_err();
        let lost = matches!(&error, Error::Device { source: DeviceError::DeviceLost { .. }, .. });
        assert!(lost, "{error:?}");
    }
    drop(prover);
    assert_proves(&prover_on(&gpu.open_faulty(name).unwrap().0, LONG), &params, name, &mut rng);
}

/// Takes a device away when a partition first computes on it.
struct Loser {
    faults: Arc<Mutex<Arc<dyn Faults>>>,
    armed: AtomicBool,
}

impl EventSink for Loser {
    fn take(&self, event: &TimedEvent) {
        let computes = matches!(event.kind, EventKind::Partition(_, Life::ComputeStarted));
        if computes && self.armed.swap(false, Ordering::SeqCst) {
            self.faults.lock().unwrap().lose();
        }
    }
}

pub fn a_device_lost_at_work_is_opened_again(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let (_, faults) = gpu.open_faulty(name).unwrap();
    let loser = Arc::new(Loser { faults: Arc::new(Mutex::new(faults)), armed: true.into() });
    let (name, latest) = (name.to_owned(), loser.faults.clone());
    let opener: Opener = {
        let name = name.clone();
        Arc::new(move || {
            let opened = gpu.open_faulty(&name);
            let (device, faults) =
                opened.map_err(|source| Error::Device { device: name.clone(), source })?;
            *latest.lock().unwrap() = faults;
            Ok(device)
        })
    };
    let prover = Prover::with_openers(vec![opener], options(&name)).unwrap();
    prover.observe(loser.clone());
    let key = prover.key(&params).unwrap();
    let circuit = twinlock::circuits::mix::Mix::random(crate::shape(LG), &mut rng);
    let (r, s) = (blstrs::Scalar::from(3), blstrs::Scalar::from(4));
    let proved = prover.prove(&key, &circuit.assignment().unwrap(), r, s).unwrap();
    assert!(!loser.armed.load(Ordering::SeqCst), "it was never lost");
    assert_eq!(proved.device, name);
    assert_proves(&prover, &params, &name, &mut rng);
}

pub fn a_timeout_is_told_and_the_next_proof_works(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let (device, faults) = gpu.open_faulty(name).unwrap();
    // Kernels are compiled before a wait is short.
    assert_proves(&prover_on(&device, LONG), &params, name, &mut rng);
    let hurried = prover_on(&device, Duration::from_millis(500));
    faults.hold(true).unwrap();
    let key = hurried.key(&params).unwrap();
    let error = prove_one(&hurried, &key, LG, &mut rng).unwrap_err();
    let Error::Device { source: DeviceError::Timeout { timeout_ms: 500, .. }, .. } = &error else {
        panic!("{error:?}");
    };
    faults.hold(false).unwrap();
    assert_proves(&prover_on(&device, LONG), &params, name, &mut rng);
}
