//! Staging buffers: pinned host memory.
#![allow(unsafe_code)]

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use twinlock_api::{Error, Result, Staging, StagingKind, Stream};

use crate::driver::Meaning;
use crate::events::PooledEvent;
use crate::gpu::Gpu;
use crate::memory::{Pinned, out_of_memory};

/// A buffer that both host and device reach.
pub(crate) struct CudaStaging {
    pinned: Pinned,
    name: &'static str,
    kind: StagingKind,
    size_bytes: usize,
    /// The end of each stream's last copy.
    copies: Vec<(Stream, Arc<PooledEvent>)>,
    /// Why a copy did not happen.
    failure: Option<Error>,
    gpu: Arc<Gpu>,
}

impl CudaStaging {
    /// A buffer of zeros; the context is current.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Self> {
        let limit = isize::MAX as u64;
        if size_bytes > limit {
            let what = format!("{name} (bytes)");
            return Err(Error::ExceedsLimit { what, requested: size_bytes, limit });
        }
        let size = size_bytes as usize;
        let pinned = gpu.memory.pinned(size).map_err(|refusal| match refusal.meaning() {
            // The host has less than that, or may not pin it.
            Meaning::OutOfMemory | Meaning::Refused => out_of_memory(name, size_bytes, None),
            Meaning::Lost => gpu.failed("staging", refusal),
        })?;
        Ok(Self {
            pinned,
            name,
            kind,
            size_bytes: size,
            copies: Vec::new(),
            failure: None,
            gpu: Arc::clone(gpu),
        })
    }

    /// Whether it belongs to `gpu`.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    /// The memory, for copies whose ends are noted by [`CudaStaging::used`].
    pub(crate) const fn pinned(&self) -> Pinned {
        self.pinned
    }

    /// Notes that a copy of `stream` ends with `event`.
    pub(crate) fn used(&mut self, stream: Stream, event: Arc<PooledEvent>) {
        self.copies.retain(|(known, _)| *known != stream);
        self.copies.push((stream, event));
    }

    /// Notes that a copy did not happen; the first reason stays.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }
}

impl Staging for CudaStaging {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes as u64
    }

    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        let start = Instant::now();
        self.gpu.check_alive()?;
        while let Some((_, event)) = self.copies.last() {
            self.gpu.wait(event, self.name, start, timeout)?;
            self.copies.pop();
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // SAFETY: so many bytes were allocated and zeroed there, and no copy uses them until this
        // borrow ends, for a copy needs `self` too.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pinned.0.cast(), self.size_bytes) })
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for CudaStaging {
    fn drop(&mut self) {
        // Of a lost device it goes with the context.
        if let Ok(_current) = self.gpu.enter() {
            let until = self.copies.drain(..).map(|(_, event)| event).collect();
            self.gpu.memory.free_pinned(&self.gpu, (self.pinned, self.size_bytes), until);
        }
    }
}
