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

use crate::gpu::Gpu;
#[cfg(not(target_vendor = "apple"))]
use crate::host_memory::HostMemory;
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

    /// The buffer, for the device to use from now on.
    pub(crate) fn for_device(&mut self) -> &wgpu::Buffer {
        if self.mapped.take().is_some() {
            self.buffer.unmap();
        }
        &self.buffer
    }

    /// Notes that the copy of `ticket` uses the buffer, `written` of which it writes.
    pub(crate) fn used(&mut self, ticket: u64, written: Option<Range<u64>>) {
        self.ticket = self.ticket.max(ticket);
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

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
