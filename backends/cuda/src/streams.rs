//! Streams. A destroyed stream's driver stream serves again once its work has run.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUresult, CUstream, CUstream_flags_enum};
use twinlock_api::{Error, Result, Stream};

use crate::driver::{Refusal, check};
use crate::events::{EventPool, PooledEvent};
use crate::gpu::Gpu;
use crate::memory::Pinned;

/// Driver streams made when a device is opened.
const FIRST_STREAMS: usize = 16;

/// A driver stream; it belongs to a context and dies with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawStream(pub(crate) CUstream);

// SAFETY: a stream handle may be used from any thread.
unsafe impl Send for RawStream {}

/// Driver streams without a user, each with the end of its last one's work.
#[derive(Default)]
pub(crate) struct StreamPool {
    idle: Mutex<Vec<(RawStream, Option<Arc<PooledEvent>>)>>,
    /// Every stream there is; all live as long as the context.
    all: Mutex<Vec<RawStream>>,
}

impl StreamPool {
    /// A pool with some streams; the context is current.
    pub(crate) fn new() -> Result<Self, Refusal> {
        let pool = Self::default();
        for _ in 0..FIRST_STREAMS {
            let stream = pool.make()?;
            pool.idle().push((stream, None));
        }
        Ok(pool)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(RawStream, Option<Arc<PooledEvent>>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> MutexGuard<'_, Vec<RawStream>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self) -> Result<RawStream, Refusal> {
        let mut stream: CUstream = std::ptr::null_mut();
        let flags = CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        self.all().push(RawStream(stream));
        Ok(RawStream(stream))
    }

    /// Whether no stream has work that has not run; the context is current.
    pub(crate) fn have_run(&self) -> bool {
        self.all().iter().all(|RawStream(raw)| {
            // SAFETY: the stream is alive, as is its context.
            unsafe { sys::cuStreamQuery(*raw) == CUresult::CUDA_SUCCESS }
        })
    }

    /// Puts a word of work of each kind on every stream, so that the driver sets up now what it
    /// sets up at first use. `device` and `host` are a word each; the context is current. The ends
    /// of that work.
    pub(crate) fn warm(
        &self,
        events: &Arc<EventPool>,
        device: u64,
        host: Pinned,
    ) -> Result<Vec<Arc<PooledEvent>>, Refusal> {
        let mut ends = Vec::new();
        for (stream, end) in self.idle().iter_mut() {
            let RawStream(raw) = *stream;
            // SAFETY: both words live until the caller has seen the ends.
            unsafe {
                check("cuMemsetD32Async", sys::cuMemsetD32Async(device, 0, 1, raw))?;
                check("cuMemcpyDtoHAsync", sys::cuMemcpyDtoHAsync_v2(host.0, device, 4, raw))?;
                check("cuMemcpyHtoDAsync", sys::cuMemcpyHtoDAsync_v2(device, host.0, 4, raw))?;
            }
            let ran = events.record(raw)?;
            *end = Some(Arc::clone(&ran));
            ends.push(ran);
        }
        Ok(ends)
    }

    /// A stream with nothing to do; the context is current.
    pub(crate) fn take(&self) -> Result<RawStream, Refusal> {
        let mut idle = self.idle();
        for at in 0..idle.len() {
            let (_, end) = &idle[at];
            let free = end.as_ref().map_or(Ok(true), |end| end.is_complete())?;
            if free {
                return Ok(idle.remove(at).0);
            }
        }
        drop(idle);
        self.make()
    }

    /// Ends of the work of destroyed streams.
    pub(crate) fn ends(&self) -> Vec<Arc<PooledEvent>> {
        self.idle().iter().filter_map(|(_, end)| end.clone()).collect()
    }

    pub(crate) fn give_back(&self, stream: RawStream, end: Option<Arc<PooledEvent>>) {
        self.idle().push((stream, end));
    }
}

/// What a stream is now.
pub(crate) struct StreamState {
    /// None when it has been destroyed.
    raw: Option<RawStream>,
    /// Why it has failed.
    pub(crate) poison: Option<Error>,
    /// The last hold that it waits for; see [`crate::faults`].
    pub(crate) gate: u32,
}

/// A stream with what uses of memory need to know of it, also after its end.
pub(crate) struct StreamSlot {
    stream: Stream,
    state: Mutex<StreamState>,
    /// Behind all its work, once it has been destroyed.
    end: OnceLock<Arc<PooledEvent>>,
}

impl StreamSlot {
    pub(crate) fn new(stream: Stream, raw: RawStream) -> Arc<Self> {
        Arc::new(Self {
            stream,
            state: Mutex::new(StreamState { raw: Some(raw), poison: None, gate: 0 }),
            end: OnceLock::new(),
        })
    }

    /// The stream's handle.
    pub(crate) const fn stream(&self) -> Stream {
        self.stream
    }

    /// The stream for one call alone.
    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event behind all that it was given so far; the context is current. None if there is
    /// nothing to wait for, or the device is lost.
    pub(crate) fn fence(&self, gpu: &Gpu) -> Option<Arc<PooledEvent>> {
        let state = self.lock();
        match state.raw {
            Some(RawStream(raw)) => gpu.record(raw).ok(),
            None => self.end.get().map(Arc::clone),
        }
    }

    /// Ends it: its work still runs. The context is current.
    pub(crate) fn destroy(&self, gpu: &Gpu) -> Result<()> {
        let mut state = self.lock();
        let Some(raw) = state.raw else { return Ok(()) };
        let end = gpu.record(raw.0)?;
        state.raw = None;
        // It is set once, for there is no raw stream the second time.
        let _ = self.end.set(Arc::clone(&end));
        gpu.streams.give_back(raw, Some(end));
        Ok(())
    }

    /// Whether it has been destroyed and its work has run; the context is current.
    pub(crate) fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| end.is_complete() == Ok(true))
    }
}

impl StreamState {
    /// The driver's stream.
    ///
    /// # Errors
    /// `InvalidArgument` if it has been destroyed.
    pub(crate) fn raw(&self) -> Result<CUstream> {
        self.raw
            .map(|RawStream(raw)| raw)
            .ok_or_else(|| Error::invalid("the stream was destroyed at this moment"))
    }
}
