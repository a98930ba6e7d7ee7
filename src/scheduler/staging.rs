//! A bounded ring of staging buffers: one fills while earlier ones are in flight.

use std::time::Duration;

use twinlock_api::{Device, Error, Result, Staging, StagingKind, Stream, View};

/// A fixed number of slots of one size, allocated once and used in turn.
pub struct StagingRing {
    slots: Vec<Box<dyn Staging>>,
    slot_bytes: u64,
    next: usize,
    timeout: Duration,
}

impl StagingRing {
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
            return Err(Error::invalid("a staging ring needs slots with bytes"));
        }
        let slot_bytes = slot_bytes.next_multiple_of(256);
        let slots = (0..slots)
            .map(|_| device.allocate_staging("staging_upload", StagingKind::Upload, slot_bytes))
            .collect::<Result<_>>()?;
        Ok(Self { slots, slot_bytes, next: 0, timeout })
    }

    /// Size of a slot in bytes.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
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
        let piece_bytes = self.slot_bytes / unit_bytes.max(1) * unit_bytes.max(1);
        if piece_bytes == 0 {
            return Err(Error::invalid(format!(
                "staging slots of {} bytes cannot hold a unit of {unit_bytes}",
                self.slot_bytes
            ))
            .into());
        }
        let mut offset = 0;
        while offset < target.len_bytes() {
            let len = piece_bytes.min(target.len_bytes() - offset);
            let at = self.next;
            self.next = (at + 1) % self.slots.len();
            let Some(slot) = self.slots.get_mut(at) else { break };
            let host = slot.host(self.timeout)?;
            let Some(bytes) = host.get_mut(..len as usize) else {
                return Err(Error::invalid("a staging slot is shorter than it says").into());
            };
            fill(offset, bytes)?;
            device.upload(stream, slot.as_mut(), 0, target.slice(offset, len)?)?;
            offset += len;
        }
        Ok(())
    }

    /// Overwrites every slot with zeros, once its copies have run: what was staged may be secret.
    ///
    /// # Errors
    /// `Timeout`, or what the copies failed with.
    pub fn wipe(&mut self) -> Result<()> {
        for slot in &mut self.slots {
            slot.host(self.timeout)?.fill(0);
        }
        Ok(())
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
