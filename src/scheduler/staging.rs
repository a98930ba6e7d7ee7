//! A bounded pool of staging buffers: some fill while others are in flight.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::{Device, Error, Result, Staging, StagingKind, Stream, View};

/// A fixed number of slots of one size, allocated once and shared by a device's workers. The slot
/// that came back first goes out first, so that its copy is the likeliest to have run.
pub struct StagingPool {
    free: Mutex<VecDeque<Slot>>,
    returned: Condvar,
    slot_bytes: u64,
    timeout: Duration,
    rings: AtomicU64,
}

struct Slot {
    buffer: Box<dyn Staging>,
    /// The ring whose bytes are in it; 0 for zeros.
    owner: u64,
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
        if slots == 0 || slot_bytes == 0 {
            return Err(Error::invalid("a staging pool needs slots with bytes"));
        }
        let slot_bytes = slot_bytes.next_multiple_of(256);
        let free = (0..slots)
            .map(|_| {
                let kind = StagingKind::Upload;
                let buffer = device.allocate_staging("staging_upload", kind, slot_bytes)?;
                Ok(Slot { buffer, owner: 0 })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            free: Mutex::new(free),
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

    fn lock(&self) -> MutexGuard<'_, VecDeque<Slot>> {
        // Moving slots in and out leaves the queue whole, whatever panics elsewhere.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot; its copy may still run. Slots are held while they are filled only, so
    /// one comes back soon.
    fn take(&self) -> Result<TakenSlot<'_>> {
        let free = self.lock();
        let (mut free, _) = (self.returned)
            .wait_timeout_while(free, self.timeout, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let slot = free.pop_front().ok_or_else(|| Error::Timeout {
            what: "a staging slot".into(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
        })?;
        Ok(TakenSlot { pool: self, slot: Some(slot) })
    }

    fn take_of(&self, owner: u64) -> Option<TakenSlot<'_>> {
        let mut free = self.lock();
        let at = free.iter().position(|slot| slot.owner == owner)?;
        Some(TakenSlot { pool: self, slot: free.remove(at) })
    }
}

/// Goes back when dropped.
struct TakenSlot<'a> {
    pool: &'a StagingPool,
    slot: Option<Slot>,
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        self.pool.lock().extend(self.slot.take());
        self.pool.returned.notify_one();
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
    /// smaller than the slot allows. Waits only when every slot is in flight.
    ///
    /// # Errors
    /// What `fill` or the device answers.
    pub fn upload<E: From<Error>>(
        &mut self,
        device: &dyn Device,
        stream: Stream,
        target: View,
        unit_bytes: u64,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let slot_bytes = self.pool.slot_bytes;
        let piece_bytes = slot_bytes / unit_bytes.max(1) * unit_bytes.max(1);
        if piece_bytes == 0 {
            return Err(Error::invalid(format!(
                "staging slots of {slot_bytes} bytes cannot hold a unit of {unit_bytes}"
            ))
            .into());
        }
        let mut offset = 0;
        while offset < target.len_bytes() {
            let len = piece_bytes.min(target.len_bytes() - offset);
            let mut taken = self.pool.take()?;
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
            fill(offset, bytes)?;
            device.upload(stream, slot.buffer.as_mut(), 0, target.slice(offset, len)?)?;
            offset += len;
        }
        Ok(())
    }

    /// Overwrites every slot that holds this ring's bytes with zeros, once its copy has run: what
    /// was staged may be secret. A slot that another ring filled since is wiped by that one.
    ///
    /// # Errors
    /// `Timeout`, or what the copies failed with; the slots are wiped all the same where possible.
    pub fn wipe(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(mut taken) = self.pool.take_of(self.id) {
            let Some(slot) = taken.slot.as_mut() else { break };
            let first = slot.buffer.host(self.pool.timeout).map(|_| ());
            // A failure is told once; then the bytes are ours.
            match slot.buffer.host(self.pool.timeout) {
                Ok(bytes) => bytes.fill(0),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            slot.owner = 0;
            outcome = outcome.and(first);
        }
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
        let size_bytes = size_bytes.max(1).next_multiple_of(256);
        let buffer =
            device.allocate_staging("staging_download", StagingKind::Download, size_bytes)?;
        Ok(Self { buffer, timeout })
    }

    /// Copies `source` to the host, waiting for the work before it on `stream`.
    ///
    /// # Errors
    /// `Timeout`, or what that work failed with.
    pub fn read(&mut self, device: &dyn Device, stream: Stream, source: View) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(source.len_bytes() as usize);
        let mut offset = 0;
        while offset < source.len_bytes() {
            let len = self.buffer.size_bytes().min(source.len_bytes() - offset);
            device.download(stream, source.slice(offset, len)?, self.buffer.as_mut(), 0)?;
            bytes.extend(self.buffer.host(self.timeout)?.iter().take(len as usize));
            offset += len;
        }
        Ok(bytes)
    }

    /// Overwrites the buffer with zeros.
    ///
    /// # Errors
    /// `Timeout`, or what the last copy failed with.
    pub fn wipe(&mut self) -> Result<()> {
        self.buffer.host(self.timeout)?.fill(0);
        Ok(())
    }
}
