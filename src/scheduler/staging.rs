//! A bounded ring of staging buffers: one fills while earlier ones are in flight.

use std::time::{Duration, Instant};

use zeroize::Zeroizing;

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
        let slot_bytes = rounded(slot_bytes)?;
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
    /// All are tried, in the time for one.
    ///
    /// # Errors
    /// The first of: `Timeout`, where a slot is still in use and left as it is; what its copies
    /// failed with.
    pub fn wipe(&mut self) -> Result<()> {
        let start = Instant::now();
        let mut outcome = Ok(());
        for slot in &mut self.slots {
            let left = self.timeout.saturating_sub(start.elapsed());
            outcome = outcome.and(wipe(slot.as_mut(), left));
        }
        outcome
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

    /// Overwrites the buffer with zeros.
    ///
    /// # Errors
    /// As [`StagingRing::wipe`].
    pub fn wipe(&mut self) -> Result<()> {
        wipe(self.buffer.as_mut(), self.timeout)
    }
}

/// Overwrites a buffer with zeros, also where its copies failed: a buffer tells that once, and
/// gives its bytes when it is asked again.
fn wipe(buffer: &mut dyn Staging, timeout: Duration) -> Result<()> {
    let outcome = buffer.host(timeout).map(|bytes| bytes.fill(0));
    if outcome.is_err()
        && let Ok(bytes) = buffer.host(Duration::ZERO)
    {
        bytes.fill(0);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use twinlock_api::op::Fill;
    use twinlock_api::{MemoryClass, Op, OpenOptions};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);
    const SECRET: u8 = 0x5a;

    /// A slot that tells these failures, the last first, before it gives its bytes.
    struct Slot {
        bytes: [u8; 256],
        failures: Vec<Error>,
    }

    impl Slot {
        fn with(failures: &[Error]) -> Box<dyn Staging> {
            let failures = failures.iter().rev().cloned().collect();
            Box::new(Self { bytes: [SECRET; 256], failures })
        }
    }

    impl Staging for Slot {
        fn kind(&self) -> StagingKind {
            StagingKind::Upload
        }

        fn size_bytes(&self) -> u64 {
            256
        }

        fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
            self.failures.pop().map_or(Ok(&mut self.bytes[..]), Err)
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
        slot.host(SOON).unwrap().iter().all(|byte| *byte == 0)
    }

    #[test]
    fn wiping_goes_on_after_a_failure_and_tells_the_first() {
        let (first, second) = (failed("first"), failed("second"));
        let slots = vec![
            Slot::with(&[]),
            Slot::with(std::slice::from_ref(&first)),
            Slot::with(&[]),
            Slot::with(&[late(), late()]),
            Slot::with(&[second]),
            Slot::with(&[]),
        ];
        let mut ring = StagingRing { slots, slot_bytes: 256, next: 0, timeout: SOON };
        assert_eq!(ring.wipe(), Err(first));
        // The one whose copies may still run is theirs.
        let wiped: Vec<_> = ring.slots.iter_mut().map(is_wiped).collect();
        assert_eq!(wiped, [true, true, true, false, true, true]);
        assert_eq!(ring.wipe(), Ok(()));
        assert!(ring.slots.iter_mut().all(is_wiped));

        let mut readback = Readback { buffer: Slot::with(&[failed("read")]), timeout: SOON };
        assert_eq!(readback.wipe(), Err(failed("read")));
        assert!(is_wiped(&mut readback.buffer));
        // What fails for good is told, and not tried for ever.
        let lost = || Error::DeviceLost { reason: "gone".into() };
        let mut ring = StagingRing {
            slots: vec![Slot::with(&vec![lost(); 9]), Slot::with(&[])],
            slot_bytes: 256,
            next: 0,
            timeout: SOON,
        };
        assert_eq!(ring.wipe(), Err(lost()));
        assert!(is_wiped(&mut ring.slots[1]));
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
        ] {
            let Setup { device, stream, view } = setup(len_bytes);
            let mut ring = StagingRing::new(&*device, slots, slot_bytes, SOON).unwrap();
            assert_eq!(ring.slot_bytes(), slot_bytes.next_multiple_of(256));
            let piece_bytes = ring.slot_bytes() / unit_bytes * unit_bytes;
            let mut pieces = Vec::new();
            ring.upload(&*device, stream, view, unit_bytes, |offset, bytes| {
                pieces.push((offset, bytes.len() as u64));
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = byte_at(offset + i as u64);
                }
                Ok::<_, Error>(())
            })
            .unwrap();
            let starts = (0..len_bytes).step_by(piece_bytes as usize);
            let expected: Vec<_> =
                starts.map(|start| (start, piece_bytes.min(len_bytes - start))).collect();
            assert_eq!(pieces, expected);
            // Smaller than the view, and larger.
            for readback_bytes in [1, 256, 4096, 1 << 20] {
                let mut readback = Readback::new(&*device, readback_bytes, SOON).unwrap();
                let bytes = readback.read(&*device, stream, view).unwrap();
                let expected: Vec<_> = (0..len_bytes).map(byte_at).collect();
                assert_eq!(*bytes, expected);
                readback.wipe().unwrap();
                assert!(is_wiped(&mut readback.buffer));
            }
            ring.wipe().unwrap();
            assert!(ring.slots.iter_mut().all(is_wiped));
        }
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
        assert!(ring.slots.iter_mut().all(is_wiped));
    }
}
