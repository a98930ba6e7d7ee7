//! Devices that compute wrongly or go away, under the real scheduler.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "shared/seed.rs"]
mod seed;

use seed::rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blstrs::Scalar;
use ff::Field;
use rand::rngs::OsRng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Parameters;
use twinlock::scheduler::events::{Counters, EventKind, EventSink, Life, TimedEvent};
use twinlock::{Error, Job, PartitionInput, Proved, Prover, ProverOptions, registry};
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error as DeviceError, Event, Group, MemoryClass, MemoryInfo, Op,
    OpenOptions, Region, Result, Staging, StagingKind, Stream, View,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What goes wrong with a device.
#[derive(Clone, Copy)]
enum Trouble {
    /// The n-th window sums to be downloaded, counted from 0, have a bit flipped.
    FlippedBit(u64),
    /// Every set of window sums has.
    AlwaysFlipped,
    /// It is gone from the n-th operation on.
    LostAt(u64),
    /// What is waited for after the n-th operation never ends.
    HangsAt(u64),
}

/// The CPU with something wrong.
struct Faulty {
    inner: Arc<dyn Device>,
    info: DeviceInfo,
    trouble: Trouble,
    seen: AtomicU64,
}

impl Faulty {
    fn open(trouble: Trouble) -> Arc<dyn Device> {
        let inner = registry::open("cpu", &OpenOptions::default()).unwrap();
        let info = DeviceInfo { name: "faulty".into(), ..inner.info().clone() };
        Arc::new(Self { inner, info, trouble, seen: AtomicU64::new(0) })
    }

    fn alive(&self, count: u64) -> Result<()> {
        let at = match self.trouble {
            Trouble::LostAt(at) => at,
            Trouble::HangsAt(_) => u64::MAX,
            _ => return Ok(()),
        };
        if self.seen.fetch_add(count, Ordering::SeqCst) < at {
            return Ok(());
        }
        Err(DeviceError::DeviceLost { reason: "by a test".into() })
    }
}

impl Device for Faulty {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn memory(&self) -> Result<MemoryInfo> {
        self.inner.memory()
    }
    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        self.alive(0)?;
        self.inner.allocate(name, class, size_bytes)
    }
    fn free(&self, region: Region) -> Result<()> {
        self.inner.free(region)
    }
    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        self.inner.allocate_staging(name, kind, size_bytes)
    }
    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        self.alive(0)?;
        self.inner.create_stream(name)
    }
    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        self.inner.destroy_stream(stream)
    }
    fn record(&self, stream: Stream) -> Result<Event> {
        self.alive(0)?;
        self.inner.record(stream)
    }
    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.alive(0)?;
        self.inner.wait(stream, event)
    }
    fn query(&self, event: &Event) -> Result<bool> {
        self.alive(0)?;
        self.inner.query(event)
    }
    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        self.alive(0)?;
        if matches!(self.trouble, Trouble::HangsAt(at) if self.seen.load(Ordering::SeqCst) >= at) {
            return Err(DeviceError::Timeout { what: "a test".into(), timeout_ms: 0 });
        }
        self.inner.synchronize(event, timeout)
    }
    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        self.alive(1)?;
        self.inner.upload(stream, source, source_offset_bytes, target)
    }
    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.alive(1)?;
        self.inner.download(stream, source, target, target_offset_bytes)?;
        let flipped = match self.trouble {
            _ if !source.name().ends_with("windows") => false,
            Trouble::FlippedBit(at) => self.seen.fetch_add(1, Ordering::SeqCst) == at,
            Trouble::AlwaysFlipped => true,
            Trouble::LostAt(_) | Trouble::HangsAt(_) => false,
        };
        if flipped {
            target.host(TIMEOUT)?[target_offset_bytes as usize] ^= 4;
        }
        Ok(())
    }
    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        self.alive(1)?;
        self.inner.enqueue(stream, op)
    }
    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        self.inner.ntt_layout(lg_domain)
    }
    fn window_bits(&self, group: Group, len: u64) -> u32 {
        self.inner.window_bits(group, len)
    }
    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        self.inner.digits_layout(shape)
    }
    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        self.inner.msm_layout(group, shape)
    }
}

const LG: u32 = 8;

fn shape() -> MixShape {
    MixShape::new(LG, Profile::Even).unwrap()
}

/// Proves `count` partitions on the troubled devices and then on the CPU, if there is one.
fn prove(
    troubles: &[Trouble],
    with_cpu: bool,
    count: usize,
) -> (Vec<twinlock::Result<Proved>>, Arc<Counters>) {
    let mut rng = rng();
    let params: Parameters =
        generate_parameters(Mix::blank(shape()), &mut rng, &|_, _| ()).unwrap();
    let mut devices: Vec<_> = troubles.iter().map(|trouble| Faulty::open(*trouble)).collect();
    if with_cpu {
        devices.push(registry::open("cpu", &OpenOptions::default()).unwrap());
    }
    let mut options = ProverOptions::default();
    options.timeout = TIMEOUT;
    // By name, or the CPU would help where the device is lost.
    options.device = "faulty".into();
    let prover = Prover::with_devices(devices, options).unwrap();
    let counters = Arc::new(Counters::default());
    prover.observe(counters.clone());
    let key = prover.key(&params).unwrap();
    let partitions = (0..count)
        .map(|_| {
            let circuit = Mix::random(shape(), &mut rng);
            let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
            PartitionInput::synthesized(move || circuit.clone().assignment(), 0, r, s)
        })
        .collect();
    let outcomes = prover.serve(|session| {
        session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
    });
    (outcomes, counters)
}

#[test]
fn a_flipped_bit_is_found_and_the_proof_made_elsewhere() {
    for bit in 0..5 {
        let (outcomes, counters) = prove(&[Trouble::FlippedBit(bit)], true, 1);
        let proved = outcomes.into_iter().next().unwrap().unwrap();
        assert_eq!(proved.device, "cpu");
        assert_eq!(proved.failed_attempts, ["faulty: failed its self-check"]);
        assert_eq!(counters.retried.load(Ordering::SeqCst), 1);
        assert_eq!(counters.done.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn the_only_device_is_helped_by_the_cpu() {
    let (outcomes, _) = prove(&[Trouble::AlwaysFlipped], false, 3);
    for outcome in outcomes {
        let proved = outcome.unwrap();
        assert_eq!(proved.device, "cpu");
        assert_eq!(proved.failed_attempts, ["faulty: failed its self-check"]);
    }
}

#[test]
fn two_wrong_devices_give_an_error_and_no_proof() {
    let troubles = [Trouble::AlwaysFlipped, Trouble::AlwaysFlipped];
    let (outcomes, counters) = prove(&troubles, false, 2);
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::InvalidProof { .. }), "{error}");
        assert_eq!(error.to_string().matches("failed its self-check").count(), 2, "{error}");
    }
    assert_eq!(counters.failed.load(Ordering::SeqCst), 2);
}

#[test]
fn partitions_of_a_lost_device_go_to_another() {
    for at in [0, 1, 7, 40, 150] {
        let (outcomes, counters) = prove(&[Trouble::LostAt(at)], true, 6);
        for outcome in outcomes {
            outcome.unwrap();
        }
        assert_eq!(counters.done.load(Ordering::SeqCst), 6, "lost at {at}");
    }
}

#[test]
fn without_another_device_a_loss_is_an_error_not_a_hang() {
    for at in [0, 5, 60] {
        let (outcomes, counters) = prove(&[Trouble::LostAt(at)], false, 4);
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
        assert!(failed >= 3, "{failed} of 4 failed");
        assert_eq!(counters.failed.load(Ordering::SeqCst), failed);
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert!(error.to_string().contains("device lost"), "{error}");
        }
    }
}

/// Holds whoever starts to compute until told to go on.
struct Gate {
    reached: Mutex<Sender<()>>,
    opened: Mutex<Receiver<()>>,
}

impl EventSink for Gate {
    fn take(&self, event: &TimedEvent) {
        if matches!(event.kind, EventKind::Partition(_, Life::ComputeStarted)) {
            self.reached.lock().unwrap().send(()).unwrap();
            // Open for good once the other end is gone.
            let _ = self.opened.lock().unwrap().recv();
        }
    }
}

/// Cancelled or not, what does not end may still write to its memory: nobody else gets it.
#[test]
fn a_cancelled_partition_that_hangs_gives_its_device_up() {
    let mut rng = rng();
    let params = generate_parameters(Mix::blank(shape()), &mut rng, &|_, _| ()).unwrap();
    let mut options = ProverOptions::default();
    options.device = "faulty".into();
    options.workers = 1;
    let device = Faulty::open(Trouble::HangsAt(0));
    let prover = Prover::with_devices(vec![device], options).unwrap();
    let key = prover.key(&params).unwrap();
    let ((reached, at), (go, opened)) = (channel(), channel());
    prover.observe(Arc::new(Gate { reached: Mutex::new(reached), opened: Mutex::new(opened) }));
    let mut partitions = || vec![PartitionInput::circuit(Mix::random(shape(), &mut rng), OsRng)];
    let (first, second) = (partitions(), partitions());
    let outcomes = prover.serve(|session| {
        let submit =
            |partitions| session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
        let mut first = submit(first);
        at.recv().unwrap();
        first.cancel();
        drop(go);
        [first.next().unwrap(), submit(second).next().unwrap()].map(Result::unwrap_err)
    });
    assert!(matches!(outcomes[0], Error::Cancelled), "{}", outcomes[0]);
    assert!(outcomes[1].to_string().contains("no device is left"), "{}", outcomes[1]);
}

/// Work that does not end may still write to its memory: nobody else gets it, and the device counts
/// as lost.
#[test]
fn a_device_that_hangs_is_given_up_with_its_memory() {
    for at in [0, 5, 30, 60] {
        let (outcomes, counters) = prove(&[Trouble::HangsAt(at)], true, 5);
        for outcome in outcomes {
            outcome.unwrap();
        }
        assert_eq!(counters.done.load(Ordering::SeqCst), 5, "hangs at {at}");
        let (outcomes, _) = prove(&[Trouble::HangsAt(at)], false, 3);
        assert!(outcomes.iter().filter(|outcome| outcome.is_err()).count() >= 2, "hangs at {at}");
    }
}
