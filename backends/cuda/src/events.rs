//! Events, used again and again: making one may take the driver's time or memory.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUevent, CUevent_flags_enum, CUresult, CUstream};

use crate::driver::{Refusal, check};

/// Events made when a device is opened.
const FIRST_EVENTS: usize = 256;

/// Events without a use. They belong to a context and die with it.
#[derive(Default)]
pub(crate) struct EventPool {
    idle: Mutex<Vec<Idle>>,
}

struct Idle(CUevent);

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Idle {}

impl EventPool {
    /// A pool with some events; the context is current.
    pub(crate) fn new() -> Result<Arc<Self>, Refusal> {
        let pool = Self::default();
        for _ in 0..FIRST_EVENTS {
            let event = Self::make()?;
            pool.idle().push(Idle(event));
        }
        Ok(Arc::new(pool))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make() -> Result<CUevent, Refusal> {
        let mut event: CUevent = std::ptr::null_mut();
        let flags = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes one handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
        Ok(event)
    }

    /// An event behind what `stream` was given so far; the context is current.
    pub(crate) fn record(self: &Arc<Self>, stream: CUstream) -> Result<Arc<PooledEvent>, Refusal> {
        let idle = self.idle().pop();
        let raw = idle.map_or_else(Self::make, |Idle(raw)| Ok(raw))?;
        let event = PooledEvent { raw, pool: Arc::clone(self) };
        // SAFETY: both are alive and of the current context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(raw, stream) })?;
        Ok(Arc::new(event))
    }
}

/// A recorded event. The last to let go of it gives it back.
pub(crate) struct PooledEvent {
    raw: CUevent,
    pool: Arc<EventPool>,
}

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for PooledEvent {}
// SAFETY: as above, and the driver locks within its calls.
unsafe impl Sync for PooledEvent {}

impl PooledEvent {
    /// Whether what was before it has run; the context is current.
    pub(crate) fn is_complete(&self) -> Result<bool, Refusal> {
        // SAFETY: the event is alive, for those who ask hold its context.
        match unsafe { sys::cuEventQuery(self.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Makes later work of `stream` run after it; the context is current.
    pub(crate) fn before(&self, stream: CUstream) -> Result<(), Refusal> {
        // SAFETY: both are alive and of the current context. The event as it is now counts, also
        // if it is recorded again.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, self.raw, 0) })
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        self.pool.idle().push(Idle(self.raw));
    }
}
