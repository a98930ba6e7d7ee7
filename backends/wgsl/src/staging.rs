//! Staging buffers. For uploads the host writes what the device copies from: host memory of our
//! own where there is Vulkan, else a buffer that wgpu maps. Downloads are small, and what a device
//! has not written must stay: their bytes are copied to host memory.
#![allow(unsafe_code)]

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use twinlock_api::{Error, Result, Staging, StagingKind};

use crate::chunks::Piece;
use crate::gpu::Gpu;
#[cfg(not(target_vendor = "apple"))]
use crate::host_memory::HostMemory;
use crate::launcher::Launcher;
use crate::memory::StagingBuffer;
use crate::timeline::timed_out;

/// A buffer that both host and device reach.
pub(crate) struct WgslStaging {
    // The mapping goes before the buffer.
    mapped: Option<wgpu::BufferViewMut>,
    buffer: wgpu::Buffer,
    #[cfg(not(target_vendor = "apple"))]
    own: Option<Arc<HostMemory>>,
    name: &'static str,
    kind: StagingKind,
    size_bytes: usize,
    /// A mapping that has been asked for.
    mapping: Option<Receiver<Result<(), wgpu::BufferAsyncError>>>,
    /// The ticket of the last copy.
    ticket: u64,
    /// Why a copy did not happen.
    failure: Option<Error>,
    /// What the host sees of a download buffer.
    host: Vec<u8>,
    /// Ranges that the device wrote and `host` lacks.
    written: Vec<Range<u64>>,
    /// Whether the device wrote what has not been cleared since.
    unwiped: bool,
    // Last, for the memory of the others is the device's.
    gpu: Arc<Gpu>,
}

impl WgslStaging {
    /// A buffer of zeros.
    pub(crate) fn new(
        gpu: Arc<Gpu>,
        made: StagingBuffer,
        name: &'static str,
        kind: StagingKind,
        size_bytes: usize,
    ) -> Result<Self> {
        #[cfg(not(target_vendor = "apple"))]
        let (buffer, own) = match made {
            StagingBuffer::Mapped(buffer) => (buffer, None),
            StagingBuffer::Own(buffer, memory) => (buffer, Some(memory)),
        };
        #[cfg(target_vendor = "apple")]
        let StagingBuffer::Mapped(buffer) = made;
        let mut staging = Self {
            mapped: None,
            buffer,
            #[cfg(not(target_vendor = "apple"))]
            own,
            gpu,
            name,
            kind,
            size_bytes,
            mapping: None,
            ticket: 0,
            failure: None,
            host: Vec::new(),
            written: Vec::new(),
            unwiped: false,
        };
        match kind {
            StagingKind::Upload if staging.own_bytes().is_some() => {}
            StagingKind::Upload => staging.take_mapping()?,
            StagingKind::Download => {
                let room = staging.host.try_reserve_exact(size_bytes);
                room.map_err(|_| Error::OutOfMemory {
                    what: name.to_owned(),
                    requested_bytes: size_bytes as u64,
                    free_bytes: None,
                })?;
                staging.host.resize(size_bytes, 0);
            }
        }
        Ok(staging)
    }

    /// Whether it belongs to `gpu`.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    #[cfg(test)]
    pub(crate) const fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The buffer, for the device to use from now on.
    pub(crate) fn for_device(&mut self) -> &wgpu::Buffer {
        // A mapping that nobody waited for to the end, too: the queue takes no mapped buffer.
        if self.mapped.take().is_some() || self.mapping.take().is_some() {
            self.buffer.unmap();
        }
        &self.buffer
    }

    /// Notes that the copy of `ticket` uses the buffer, `written` of which it writes.
    pub(crate) fn used(&mut self, ticket: u64, written: Option<Range<u64>>) {
        self.ticket = self.ticket.max(ticket);
        self.unwiped |= written.is_some();
        self.written.extend(written.filter(|range| !range.is_empty()));
    }

    /// Notes that a copy did not happen; the first reason stays.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// The bytes of memory that stays mapped, which no copy may use while they are borrowed.
    fn own_bytes(&mut self) -> Option<&mut [u8]> {
        #[cfg(not(target_vendor = "apple"))]
        if let Some(own) = &self.own {
            let size_bytes = self.size_bytes.min(own.size_bytes());
            // SAFETY: so many bytes are mapped and were set, for as long as `own` lives. The host
            // reaches them through `self` alone, which is borrowed.
            return Some(unsafe {
                std::slice::from_raw_parts_mut(own.start().as_ptr(), size_bytes)
            });
        }
        None
    }

    fn unmappable(&self, reason: &str) -> Error {
        match self.gpu.timeline.check_alive() {
            Err(lost) => lost,
            Ok(()) => Error::KernelFailed {
                name: "map",
                reason: format!("staging buffer {}: {reason}", self.name),
            },
        }
    }

    fn take_mapping(&mut self) -> Result<()> {
        let view = self.buffer.get_mapped_range_mut(..);
        self.mapped = Some(view.map_err(|error| self.unmappable(&error.to_string()))?);
        Ok(())
    }

    /// Maps the buffer, which no copy uses any more.
    fn map(&mut self, mode: wgpu::MapMode, start: Instant, timeout: Duration) -> Result<()> {
        let receiver = self.mapping.take().unwrap_or_else(|| {
            let (sender, receiver) = channel();
            self.buffer.map_async(mode, .., move |outcome| {
                // Nobody listens when the buffer has been dropped.
                let _ = sender.send(outcome);
            });
            receiver
        });
        loop {
            self.gpu.glance()?;
            match receiver.try_recv() {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => return Err(self.unmappable(&error.to_string())),
                Err(TryRecvError::Disconnected) => return Err(self.unmappable("it was refused")),
                Err(TryRecvError::Empty) => {}
            }
            self.gpu.timeline.check_alive()?;
            if start.elapsed() >= timeout {
                self.mapping = Some(receiver);
                return Err(timed_out(self.name, timeout));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Brings what the device wrote to `host`.
    fn fetch(&mut self, start: Instant, timeout: Duration) -> Result<()> {
        self.map(wgpu::MapMode::Read, start, timeout)?;
        let view = self.buffer.get_mapped_range(..);
        let outcome = view.map(|view| {
            for range in &self.written {
                let range = range.start as usize..range.end as usize;
                let (target, source) = (self.host.get_mut(range.clone()), view.get(range));
                if let (Some(target), Some(source)) = (target, source) {
                    target.copy_from_slice(source);
                }
            }
        });
        self.buffer.unmap();
        self.written.clear();
        outcome.map_err(|error| self.unmappable(&error.to_string()))
    }
}

impl Staging for WgslStaging {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes as u64
    }

    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        let start = Instant::now();
        self.gpu.timeline.wait(self.ticket, self.name, timeout)?;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.kind == StagingKind::Download {
            if !self.written.is_empty() {
                self.fetch(start, timeout)?;
            }
            return Ok(&mut self.host);
        }
        if self.own_bytes().is_some() {
            return Ok(self.own_bytes().unwrap_or_default());
        }
        if self.mapped.is_none() {
            self.map(wgpu::MapMode::Write, start, timeout)?;
            self.take_mapping()?;
        }
        let Some(view) = &mut self.mapped else { return Ok(&mut []) };
        let mut bytes = view.slice(..self.size_bytes);
        let first = bytes.as_raw_element_ptr();
        // SAFETY: the mapping lives until `for_device`, which needs `self` too, and so do all uses
        // of it; its bytes were zeroed when the buffer was made and have been written since.
        Ok(unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), self.size_bytes) })
    }

    /// Of a download alone, for the host writes an upload's own memory. It cannot write a mapping
    /// that is for reading, so the device does.
    fn wipe_copied(&mut self) -> Result<()> {
        if !self.unwiped {
            return Ok(());
        }
        let gpu = Arc::clone(&self.gpu);
        gpu.timeline.check_alive()?;
        gpu.timeline.check_open()?;
        let buffer = self.for_device();
        let mut launcher = Launcher::new(&gpu, "wipe", Vec::new());
        launcher.clear(Piece { buffer, start_bytes: 0, len_bytes: buffer.size() })?;
        self.ticket = gpu.timeline.push(launcher.finish()?);
        gpu.timeline.flush(self.ticket);
        self.unwiped = false;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use twinlock_api::op::Fill;
    use twinlock_api::{Device, Faults, MemoryClass, Op, Stream, View};

    use super::*;
    use crate::WgslBackend;
    use crate::testing::{Opened, open};

    const SOON: Duration = Duration::from_secs(120);
    const SIZE_BYTES: u64 = 4096;
    const SECRET: u32 = 0x5a5a_5a5a;

    struct Setup {
        device: Arc<dyn Device>,
        faults: Arc<dyn Faults>,
        stream: Stream,
        secret: View,
        staging: Box<dyn Staging>,
    }

    impl Setup {
        /// `None` where there is no device and none is required.
        fn new() -> Option<Self> {
            let Opened { device, faults, .. } = open(WgslBackend::default())?;
            let stream = device.create_stream("stream").expect("stream");
            let region = device.allocate("secret", MemoryClass::Work, SIZE_BYTES).expect("memory");
            let secret = region.whole("secret").expect("view");
            device.enqueue(stream, &Op::Fill(Fill::new(secret, SECRET))).expect("enqueue");
            let kind = StagingKind::Download;
            let staging = device.allocate_staging("down", kind, SIZE_BYTES).expect("staging");
            Some(Self { device, faults, stream, secret, staging })
        }

        fn download(&mut self) {
            let copied = self.device.download(self.stream, self.secret, &mut *self.staging, 0);
            copied.expect("enqueued");
        }

        /// What is in the buffer that the device wrote.
        fn in_buffer(&mut self) -> Vec<u8> {
            let staging = self.staging.as_any_mut().downcast_mut::<WgslStaging>().expect("ours");
            staging.gpu.timeline.wait(staging.ticket, "look", SOON).expect("it ran");
            staging.map(wgpu::MapMode::Read, Instant::now(), SOON).expect("maps");
            let bytes = staging.buffer.get_mapped_range(..).expect("mapped").to_vec();
            staging.buffer.unmap();
            bytes
        }
    }

    fn is_zero(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn a_wiped_download_is_gone_from_the_buffer_too() {
        let Some(mut setup) = Setup::new() else { return };
        for (is_read, fails) in [(true, false), (false, false), (true, true)] {
            setup.download();
            if is_read {
                let host = setup.staging.host(SOON).expect("it ran");
                assert_eq!(host, SECRET.to_le_bytes().repeat(1024));
            }
            assert_eq!(setup.in_buffer(), SECRET.to_le_bytes().repeat(1024));
            if fails {
                setup.faults.fail_next_op();
                let op = Op::Fill(Fill::zero(setup.secret));
                setup.device.enqueue(setup.stream, &op).expect("enqueued");
                setup.download();
                setup.staging.host(SOON).map(drop).expect_err("its stream has failed");
            }
            setup.staging.wipe_copied().expect("wipes");
            assert!(is_zero(&setup.in_buffer()), "read {is_read}, failed {fails}");
        }
        // What nobody read is zeros now.
        setup.staging.host(SOON).expect("host").fill(1);
        setup.staging.wipe_copied().expect("nothing to wipe");
    }

    /// A device that is busy is not waited for: the wipe comes behind what it has to do. One that is
    /// lost or closed says so.
    #[test]
    fn wiping_waits_for_no_device() {
        let Some(mut setup) = Setup::new() else { return };
        setup.faults.hold(true).expect("tells");
        setup.download();
        setup.staging.wipe_copied().expect("enqueued");
        setup.faults.hold(false).expect("tells");
        assert!(is_zero(&setup.in_buffer()));

        setup.download();
        setup.faults.lose();
        let outcome = setup.staging.wipe_copied();
        assert!(matches!(outcome, Err(Error::DeviceLost { .. })), "{outcome:?}");

        let Some(mut setup) = Setup::new() else { return };
        setup.download();
        drop(setup.device);
        let outcome = setup.staging.wipe_copied();
        assert!(matches!(outcome, Err(Error::DeviceLost { .. })), "{outcome:?}");
    }

    /// A mapping that was not waited for to the end does not lose the device.
    #[test]
    fn a_mapping_given_up_is_taken_back() {
        let Some(mut setup) = Setup::new() else { return };
        setup.download();
        let event = setup.device.record(setup.stream).expect("event");
        setup.device.synchronize(&event, SOON).expect("done");
        let staging = setup.staging.as_any_mut().downcast_mut::<WgslStaging>().expect("ours");
        let gpu = Arc::clone(staging.gpu());
        // Nobody else can look at the device, so no mapping comes.
        let alone = gpu.polling.lock().expect("no panic");
        let outcome = setup.staging.host(Duration::ZERO).map(drop);
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
        drop(alone);
        setup.download();
        let host = setup.staging.host(SOON).expect("the device is not lost");
        assert_eq!(host, SECRET.to_le_bytes().repeat(1024));
    }
}
