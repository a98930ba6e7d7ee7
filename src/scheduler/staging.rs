//! A bounded pool of staging buffers: some fill while others are in flight.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::locks::outside_mem;
use rayon::prelude::*;
use twinlock_api::{Device, Error, Result, Staging, StagingKind, Stream, View};

/// What one CPU thread fills at a time.
const FILL_BYTES: u64 = 256 << 10;
const MADE: &str = "making staging buffers";
const DROPPED: &str = "dropping a staging buffer";
const RESULTS: &str = "waiting for results";

/// A fixed number of slots of one size, allocated once and shared by a device's workers. The slot
/// that came back first goes out first, so that its copy is the likeliest to have run. The oldest
/// ring that uploads has the link to itself: two that share it both come late.
pub struct StagingPool {
    shared: Mutex<Shared>,
    /// A slot or an upload's turn came back.
    returned: Condvar,
    slot_bytes: u64,
    timeout: Duration,
    rings: AtomicU64,
}

#[derive(Default)]
struct Shared {
    free: VecDeque<Slot>,
    /// Rings in the middle of an upload.
    uploading: BTreeSet<u64>,
}

struct Slot {
    buffer: Box<dyn Staging>,
    /// The ring whose bytes are in it; 0 for zeros.
    owner: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        outside_mem(DROPPED);
    }
}

impl StagingPool {
    /// Allocates `slots` buffers of `slot_bytes` bytes (rounded up to 256).
    ///
    /// # Errors
    /// What the device answers, `InvalidArgument` for no slots.
    pub fn new(
        device: &dyn Device,
        slots: usize,
        slot_bytes: u64,
        timeout: Duration,
    ) -> Result<Self> {
        outside_mem(MADE);
        if slots == 0 || slot_bytes == 0 {
            return Err(Error::invalid("a staging pool needs slots with bytes"));
        }
        let slot_bytes = rounded(slot_bytes)?;
        let free = (0..slots)
            .map(|_| {
                let kind = StagingKind::Upload;
                let buffer = device.allocate_staging("staging_upload", kind, slot_bytes)?;
                Ok(Slot { buffer, owner: 0 })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            shared: Mutex::new(Shared { free, ..Shared::default() }),
            returned: Condvar::new(),
            slot_bytes,
            timeout,
            rings: AtomicU64::new(1),
        })
    }

    /// Slots for one partition, as it needs them.
    pub fn ring(self: &Arc<Self>) -> StagingRing {
        let id = self.rings.fetch_add(1, Ordering::Relaxed);
        StagingRing { pool: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Moving slots in and out leaves the queue whole, whatever panics elsewhere.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_upload(&self, ring: u64) -> Uploading<'_> {
        self.lock().uploading.insert(ring);
        Uploading { pool: self, ring }
    }

    /// Waits for a slot, and for older rings to end their uploads; the slot's copy may still run.
    /// Slots are held while they are filled only, so one comes back soon.
    fn take(&self, ring: u64) -> Result<TakenSlot<'_>> {
        outside_mem("waiting for a staging slot");
        let waits = |shared: &mut Shared| {
            shared.free.is_empty() || shared.uploading.first().is_some_and(|first| *first < ring)
        };
        let shared = self.lock();
        let (mut shared, wait) = (self.returned)
            .wait_timeout_while(shared, self.timeout, waits)
            .unwrap_or_else(PoisonError::into_inner);
        let slot = if wait.timed_out() { None } else { shared.free.pop_front() };
        let slot = slot.ok_or_else(|| Error::Timeout {
            what: "a staging slot".into(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
        })?;
        Ok(TakenSlot { pool: self, slot: Some(slot) })
    }

    fn put_back(&self, slots: impl IntoIterator<Item = Slot>) {
        self.lock().free.extend(slots);
        self.returned.notify_all();
    }

    fn take_of(&self, owner: u64) -> Option<TakenSlot<'_>> {
        let mut shared = self.lock();
        let at = shared.free.iter().position(|slot| slot.owner == owner)?;
        Some(TakenSlot { pool: self, slot: shared.free.remove(at) })
    }
}

/// An upload's turn; over when dropped.
struct Uploading<'a> {
    pool: &'a StagingPool,
    ring: u64,
}

impl Drop for Uploading<'_> {
    fn drop(&mut self) {
        self.pool.lock().uploading.remove(&self.ring);
        self.pool.returned.notify_all();
    }
}

/// Goes back when dropped.
struct TakenSlot<'a> {
    pool: &'a StagingPool,
    slot: Option<Slot>,
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        self.pool.put_back(self.slot.take());
    }
}

/// One partition's use of a [`StagingPool`].
pub struct StagingRing {
    pool: Arc<StagingPool>,
    id: u64,
}

impl StagingRing {
    /// The only user of a pool of its own.
    ///
    /// # Errors
    /// As [`StagingPool::new`].
    pub fn new(
        device: &dyn Device,
        slots: usize,
        slot_bytes: u64,
        timeout: Duration,
    ) -> Result<Self> {
        Ok(Arc::new(StagingPool::new(device, slots, slot_bytes, timeout)?).ring())
    }

    /// Size of a slot in bytes.
    pub fn slot_bytes(&self) -> u64 {
        self.pool.slot_bytes
    }

    /// Fills slots piece by piece and copies them over `target`: `fill(offset, bytes)` writes the
    /// bytes that belong at `offset` of it. Pieces are multiples of `unit_bytes`, but for none
    /// smaller than the slot allows; several CPU threads fill one slot. Waits when every slot is in
    /// flight or an older ring uploads.
    ///
    /// # Errors
    /// What `fill` or the device answers.
    pub fn upload<E: From<Error> + Send>(
        &mut self,
        device: &dyn Device,
        stream: Stream,
        target: View,
        unit_bytes: u64,
        fill: impl Fn(u64, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (slot_bytes, unit_bytes) = (self.pool.slot_bytes, unit_bytes.max(1));
        let piece_bytes = slot_bytes / unit_bytes * unit_bytes;
        if piece_bytes == 0 {
            return Err(Error::invalid(format!(
                "staging slots of {slot_bytes} bytes cannot hold a unit of {unit_bytes}"
            ))
            .into());
        }
        let _turn = self.pool.begin_upload(self.id);
        let mut offset = 0;
        while offset < target.len_bytes() {
            let len = piece_bytes.min(target.len_bytes() - offset);
            let mut taken = self.pool.take(self.id)?;
            let Some(slot) = taken.slot.as_mut() else { break };
            if slot.owner != self.id && slot.buffer.host(self.pool.timeout).is_err() {
                // Another partition's copy failed; that is told once, and not our concern.
                tracing::debug!("a staging slot was left by a copy that failed");
            }
            let host = slot.buffer.host(self.pool.timeout)?;
            let Some(bytes) = host.get_mut(..len as usize) else {
                return Err(Error::invalid("a staging slot is shorter than it says").into());
            };
            slot.owner = self.id;
            let part_bytes = FILL_BYTES.next_multiple_of(unit_bytes) as usize;
            if bytes.len() <= part_bytes {
                fill(offset, bytes)?;
            } else {
                bytes.par_chunks_mut(part_bytes).enumerate().try_for_each(|(part, bytes)| {
                    fill(offset + (part * part_bytes) as u64, bytes)
                })?;
            }
            device.upload(stream, slot.buffer.as_mut(), 0, target.slice(offset, len)?)?;
            offset += len;
        }
        Ok(())
    }

    /// Overwrites every slot that holds this ring's bytes with zeros, once its copies have run:
    /// what was staged may be secret. A slot that another ring filled since is wiped by that one.
    /// All are tried, in the time for one.
    ///
    /// # Errors
    /// The first of: `Timeout`, where a slot is still in use and left as it is; what its copies
    /// failed with.
    pub fn wipe(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut outcome = Ok(());
        let mut left_over = Vec::new();
        while let Some(mut taken) = self.pool.take_of(self.id) {
            let Some(mut slot) = taken.slot.take() else { break };
            let left = self.pool.timeout.saturating_sub(start.elapsed());
            let wiped = wipe(slot.buffer.as_mut(), left);
            let in_use = matches!(wiped, Err(Error::Timeout { .. }));
            outcome = outcome.and(wiped);
            if in_use {
                left_over.push(slot);
            } else {
                slot.owner = 0;
                taken.slot = Some(slot);
            }
        }
        self.pool.put_back(left_over);
        outcome
    }
}

impl Drop for StagingRing {
    fn drop(&mut self) {
        if let Err(error) = self.wipe() {
            tracing::debug!(%error, "staging slots of a failed partition");
        }
    }
}

fn rounded(bytes: u64) -> Result<u64> {
    bytes.checked_next_multiple_of(256).ok_or_else(|| Error::ExceedsLimit {
        what: "bytes of a staging buffer".into(),
        requested: bytes,
        limit: u64::MAX / 256 * 256,
    })
}

/// One download buffer, for the few results that a proof brings back.
pub struct Readback {
    buffer: Box<dyn Staging>,
    timeout: Duration,
}

impl Readback {
    /// Allocates a buffer of `size_bytes` bytes (rounded up to 256).
    ///
    /// # Errors
    /// What the device answers.
    pub fn new(device: &dyn Device, size_bytes: u64, timeout: Duration) -> Result<Self> {
        outside_mem(MADE);
        let size_bytes = rounded(size_bytes.max(1))?;
        let buffer =
            device.allocate_staging("staging_download", StagingKind::Download, size_bytes)?;
        Ok(Self { buffer, timeout })
    }

    /// Copies `source` to the host, wiped there when dropped, waiting for the work before it on `stream`.
    ///
    /// # Errors
    /// `Timeout`, or what that work failed with.
    pub fn read(
        &mut self,
        device: &dyn Device,
        stream: Stream,
        source: View,
    ) -> Result<Zeroizing<Vec<u8>>> {
        outside_mem(RESULTS);
        let mut bytes = Zeroizing::new(Vec::with_capacity(source.len_bytes() as usize));
        let mut offset = 0;
        while offset < source.len_bytes() {
            let len = self.buffer.size_bytes().min(source.len_bytes() - offset);
            device.download(stream, source.slice(offset, len)?, self.buffer.as_mut(), 0)?;
            bytes.extend(self.buffer.host(self.timeout)?.iter().take(len as usize));
            offset += len;
        }
        Ok(bytes)
    }

    /// Copies `source` over all of `target`, waiting for the work before it on `stream`.
    ///
    /// # Errors
    /// As [`read`](Self::read); `InvalidArgument` when the lengths differ.
    pub fn read_into(
        &mut self,
        device: &dyn Device,
        stream: Stream,
        source: View,
        target: &mut [u8],
    ) -> Result<()> {
        if source.len_bytes() != target.len() as u64 {
            let (name, from, to) = (source.name(), source.len_bytes(), target.len());
            return Err(Error::invalid(format!("{name}: {from} bytes to read into {to}")));
        }
        outside_mem(RESULTS);
        let mut offset = 0;
        for target in target.chunks_mut(self.buffer.size_bytes() as usize) {
            let len = target.len() as u64;
            device.download(stream, source.slice(offset, len)?, self.buffer.as_mut(), 0)?;
            let host = self.buffer.host(self.timeout)?;
            let parts = target.par_chunks_mut(FILL_BYTES as usize);
            parts.zip(host.par_chunks(FILL_BYTES as usize)).for_each(|(target, host)| {
                target.copy_from_slice(&host[..target.len()]);
            });
            offset += len;
        }
        Ok(())
    }

    /// Overwrites the buffer with zeros.
    ///
    /// # Errors
    /// As [`StagingRing::wipe`].
    pub fn wipe(&mut self) -> Result<()> {
        wipe(self.buffer.as_mut(), self.timeout)
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        outside_mem(DROPPED);
    }
}

/// Overwrites a buffer with zeros, and what the device keeps behind it, also where its copies
/// failed: a buffer tells that once, and gives its bytes when it is asked again.
fn wipe(buffer: &mut dyn Staging, timeout: Duration) -> Result<()> {
    outside_mem("waiting for a copy");
    let start = Instant::now();
    let left = || timeout.saturating_sub(start.elapsed());
    let outcome = buffer.host(timeout).map(zero);
    if outcome.is_err()
        && let Ok(bytes) = buffer.host(left())
    {
        zero(bytes);
    }
    outcome.and(buffer.wipe_copied())
}

/// Several threads, for it is in a proof's way.
fn zero(bytes: &mut [u8]) {
    if bytes.len() <= FILL_BYTES as usize {
        bytes.fill(0);
    } else {
        bytes.par_chunks_mut(FILL_BYTES as usize).for_each(|bytes| bytes.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use twinlock_api::op::Fill;
    use twinlock_api::{MemoryClass, Op, OpenOptions};

    use super::*;

    const SOON: Duration = Duration::from_secs(300);
    const SECRET: u8 = 0x5a;

    /// A slot that tells these failures, the last first, before it gives its bytes.
    struct Failing {
        bytes: [u8; 256],
        /// What the device keeps behind them.
        copied: [u8; 256],
        failures: Vec<Error>,
    }

    impl Failing {
        fn with(failures: &[Error]) -> Box<dyn Staging> {
            let failures = failures.iter().rev().cloned().collect();
            Box::new(Self { bytes: [SECRET; 256], copied: [SECRET; 256], failures })
        }
    }

    impl Staging for Failing {
        fn kind(&self) -> StagingKind {
            StagingKind::Upload
        }

        fn size_bytes(&self) -> u64 {
            256
        }

        fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
            self.failures.pop().map_or(Ok(&mut self.bytes[..]), Err)
        }

        fn wipe_copied(&mut self) -> Result<()> {
            self.copied.fill(0);
            Ok(())
        }

        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    fn failed(reason: &str) -> Error {
        Error::KernelFailed { name: "copy", reason: reason.into() }
    }

    fn late() -> Error {
        Error::Timeout { what: "copies".into(), timeout_ms: 1 }
    }

    fn is_wiped(slot: &mut Box<dyn Staging>) -> bool {
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let failing = slot.as_any_mut().downcast_ref::<Failing>();
        failing.is_none_or(|slot| is_zero(&slot.copied))
            && slot.host(SOON).is_ok_and(|bytes| is_zero(bytes))
    }

    #[test]
    fn wiping_goes_on_after_a_failure_and_tells_the_first() {
        let (first, second) = (failed("first"), failed("second"));
        let slots = vec![
            Failing::with(&[]),
            Failing::with(std::slice::from_ref(&first)),
            Failing::with(&[]),
            Failing::with(&[late(), late()]),
            Failing::with(&[second]),
            Failing::with(&[]),
        ];
        let mut ring = owned(slots);
        assert_eq!(ring.wipe(), Err(first));
        // The one whose copies may still run is theirs; it is at the end now.
        let mut wiped = states(&ring);
        assert_eq!(wiped.pop(), Some(false));
        assert_eq!(wiped, [true; 5]);
        assert_eq!(ring.wipe(), Ok(()));
        assert_eq!(states(&ring), [true; 6]);

        let mut readback = Readback { buffer: Failing::with(&[failed("read")]), timeout: SOON };
        assert_eq!(readback.wipe(), Err(failed("read")));
        assert!(is_wiped(&mut readback.buffer));
        // What fails for good is told, and not tried for ever.
        let lost = || Error::DeviceLost { reason: "gone".into() };
        let mut ring = owned(vec![Failing::with(&vec![lost(); 9]), Failing::with(&[])]);
        assert_eq!(ring.wipe(), Err(lost()));
        assert_eq!(states(&ring), [false, true]);
    }

    /// A ring whose bytes are in all of these.
    fn owned(buffers: Vec<Box<dyn Staging>>) -> StagingRing {
        let free = buffers.into_iter().map(|buffer| Slot { buffer, owner: 7 }).collect();
        let pool = StagingPool {
            shared: Mutex::new(Shared { free, ..Shared::default() }),
            returned: Condvar::new(),
            slot_bytes: 256,
            timeout: SOON,
            rings: AtomicU64::new(8),
        };
        StagingRing { pool: Arc::new(pool), id: 7 }
    }

    /// Whether each slot is wiped, in order.
    fn states(ring: &StagingRing) -> Vec<bool> {
        let mut shared = ring.pool.lock();
        shared.free.iter_mut().map(|slot| is_wiped(&mut slot.buffer)).collect()
    }

    struct Setup {
        device: Arc<dyn Device>,
        stream: Stream,
        view: View,
    }

    fn setup(len_bytes: u64) -> Setup {
        let device = crate::registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
        let stream = device.create_stream("test").unwrap();
        let region = device.allocate("test", MemoryClass::Work, len_bytes.max(4)).unwrap();
        let view = region.view("view", 0, len_bytes).unwrap();
        Setup { device, stream, view }
    }

    /// Bytes that differ from place to place, for any two slots too.
    fn byte_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    #[test]
    fn uploads_in_pieces_come_back_whole() {
        for (slots, slot_bytes, unit_bytes, len_bytes) in [
            (1, 256, 1, 0),
            (1, 256, 1, 256),
            (2, 256, 96, 96 * 11),
            (3, 1000, 192, 192 * 40),
            (4, 100, 32, 32 * 65),
            (2, 1 << 20, 96, 96 << 15),
            (3, 600 << 10, 1, 1_000_000),
        ] {
            let Setup { device, stream, view } = setup(len_bytes);
            let mut ring = StagingRing::new(&*device, slots, slot_bytes, SOON).unwrap();
            assert_eq!(ring.slot_bytes(), slot_bytes.next_multiple_of(256));
            let piece_bytes = ring.slot_bytes() / unit_bytes * unit_bytes;
            let pieces = Mutex::new(Vec::new());
            ring.upload(&*device, stream, view, unit_bytes, |offset, bytes| {
                pieces.lock().unwrap().push((offset, bytes.len() as u64));
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = byte_at(offset + i as u64);
                }
                Ok::<_, Error>(())
            })
            .unwrap();
            let part_bytes = FILL_BYTES.next_multiple_of(unit_bytes);
            let mut expected = Vec::new();
            for piece in (0..len_bytes).step_by(piece_bytes as usize) {
                let end = len_bytes.min(piece + piece_bytes);
                let parts = (piece..end).step_by(part_bytes as usize);
                expected.extend(parts.map(|part| (part, part_bytes.min(end - part))));
            }
            let mut pieces = pieces.into_inner().unwrap();
            pieces.sort_unstable();
            assert_eq!(pieces, expected);
            // Smaller than the view, and larger.
            let sizes = [1, 256, 4096, 1 << 20];
            for readback_bytes in sizes.into_iter().filter(|size| len_bytes / size < 1 << 12) {
                let mut readback = Readback::new(&*device, readback_bytes, SOON).unwrap();
                let bytes = readback.read(&*device, stream, view).unwrap();
                let expected: Vec<_> = (0..len_bytes).map(byte_at).collect();
                assert_eq!(*bytes, expected);
                readback.wipe().unwrap();
                assert!(is_wiped(&mut readback.buffer));
            }
            ring.wipe().unwrap();
            assert_eq!(states(&ring), vec![true; slots]);
        }
    }

    /// The younger of two rings waits for the older one's upload, and never the other way round.
    #[test]
    fn the_oldest_upload_has_the_link() {
        let Setup { device, stream, view } = setup(4096);
        let pool = Arc::new(StagingPool::new(&*device, 3, 256, SOON).unwrap());
        let (mut older, mut younger) = (pool.ring(), pool.ring());
        let (begun, others) = std::sync::mpsc::channel();
        let log = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let note = |who, offset, bytes: &mut [u8]| {
                bytes.fill(0);
                log.lock().unwrap().push((who, offset));
                Ok::<_, Error>(())
            };
            let (device, log) = (&*device, &log);
            scope.spawn(move || {
                let half = view.slice(0, 2048).unwrap();
                younger.upload(device, stream, half, 1, |offset, bytes| {
                    if offset == 0 {
                        begun.send(()).unwrap();
                        // Until the older one has begun.
                        while log.lock().unwrap().is_empty() {
                            std::thread::yield_now();
                        }
                    }
                    note("younger", offset, bytes)
                })
            });
            others.recv().unwrap();
            let half = view.slice(2048, 2048).unwrap();
            older.upload(device, stream, half, 1, |offset, bytes| note("older", offset, bytes))
        })
        .unwrap();
        let log = log.into_inner().unwrap();
        assert_eq!(log.len(), 16);
        // What the younger one had in hand comes between, and no more.
        let last = log.iter().rposition(|(who, _)| *who == "older").unwrap();
        assert!(log[..=last].iter().filter(|(who, _)| *who == "younger").count() <= 1, "{log:?}");
        assert!(pool.lock().uploading.is_empty());
    }

    #[test]
    fn impossible_rings_and_failed_fillings_are_told() {
        let Setup { device, stream, view } = setup(1024);
        let invalid = |result: Result<StagingRing>| {
            assert!(matches!(result.err(), Some(Error::InvalidArgument(_))));
        };
        invalid(StagingRing::new(&*device, 0, 256, SOON));
        invalid(StagingRing::new(&*device, 2, 0, SOON));
        let mut ring = StagingRing::new(&*device, 2, 256, SOON).unwrap();
        let outcome =
            ring.upload(&*device, stream, view, 257, |_, _| -> Result<()> { unreachable!() });
        let Err(Error::InvalidArgument(message)) = outcome else { panic!("{outcome:?}") };
        assert!(message.contains("256") && message.contains("257"), "{message}");

        device.enqueue(stream, &Op::Fill(Fill::zero(view))).unwrap();
        let outcome = ring.upload(&*device, stream, view, 1, |offset, bytes| {
            bytes.fill(SECRET);
            if offset < 512 { Ok(()) } else { Err(failed("file")) }
        });
        assert_eq!(outcome, Err(failed("file")));
        // What was filled before went its way, nothing after.
        let bytes = Readback::new(&*device, 1024, SOON).unwrap().read(&*device, stream, view);
        assert_eq!(*bytes.unwrap(), [[SECRET; 512], [0; 512]].concat());
        ring.wipe().unwrap();
        assert_eq!(states(&ring), [true; 2]);
    }
}
