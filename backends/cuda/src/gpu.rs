//! An open card with all that belongs to it.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult, CUstream};
use twinlock_api::{DeviceInfo, Error, Result};

use crate::card::Card;
use crate::context::{Context, Current};
use crate::driver::{Meaning, Refusal};
use crate::events::{EventPool, PooledEvent};
use crate::faults::Faults;
use crate::memory::{Allocation, Memory, out_of_memory};
use crate::modules::Modules;
use crate::profile::Profile;
use crate::streams::StreamPool;
use crate::tables::TablePlaces;

/// How long a wait asks again at once; kernels of small operations end within.
const BUSY: Duration = Duration::from_micros(500);
/// The longest pause between two looks at an event.
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// The constant tables.
pub(crate) struct Tables {
    pub(crate) address: u64,
    pub(crate) places: TablePlaces,
    pub(crate) allocation: Option<Allocation>,
}

/// Shared by the device, its staging buffers and its events.
pub(crate) struct Gpu {
    pub(crate) info: DeviceInfo,
    pub(crate) card: Card,
    pub(crate) plain_allocations: bool,
    pub(crate) modules: Modules,
    pub(crate) tables: Tables,
    pub(crate) memory: Memory,
    pub(crate) streams: StreamPool,
    pub(crate) events: Arc<EventPool>,
    /// Where kernels are timed.
    pub(crate) profile: Option<Profile>,
    pub(crate) faults: Arc<Faults>,
    /// Why every call fails.
    pub(crate) lost: OnceLock<String>,
    /// None once it has been destroyed.
    pub(crate) context: Option<Context>,
}

impl Gpu {
    /// Fails if the device is lost.
    pub(crate) fn check_alive(&self) -> Result<()> {
        match self.lost.get() {
            Some(reason) => Err(Error::DeviceLost { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Declares the device lost; the first reason stays.
    pub(crate) fn lose(&self, reason: String) -> Error {
        let reason = self.lost.get_or_init(|| {
            tracing::warn!(device = self.info.name, reason, "device lost");
            reason
        });
        Error::DeviceLost { reason: reason.clone() }
    }

    /// Makes the context current for a call.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub(crate) fn enter(&self) -> Result<Current<'_>> {
        self.check_alive()?;
        match &self.context {
            Some(context) => context.enter().map_err(|refusal| self.lose(refusal.to_string())),
            None => Err(self.lose("its context is destroyed".to_owned())),
        }
    }

    /// What a refusal means for the caller of `name`, a kernel or a call.
    pub(crate) fn failed(&self, name: &'static str, refusal: Refusal) -> Error {
        match refusal.meaning() {
            Meaning::OutOfMemory => no_room(name, refusal, free_bytes()),
            Meaning::Refused => Error::KernelFailed { name, reason: refusal.to_string() },
            Meaning::Lost => self.lose(refusal.to_string()),
        }
    }

    /// An event behind what `stream` was given so far; the context is current. A stream that
    /// cannot be marked is as good as lost.
    pub(crate) fn record(&self, stream: CUstream) -> Result<Arc<PooledEvent>> {
        self.check_alive()?;
        self.events.record(stream).map_err(|refusal| self.lose(refusal.to_string()))
    }

    /// Whether an event is complete.
    pub(crate) fn is_complete(&self, event: &PooledEvent) -> Result<bool> {
        let _current = self.enter()?;
        event.is_complete().map_err(|refusal| self.lose(refusal.to_string()))
    }

    /// Waits for an event, at most until `timeout` after `start`.
    pub(crate) fn wait(
        &self,
        event: &PooledEvent,
        what: &str,
        start: Instant,
        timeout: Duration,
    ) -> Result<()> {
        let began = Instant::now();
        while !self.is_complete(event)? {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(timed_out(what, timeout));
            }
            let waited = began.elapsed();
            if waited < BUSY {
                std::thread::yield_now();
            } else {
                // A long wait need not be exact.
                std::thread::sleep((waited / 64).min(LONGEST_PAUSE).min(left));
            }
        }
        Ok(())
    }

    /// Makes a call that puts work on a stream, timing that work where kernels are timed.
    pub(crate) fn timed(
        &self,
        name: &'static str,
        stream: CUstream,
        call: impl FnOnce() -> CUresult,
    ) -> CUresult {
        match &self.profile {
            None => call(),
            Some(profile) => profile.time(name, stream, call),
        }
    }

    /// Releases memory that no work uses any more; what could not be.
    fn release(&self, allocations: Vec<Allocation>) -> Vec<Allocation> {
        let Some(context) = &self.context else { return allocations };
        let Ok(_current) = context.enter() else { return allocations };
        allocations.into_iter().filter(|allocation| allocation.release().is_err()).collect()
    }

    /// Gives all device memory but the tables back, when all work has run.
    pub(crate) fn release_regions(&self) {
        if let Ok(_current) = self.enter() {
            self.memory.sweep(self);
        }
        let left = self.release(self.memory.take_all());
        if !left.is_empty() {
            tracing::warn!(device = self.info.name, pieces = left.len(), "memory not given back");
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let mut left = self.memory.take_all();
        left.extend(self.tables.allocation.take());
        if self.lost.get().is_none() {
            left = self.release(left);
        }
        // Ends what may still run. Mapped memory is the process's, not the context's.
        drop(self.context.take());
        if !left.is_empty() {
            // A dead context refuses everything; a fresh one of the same card does not.
            self.context = Context::new(self.card.ordinal).ok();
            left = self.release(left);
            if !left.is_empty() {
                let pieces = left.len();
                tracing::warn!(device = self.info.name, pieces, "memory was not given back");
            }
        }
    }
}

/// What the driver reports as free of the current context's device, where it can.
fn free_bytes() -> Option<u64> {
    let (mut free, mut total) = (0usize, 0usize);
    // SAFETY: writes two numbers.
    let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    (code == CUresult::CUDA_SUCCESS).then_some(free as u64)
}

/// The driver has no room for what it needs itself to run `name`.
fn no_room(name: &str, refusal: Refusal, free_bytes: Option<u64>) -> Error {
    out_of_memory(&format!("{} of {name}", refusal.call), 0, free_bytes)
}

/// A wait for `what` that ended early.
pub(crate) fn timed_out(what: &str, timeout: Duration) -> Error {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    Error::Timeout { what: what.to_owned(), timeout_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_without_room_tells_what_is_known() {
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let error = no_room("msm_fold_g1", Refusal { call: "cuLaunchKernel", code }, Some(123));
        let text = error.to_string();
        assert!(text.contains("cuLaunchKernel of msm_fold_g1"), "{text}");
        assert!(text.contains("123 are free") && !text.contains("0 bytes"), "{text}");
    }
}
