//! Parameters of dispatches: small uniform buffers, one a part.
//!
//! What is in a buffer is written when its part is submitted, in the queue's order. So a part may
//! have the buffer of an earlier one that has not run; only one submission must not have it twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::timeline::MAX_DISPATCHES;

/// The most bytes of parameters a dispatch has.
pub(crate) const MAX_PARAM_BYTES: u64 = 256;
/// Buffers, all made at open; so many parts with parameters fit one submission.
const BUFFERS: usize = 32;

/// A device's parameter buffers, which go round.
pub(crate) struct ParamPool {
    buffers: Vec<wgpu::Buffer>,
    next: AtomicUsize,
    slot_bytes: u64,
}

/// The parameters of a part's dispatches.
pub(crate) struct Params {
    pub(crate) buffer: wgpu::Buffer,
    /// Which buffer that is.
    pub(crate) at: usize,
    /// What is written to it before the part runs.
    pub(crate) bytes: Vec<u8>,
}

impl ParamPool {
    pub(crate) fn new(device: &wgpu::Device, limits: &wgpu::Limits) -> Self {
        let align = u64::from(limits.min_uniform_buffer_offset_alignment).max(16);
        let slot_bytes = MAX_PARAM_BYTES.next_multiple_of(align);
        let make = |_| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("params"),
                size: slot_bytes * u64::from(MAX_DISPATCHES),
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let buffers = (0..BUFFERS).map(make).collect();
        Self { buffers, next: AtomicUsize::new(0), slot_bytes }
    }

    /// Bytes from one dispatch's parameters to the next one's.
    pub(crate) const fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Bytes of all buffers.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.buffers.iter().map(wgpu::Buffer::size).sum()
    }

    /// A buffer for the parameters of [`MAX_DISPATCHES`] dispatches.
    pub(crate) fn take(&self) -> Params {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % BUFFERS;
        Params { buffer: self.buffers[at].clone(), at, bytes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use twinlock_api::op::Fill;
    use twinlock_api::{MemoryClass, Op, StagingKind};

    use super::*;
    use crate::WgslBackend;
    use crate::testing::{Opened, open};

    const SOON: Duration = Duration::from_secs(120);
    const PARTS: u32 = 150;

    /// Many more parts than buffers, all recorded before the first is submitted: the device's memory
    /// stays as it was, and each part still has its own parameters.
    #[test]
    fn parts_that_wait_take_no_memory() {
        let Some(Opened { device, faults, gpu }) = open(WgslBackend::default().portable()) else {
            return;
        };
        let region = device.allocate("words", MemoryClass::Work, 256 * u64::from(PARTS));
        let words = region.expect("memory").whole("words").expect("view");
        let stream = device.create_stream("stream").expect("stream");
        // A kernel's compilation may take memory.
        let first = Op::Fill(Fill::new(words, 1));
        device.enqueue(stream, &first).expect("enqueue");
        device.synchronize(&device.record(stream).expect("event"), SOON).expect("done");
        let buffers = || {
            let report = gpu.device.generate_allocator_report()?;
            Some(report.allocations.iter().filter(|made| made.name == "params").count())
        };
        let before = buffers();
        faults.hold(true).expect("tells");
        for part in 0..PARTS {
            let slot = words.slice(256 * u64::from(part), 256).expect("slice");
            device.enqueue(stream, &Op::Fill(Fill::new(slot, part + 7))).expect("enqueue");
        }
        assert_eq!(buffers(), before);
        assert!(before.is_none_or(|count| count == BUFFERS), "{before:?}");
        faults.hold(false).expect("tells");
        let size_bytes = words.len_bytes();
        let mut staging =
            device.allocate_staging("read", StagingKind::Download, size_bytes).expect("staging");
        device.download(stream, words, &mut *staging, 0).expect("enqueued");
        for (part, bytes) in (7u32..).zip(staging.host(SOON).expect("done").chunks(256)) {
            assert_eq!(bytes, part.to_le_bytes().repeat(64), "part {}", part - 7);
        }
    }
}
