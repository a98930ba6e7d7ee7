//! One trial's hold on a device.

use std::sync::Arc;
use std::time::Duration;

use blstrs::Scalar;
use libtest_mimic::{Completion, Failed};
use rand_chacha::ChaCha8Rng;
use twinlock_api::{
    Device, Error, FrView, IndexView, MemoryClass, Op, PointView, Result, Staging, StagingKind,
    Stream, View, op,
};

use super::arena::{Arena, PATTERN};
use super::runner::Poison;
use super::settings::Settings;
use crate::oracle::{CurveOracle, frs_from_bytes, frs_to_bytes};

/// How a trial ended.
pub type Verdict = std::result::Result<Completion, Failed>;

/// A named trial.
pub struct Trial {
    /// `group::case`.
    pub name: &'static str,
    /// What it does.
    pub run: fn(&mut Fixture) -> Verdict,
}

/// Success.
///
/// # Errors
/// None; the type is a trial's.
pub const fn passed() -> Verdict {
    Ok(Completion::Completed)
}

/// Fails with `message` unless `condition` holds.
///
/// # Errors
/// The message.
pub fn ensure(
    condition: bool,
    message: impl FnOnce() -> String,
) -> std::result::Result<(), Failed> {
    if condition { Ok(()) } else { Err(message().into()) }
}

/// Fails unless `outcome` is `InvalidArgument`.
///
/// # Errors
/// What came instead.
pub fn ensure_invalid<T>(outcome: Result<T>, what: &str) -> std::result::Result<(), Failed> {
    match outcome {
        Err(Error::InvalidArgument(_)) => Ok(()),
        Err(other) => Err(format!("{what}: expected InvalidArgument, got: {other}").into()),
        Ok(_) => Err(format!("{what}: expected InvalidArgument, got success").into()),
    }
}

/// Fails at the first element in which the two differ.
///
/// # Errors
/// Names it.
pub fn first_difference<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &[T],
    expected: &[T],
) -> std::result::Result<(), Failed> {
    ensure(found.len() == expected.len(), || {
        format!("{what}: {} elements, expected {}", found.len(), expected.len())
    })?;
    // Of bytes this is a comparison of memory.
    if found == expected {
        return Ok(());
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{what}: element {i} of {} is {:?}, expected {:?}",
            found.len(),
            found[i],
            expected[i]
        )
        .into()),
    }
}

/// A trial's device, memory, stream and random numbers.
pub struct Fixture {
    device: Arc<dyn Device>,
    poison: Option<Poison>,
    stream: Stream,
    resident: Arena,
    work: Arena,
    upload: Option<Box<dyn Staging>>,
    download: Option<Box<dyn Staging>>,
    /// Fresh numbers, seeded by the run's seed and the trial's name.
    pub rng: ChaCha8Rng,
    /// Base-2 logarithm of the largest sizes to try.
    pub max_lg: u32,
    /// The widest windows of MSMs to try.
    pub max_window_bits: u32,
}

impl Fixture {
    /// Longest wait for anything but the largest sizes.
    pub const TIMEOUT: Duration = Duration::from_secs(1800);
    const STAGING_BYTES: u64 = 1 << 20;

    pub(super) fn new(
        device: Arc<dyn Device>,
        poison: Option<Poison>,
        rng: ChaCha8Rng,
        settings: &Settings,
    ) -> Result<Self> {
        let stream = device.create_stream("conformance")?;
        Ok(Self {
            device,
            poison,
            stream,
            resident: Arena::new(MemoryClass::Resident),
            work: Arena::new(MemoryClass::Work),
            upload: None,
            download: None,
            rng,
            max_lg: settings.max_lg,
            max_window_bits: settings.max_window_bits,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The trial's own stream.
    pub const fn stream(&self) -> Stream {
        self.stream
    }

    /// Whether the device is made of naive operations, which sees fewer copies of what matters.
    pub fn is_naive(&self) -> bool {
        matches!(self.device.info().backend, "reference" | "dual")
    }

    /// Enqueues work that will fail on the device, if the backend offers a way.
    pub fn poison(&self) -> Option<&Poison> {
        self.poison.as_ref()
    }

    /// Bytes of all regions that the fixture holds.
    pub fn regions_bytes(&self) -> u64 {
        self.resident.regions_bytes() + self.work.regions_bytes()
    }

    /// Bytes that operations may write.
    ///
    /// # Errors
    /// What the device answers.
    pub fn work(&mut self, name: &'static str, len_bytes: u64) -> Result<View> {
        let (view, fresh) = self.work.carve(&*self.device, name, len_bytes)?;
        self.fill_fresh(fresh)?;
        Ok(view)
    }

    /// Bytes for bases and index maps.
    ///
    /// # Errors
    /// What the device answers.
    pub fn resident(&mut self, name: &'static str, len_bytes: u64) -> Result<View> {
        let (view, fresh) = self.resident.carve(&*self.device, name, len_bytes)?;
        self.fill_fresh(fresh)?;
        Ok(view)
    }

    fn fill_fresh(&mut self, fresh: Option<View>) -> Result<()> {
        let Some(view) = fresh else { return Ok(()) };
        self.run(Op::Fill(op::Fill::new(view, PATTERN)))?;
        // Other streams may use the region without waiting for this one.
        self.sync()
    }

    /// Enqueues `op` on the trial's stream.
    ///
    /// # Errors
    /// What the device answers.
    pub fn run(&self, op: Op) -> Result<()> {
        self.device.enqueue(self.stream, &op)
    }

    /// Waits until everything on the trial's stream has run.
    ///
    /// # Errors
    /// The stream's first failure, or `Timeout`.
    pub fn sync(&self) -> Result<()> {
        self.sync_stream(self.stream)
    }

    /// Waits until everything on `stream` has run.
    ///
    /// # Errors
    /// The stream's first failure, or `Timeout`.
    pub fn sync_stream(&self, stream: Stream) -> Result<()> {
        self.device.synchronize(&self.device.record(stream)?, Self::TIMEOUT)
    }

    /// A staging buffer of at least `size_bytes`, the one at hand if it is large enough.
    fn staging(&mut self, kind: StagingKind, size_bytes: u64) -> Result<Box<dyn Staging>> {
        let slot = match kind {
            StagingKind::Upload => &mut self.upload,
            StagingKind::Download => &mut self.download,
        };
        match slot.take() {
            Some(staging) if staging.size_bytes() >= size_bytes => Ok(staging),
            _ => {
                let size_bytes = size_bytes.max(Self::STAGING_BYTES);
                self.device.allocate_staging("conformance", kind, size_bytes)
            }
        }
    }

    /// Writes `bytes` over `view` and waits.
    ///
    /// # Errors
    /// `InvalidArgument` when the lengths differ, or what the device answers.
    pub fn put(&mut self, view: View, bytes: &[u8]) -> Result<()> {
        if view.len_bytes() != bytes.len() as u64 {
            return Err(Error::invalid(format!("{} bytes for {}", bytes.len(), view.name())));
        }
        let chunk_bytes = bytes.len().clamp(4, 16 << 20);
        let mut staging = self.staging(StagingKind::Upload, chunk_bytes as u64)?;
        for (index, chunk) in bytes.chunks(chunk_bytes).enumerate() {
            staging.host(Self::TIMEOUT)?[..chunk.len()].copy_from_slice(chunk);
            let target = view.slice((index * chunk_bytes) as u64, chunk.len() as u64)?;
            self.device.upload(self.stream, &mut *staging, 0, target)?;
        }
        staging.host(Self::TIMEOUT)?;
        self.upload = Some(staging);
        self.sync()
    }

    /// The bytes of `view`, once everything enqueued on the trial's stream has run.
    ///
    /// # Errors
    /// What the device answers.
    pub fn get(&mut self, view: View) -> Result<Vec<u8>> {
        let len_bytes = view.len_bytes();
        let chunk_bytes = len_bytes.clamp(4, 16 << 20);
        let mut staging = self.staging(StagingKind::Download, chunk_bytes)?;
        let mut bytes = Vec::with_capacity(len_bytes as usize);
        for start in (0..len_bytes).step_by(chunk_bytes as usize) {
            let source = view.slice(start, chunk_bytes.min(len_bytes - start))?;
            self.device.download(self.stream, source, &mut *staging, 0)?;
            let host = staging.host(Self::TIMEOUT)?;
            bytes.extend_from_slice(&host[..source.len_bytes() as usize]);
        }
        self.download = Some(staging);
        self.sync()?;
        Ok(bytes)
    }

    /// A vector on the device.
    ///
    /// # Errors
    /// What the device answers.
    pub fn put_frs(&mut self, name: &'static str, values: &[Scalar]) -> Result<FrView> {
        let view = self.work(name, values.len() as u64 * 32)?;
        self.put(view, &frs_to_bytes(values))?;
        FrView::new(view)
    }

    /// A vector's values.
    ///
    /// # Errors
    /// Names the element that is not below r, or what the device answers.
    pub fn get_frs(&mut self, view: FrView) -> std::result::Result<Vec<Scalar>, Failed> {
        let bytes = self.get(view.view())?;
        Ok(frs_from_bytes(&bytes).map_err(|error| format!("{}: {error}", view.view().name()))?)
    }

    /// Resident points in canonical form.
    ///
    /// # Errors
    /// What the device answers.
    pub fn put_points<C: CurveOracle>(
        &mut self,
        name: &'static str,
        points: &[C::Affine],
    ) -> Result<PointView> {
        let view = self.resident(name, points.len() as u64 * C::GROUP.affine_bytes())?;
        self.put(view, &C::encode_all(points))?;
        PointView::new(view, C::GROUP)
    }

    /// Resident indices.
    ///
    /// # Errors
    /// What the device answers.
    pub fn put_indices(&mut self, name: &'static str, indices: &[u32]) -> Result<IndexView> {
        let view = self.resident(name, indices.len() as u64 * 4)?;
        let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        self.put(view, &bytes)?;
        IndexView::new(view)
    }

    /// A status word, set to `u32::MAX`.
    ///
    /// # Errors
    /// What the device answers.
    pub fn status(&mut self) -> Result<IndexView> {
        let view = self.work("status", 4)?;
        self.run(Op::Fill(op::Fill::new(view, u32::MAX)))?;
        IndexView::new(view)
    }

    /// The word of a status.
    ///
    /// # Errors
    /// What the device answers.
    pub fn get_status(&mut self, status: IndexView) -> Result<u32> {
        let bytes = self.get(status.view())?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or([0; 4])))
    }

    /// Checks that nothing wrote outside the views and that the device accounts for exactly what
    /// was allocated, then frees everything.
    pub(super) fn finish(mut self) -> std::result::Result<(), Failed> {
        self.sync()?;
        for (class, arena) in [("resident", 0), ("work", 1)] {
            let blocks = if arena == 0 { self.resident.blocks() } else { self.work.blocks() };
            let guards: Vec<_> = blocks
                .iter()
                .flat_map(|block| {
                    block.guards.iter().map(|(start, end)| (block.region, *start, *end))
                })
                .collect();
            for (region, start, end) in guards {
                let bytes = self.get(region.view("guard", start, end - start)?)?;
                // A view's end is a multiple of 4, so the pattern's words line up.
                let intact =
                    bytes.as_chunks::<4>().0.iter().all(|word| *word == PATTERN.to_le_bytes());
                ensure(intact, || {
                    format!(
                        "bytes {start} to {end} of a {class} region lie in no view but were written"
                    )
                })?;
            }
        }
        let held = self.regions_bytes();
        let reported = self.device.memory()?.regions_bytes;
        ensure(reported == held, || format!("{held} bytes allocated, {reported} reported"))?;
        self.release()?;
        let left = self.device.memory()?.regions_bytes;
        ensure(left == 0, || format!("{left} bytes reported after everything was freed"))
    }

    /// Frees everything.
    pub(super) fn release(&mut self) -> Result<()> {
        (self.upload, self.download) = (None, None);
        self.device.destroy_stream(self.stream)?;
        for block in self.resident.take_blocks().into_iter().chain(self.work.take_blocks()) {
            self.device.free(block.region)?;
        }
        Ok(())
    }
}
