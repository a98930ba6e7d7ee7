//! A bounded pool of staging buffers: some fill while others are in flight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::locks::outside_mem;
use crate::host_threads::{self, Threads};
use rayon::prelude::*;
use twinlock_api::{Device, Error, Result, Staging, StagingKind, Stream, View};

/// What one CPU thread fills at a time.
const FILL_BYTES: u64 = 256 << 10;
/// Slots that an upload fills at once, so that no thread waits for the last one of a slot.
const FILLING: usize = 2;
const MADE: &str = "making staging buffers";
const DROPPED: &str = "dropping a staging buffer";
const SLOT: &str = "waiting for a staging slot";
const RESULTS: &str = "waiting for results";

/// A fixed number of slots of one size, allocated once and shared by a device's workers. The slot
/// that came back first goes out first, so that its copy is the likeliest to have run. One ring at a time
/// has the link, for two that share it both come late: that of the partition that computes, else the
/// first in order.
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
    /// Rings in the middle of an upload, or of several that are one to others; how many turns each has.
    uploading: BTreeMap<Place, usize>,
}

/// A ring's place: first that for whose uploads the device waits, then in order; and its own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    prepares: bool,
    order: u64,
    ring: u64,
}

impl Shared {
    /// Whether there is a slot, and no ring before this one that uploads.
    fn has_slot_for(&self, place: Place) -> bool {
        !self.free.is_empty() && self.uploading.keys().next().is_none_or(|first| *first >= place)
    }
}

struct Slot {
    buffer: Box<dyn Staging>,
    /// The ring whose bytes are in it; 0 for zeros.
    owner: u64,
    /// Bytes at its start that may be other than zero, whoever left them.
    used: usize,
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
                Ok(Slot { buffer, owner: 0, used: 0 })
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

    /// Slots for one partition, as it needs them; those of a lower `order` upload before it.
    pub fn ring(self: &Arc<Self>, order: u64) -> StagingRing {
        let ring = self.rings.fetch_add(1, Ordering::Relaxed);
        StagingRing { pool: self.clone(), place: Place { prepares: true, order, ring } }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Moving slots in and out leaves the queue whole, whatever panics elsewhere.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot, and for rings before this one to end their uploads; the slot's copy may still run.
    /// Slots are held while they are filled only, so one comes back soon.
    fn take(&self, place: Place) -> Result<TakenSlot<'_>> {
        outside_mem(SLOT);
        let shared = self.lock();
        let (mut shared, wait) = (self.returned)
            .wait_timeout_while(shared, self.timeout, |shared| !shared.has_slot_for(place))
            .unwrap_or_else(PoisonError::into_inner);
        let slot = if wait.timed_out() { None } else { shared.free.pop_front() };
        let slot = slot.ok_or_else(|| Error::Timeout {
            what: "a staging slot".into(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
        })?;
        Ok(self.taken(slot))
    }

    /// The same, if there is nothing to wait for.
    fn take_free(&self, place: Place) -> Option<TakenSlot<'_>> {
        outside_mem(SLOT);
        let mut shared = self.lock();
        let slot = if shared.has_slot_for(place) { shared.free.pop_front() } else { None };
        slot.map(|slot| self.taken(slot))
    }

    fn taken(&self, slot: Slot) -> TakenSlot<'_> {
        TakenSlot { pool: self, slot: Some(slot), len: 0 }
    }

    fn put_back(&self, slots: impl IntoIterator<Item = Slot>) {
        self.lock().free.extend(slots);
        self.returned.notify_all();
    }

    fn take_of(&self, owner: u64) -> Option<TakenSlot<'_>> {
        let mut shared = self.lock();
        let at = shared.free.iter().position(|slot| slot.owner == owner)?;
        shared.free.remove(at).map(|slot| self.taken(slot))
    }
}

/// A ring's turn to upload, before all that come after it; over when dropped.
pub struct Uploading {
    pool: Arc<StagingPool>,
    place: Place,
}

impl Drop for Uploading {
    fn drop(&mut self) {
        let mut shared = self.pool.lock();
        if let Some(turns) = shared.uploading.get_mut(&self.place) {
            *turns -= 1;
            if *turns == 0 {
                shared.uploading.remove(&self.place);
            }
        }
        drop(shared);
        self.pool.returned.notify_all();
    }
}

/// Goes back when dropped.
struct TakenSlot<'a> {
    pool: &'a StagingPool,
    slot: Option<Slot>,
    /// Bytes of it that are on their way.
    len: usize,
}

/// What comes back from who filled a slot.
type Filled<'a, E> = Result<TakenSlot<'a>, E>;

impl TakenSlot<'_> {
    /// What is to be filled.
    fn bytes(&mut self) -> Result<&mut [u8]> {
        let (len, timeout) = (self.len, self.pool.timeout);
        let slot = self.slot.as_mut().ok_or_else(Self::gone)?;
        slot.buffer.host(timeout)?.get_mut(..len).ok_or_else(Self::gone)
    }

    /// Copies what was filled over `target`.
    fn send(mut self, device: &dyn Device, stream: Stream, target: View) -> Result<()> {
        let slot = self.slot.as_mut().ok_or_else(Self::gone)?;
        device.upload(stream, slot.buffer.as_mut(), 0, target)
    }

    fn gone() -> Error {
        Error::invalid("a staging slot went away")
    }
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        self.pool.put_back(self.slot.take());
    }
}

/// One partition's use of a [`StagingPool`].
pub struct StagingRing {
    pool: Arc<StagingPool>,
    place: Place,
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
        Ok(Arc::new(StagingPool::new(device, slots, slot_bytes, timeout)?).ring(0))
    }

    /// Size of a slot in bytes.
    pub fn slot_bytes(&self) -> u64 {
        self.pool.slot_bytes
    }

    /// From now on the device waits for what this ring uploads, which comes before all others.
    pub fn computes(&mut self) {
        self.place.prepares = false;
    }

    /// Lets no ring that comes after this one upload between the uploads that follow.
    pub fn turn(&self) -> Uploading {
        *self.pool.lock().uploading.entry(self.place).or_default() += 1;
        Uploading { pool: self.pool.clone(), place: self.place }
    }

    /// Fills slots piece by piece and copies them over `target`: `fill(offset, bytes)` writes the
    /// bytes that belong at `offset` of it. Pieces are multiples of `unit_bytes`, but for none
    /// smaller than the slot allows; several CPU threads fill one slot, or two. Waits when every slot
    /// is being filled or a ring before it uploads.
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
        self.upload_on(&host_threads::WORK, device, stream, (target, unit_bytes), fill)
    }

    /// The threads for an upload whose `fill` may have to wait: others' work does not wait with it, unless
    /// the device does.
    pub(crate) fn readers(&self) -> &'static Threads {
        if self.place.prepares { &host_threads::READS } else { &host_threads::WORK }
    }

    /// [`upload`](Self::upload) by these threads.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn upload_on<E: From<Error> + Send>(
        &mut self,
        threads: &Threads,
        device: &dyn Device,
        stream: Stream,
        (target, unit_bytes): (View, u64),
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
        if target.len_bytes() == 0 {
            return Ok(());
        }
        let _turn = self.turn();
        let part_bytes = FILL_BYTES.next_multiple_of(unit_bytes);
        if target.len_bytes() <= part_bytes.min(piece_bytes) {
            // Not worth another thread.
            let taken = self.pool.take(self.place)?;
            let mut slot = self.writable(taken, target.len_bytes() as usize)?;
            fill(0, slot.bytes()?)?;
            return Ok(slot.send(device, stream, target)?);
        }
        let fill = |offset, bytes: &mut [u8]| -> Result<(), E> {
            let parts = bytes.par_chunks_mut(part_bytes as usize).enumerate();
            parts.try_for_each(|(part, bytes)| fill(offset + part as u64 * part_bytes, bytes))
        };
        let fill = &fill;
        threads.scope(|scope| {
            let mut filling: VecDeque<(View, Receiver<Filled<'_, E>>)> = VecDeque::new();
            let gone = |_| Error::invalid("a staging slot was not filled to its end");
            let send = |(target, filled): (View, Receiver<Filled<'_, E>>)| -> Result<(), E> {
                Ok(filled.recv().map_err(gone)??.send(device, stream, target)?)
            };
            for offset in (0..target.len_bytes()).step_by(piece_bytes as usize) {
                let target = target.slice(offset, piece_bytes.min(target.len_bytes() - offset))?;
                // What is filled goes before a wait for a slot or its last copy. Who waits for others'
                // slots holds none, or two that share the pool might wait for each other.
                while let Some(slot) =
                    filling.front().and_then(|(_, filled)| filled.try_recv().ok())
                {
                    let Some((target, _)) = filling.pop_front() else { break };
                    slot?.send(device, stream, target)?;
                }
                let taken = loop {
                    if filling.len() < FILLING
                        && let Some(taken) = self.pool.take_free(self.place)
                    {
                        break taken;
                    }
                    match filling.pop_front() {
                        Some(oldest) => send(oldest)?,
                        None => break self.pool.take(self.place)?,
                    }
                };
                let mut slot = self.writable(taken, target.len_bytes() as usize)?;
                let (done, filled) = sync_channel(1);
                filling.push_back((target, filled));
                let fill = move || {
                    let outcome = slot.bytes().map_err(E::from);
                    let outcome = outcome.and_then(|bytes| fill(offset, bytes));
                    // Nobody waits for it where one before it failed.
                    let _ = done.send(outcome.map(|()| slot));
                };
                // Such a thread may not wait for others, and what one fills it need not.
                match rayon::current_thread_index() {
                    None if piece_bytes > part_bytes => scope.spawn(move |_| fill()),
                    _ => fill(),
                }
            }
            filling.into_iter().try_for_each(send)
        })
    }

    /// Makes a slot ready for so many bytes: no copy reads it any more.
    fn writable<'p>(&self, mut taken: TakenSlot<'p>, len: usize) -> Result<TakenSlot<'p>> {
        if let Some(slot) = taken.slot.as_mut() {
            let timeout = self.pool.timeout;
            if slot.owner != self.place.ring && slot.buffer.host(timeout).is_err() {
                // Another partition's copy failed; that is told once, and not our concern.
                tracing::debug!("a staging slot was left by a copy that failed");
            }
            if slot.buffer.host(timeout)?.len() < len {
                return Err(Error::invalid("a staging slot is shorter than it says"));
            }
            slot.owner = self.place.ring;
            slot.used = slot.used.max(len);
            taken.len = len;
        }
        Ok(taken)
    }

    /// Overwrites with zeros what was used of every slot that holds this ring's bytes, once its
    /// copies have run: what was staged may be secret. A slot that another ring filled since is
    /// wiped by that one. All are tried, in the time for one.
    ///
    /// # Errors
    /// The first of: `Timeout`, where a slot is still in use and left as it is; what its copies
    /// failed with.
    pub fn wipe(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut outcome = Ok(());
        let mut left_over = Vec::new();
        while let Some(mut taken) = self.pool.take_of(self.place.ring) {
            let Some(mut slot) = taken.slot.take() else { break };
            let left = self.pool.timeout.saturating_sub(start.elapsed());
            let wiped = wipe(slot.buffer.as_mut(), &mut slot.used, left);
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
            let host = &*host;
            host_threads::WORK.install(|| {
                let parts = target.par_chunks_mut(FILL_BYTES as usize);
                parts.zip(host.par_chunks(FILL_BYTES as usize)).for_each(|(target, host)| {
                    target.copy_from_slice(&host[..target.len()]);
                });
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
        let mut all = usize::MAX;
        wipe(self.buffer.as_mut(), &mut all, self.timeout)
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        outside_mem(DROPPED);
    }
}

/// Overwrites the first `used` bytes of a buffer with zeros, of which none are left then, and what the
/// device keeps behind it; also where its copies failed: a buffer tells that once, and gives its bytes
/// when it is asked again.
fn wipe(buffer: &mut dyn Staging, used: &mut usize, timeout: Duration) -> Result<()> {
    outside_mem("waiting for a copy");
    let start = Instant::now();
    let left = || timeout.saturating_sub(start.elapsed());
    let mut zero_used = |bytes: &mut [u8]| {
        let len = (*used).min(bytes.len());
        zero(&mut bytes[..len]);
        *used = 0;
    };
    let outcome = buffer.host(timeout).map(&mut zero_used);
    if outcome.is_err()
        && let Ok(bytes) = buffer.host(left())
    {
        zero_used(bytes);
    }
    outcome.and(buffer.wipe_copied())
}

/// Several threads, for it is in a proof's way.
fn zero(bytes: &mut [u8]) {
    if bytes.len() <= FILL_BYTES as usize {
        bytes.fill(0);
    } else {
        host_threads::WORK.install(|| {
            bytes.par_chunks_mut(FILL_BYTES as usize).for_each(|bytes| bytes.fill(0));
        });
    }
}

#[cfg(test)]
mod tests;
