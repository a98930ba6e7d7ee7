//! What is left of secrets in device memory and in staging buffers, after proofs, cancels and
//! failures.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::groth16::params::Parameters;
use twinlock::{Job, Prover, ProverOptions, registry};
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error as DeviceError, Event, Group, MemoryClass, MemoryInfo, Op,
    OpenOptions, Region, Result, Staging, StagingKind, Stream, View,
};

use crate::support::{PATIENCE, inputs, parameters, rng, shape};

/// A staging buffer that is looked at when it is given back.
struct Slot {
    inner: Box<dyn Staging>,
    unwiped: Arc<AtomicUsize>,
}

impl Staging for Slot {
    fn kind(&self) -> StagingKind {
        self.inner.kind()
    }
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        self.inner.host(timeout)
    }
    fn wipe_copied(&mut self) -> Result<()> {
        self.inner.wipe_copied()
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.inner.as_any_mut()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The first answers with the failure of the last copy, if it failed.
        let _ = self.inner.host(PATIENCE);
        let bytes = self.inner.host(PATIENCE).unwrap();
        if bytes.iter().any(|byte| *byte != 0) {
            self.unwiped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The CPU, with one operation that fails, and with memories that are looked at.
struct Watched {
    inner: Arc<dyn Device>,
    work: Mutex<Vec<Region>>,
    unwiped_slots: Arc<AtomicUsize>,
    unwiped_frees: AtomicUsize,
    ops: AtomicU64,
    fails_at: Option<u64>,
    /// Streams that wipe what an unfinished partition leaves.
    wipes: Mutex<Vec<Stream>>,
    /// Whether the next operation on one of them fails.
    wipe_fails: AtomicBool,
}

impl Watched {
    fn open(fails_at: Option<u64>, wipe_fails: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap(),
            work: Mutex::default(),
            unwiped_slots: Arc::default(),
            unwiped_frees: AtomicUsize::new(0),
            ops: AtomicU64::new(0),
            fails_at,
            wipes: Mutex::default(),
            wipe_fails: wipe_fails.into(),
        })
    }

    /// Bytes of a region that are not zero.
    fn left_in(&self, region: Region) -> usize {
        let size_bytes = region.size_bytes();
        let stream = self.inner.create_stream("look").unwrap();
        let mut copy =
            self.inner.allocate_staging("look", StagingKind::Download, size_bytes).unwrap();
        self.inner.download(stream, region.whole("look").unwrap(), &mut *copy, 0).unwrap();
        let bytes = &copy.host(PATIENCE).unwrap()[..size_bytes as usize];
        let left = bytes.iter().filter(|byte| **byte != 0).count();
        drop(copy);
        self.inner.destroy_stream(stream).unwrap();
        left
    }

    /// Bytes that are not zero in the memories of partitions.
    fn left(&self) -> usize {
        let regions = self.work.lock().unwrap().clone();
        regions.into_iter().map(|region| self.left_in(region)).sum()
    }

    fn count(&self, stream: Stream) -> Result<()> {
        // At most once in a wipe: what fails twice there is given up.
        let fails = match self.wipes.lock().unwrap().contains(&stream) {
            true => self.wipe_fails.swap(false, Ordering::SeqCst),
            false => Some(self.ops.fetch_add(1, Ordering::SeqCst)) == self.fails_at,
        };
        if !fails {
            return Ok(());
        }
        let (name, reason) = ("any", "by a test".into());
        Err(DeviceError::KernelFailed { name, reason })
    }
}

impl Device for Watched {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn memory(&self) -> Result<MemoryInfo> {
        self.inner.memory()
    }
    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let region = self.inner.allocate(name, class, size_bytes)?;
        // The smallest holds what decoding says of the key, which is no secret.
        if class == MemoryClass::Work && size_bytes > 256 {
            self.work.lock().unwrap().push(region);
        }
        Ok(region)
    }
    fn free(&self, region: Region) -> Result<()> {
        let mut work = self.work.lock().unwrap();
        if let Some(at) = work.iter().position(|known| *known == region) {
            work.swap_remove(at);
            let is_unwiped = self.left_in(region) > 0;
            self.unwiped_frees.fetch_add(usize::from(is_unwiped), Ordering::SeqCst);
        }
        self.inner.free(region)
    }
    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        let inner = self.inner.allocate_staging(name, kind, size_bytes)?;
        Ok(Box::new(Slot { inner, unwiped: self.unwiped_slots.clone() }))
    }
    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        let stream = self.inner.create_stream(name)?;
        if name == "wipe" {
            self.wipes.lock().unwrap().push(stream);
        }
        Ok(stream)
    }
    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        self.wipes.lock().unwrap().retain(|known| *known != stream);
        self.inner.destroy_stream(stream)
    }
    fn record(&self, stream: Stream) -> Result<Event> {
        self.inner.record(stream)
    }
    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.inner.wait(stream, event)
    }
    fn query(&self, event: &Event) -> Result<bool> {
        self.inner.query(event)
    }
    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        self.inner.synchronize(event, timeout)
    }
    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        self.count(stream)?;
        self.inner.upload(stream, source, source_offset_bytes, target)
    }
    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.count(stream)?;
        self.inner.download(stream, source, target, target_offset_bytes)
    }
    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        self.count(stream)?;
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

const LG: u32 = 5;

/// Partitions that are proved, fail once somewhere, in a wipe too, or are cancelled: nothing of them
/// is left in memories of the device, when these are given back, or in staging buffers.
#[test]
fn nothing_is_left_of_a_partition() {
    let mut seeds = rng();
    let params = parameters(shape(LG), &mut seeds);
    let (mut plays, mut failed_wipes) = (0, 0);
    // A wipe fails in a quarter of them, unless cancels come before anything was placed.
    while plays < 40 || failed_wipes == 0 && plays < 1000 {
        plays += 1;
        let seed = seeds.next_u64();
        let (left, wipe_failed) = play(&params, &mut ChaCha20Rng::seed_from_u64(seed));
        assert_eq!(left, [0; 3], "seed {seed}: bytes in memory, at frees, staging buffers");
        failed_wipes += usize::from(wipe_failed);
    }
    assert!(failed_wipes > 0, "nothing was there to wipe");
}

/// What is left, and whether a wipe failed.
fn play(params: &Parameters, rng: &mut ChaCha20Rng) -> ([usize; 3], bool) {
    let fails_at = rng.r#gen::<bool>().then(|| rng.gen_range(0..250));
    let (cancels, wipe_fails) = (rng.r#gen(), rng.r#gen());
    let device = Watched::open(fails_at, wipe_fails);
    let mut options = ProverOptions::default();
    options.device = "cpu".into();
    options.workers = rng.gen_range(1..4);
    options.staging_slots = rng.gen_range(1..4);
    options.staging_slot_bytes = Some(1 << rng.gen_range(9..14));
    options.msm_chunk = Some(1 << rng.gen_range(3..6));
    options.memory_bytes = Some(rng.gen_range(6u64..40) << 17);
    let prover = Prover::with_devices(vec![device.clone()], options).unwrap();
    let key = if rng.r#gen() { prover.load(params) } else { prover.key(params) };
    if let Ok(key) = key {
        let partitions = inputs(shape(LG), rng.gen_range(1..5), rng);
        prover.serve(|session| {
            let job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
            if cancels {
                std::thread::sleep(Duration::from_micros(rng.gen_range(0..20_000)));
                job.cancel();
            }
            drop(job.wait());
        });
    }
    let in_memory = device.left();
    let at_frees = device.unwiped_frees.load(Ordering::SeqCst);
    drop(prover);
    let left = [in_memory, at_frees, device.unwiped_slots.load(Ordering::SeqCst)];
    (left, wipe_fails && !device.wipe_fails.load(Ordering::SeqCst))
}
