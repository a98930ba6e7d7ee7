//! Times of kernels on the device, for those who tune them.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUevent, CUevent_flags_enum, CUresult, CUstream};

use crate::driver::{Refusal, check};

/// Timings that wait to be read before some are read.
const MAX_PENDING: usize = 512;

struct Pending {
    name: &'static str,
    start: CUevent,
    end: CUevent,
}

// SAFETY: event handles may be used from any thread.
unsafe impl Send for Pending {}

#[derive(Default)]
struct State {
    pending: Vec<Pending>,
    idle: Vec<Pending>,
    /// Launches and milliseconds by name.
    totals: HashMap<&'static str, (u64, f64)>,
}

/// Times each launch between two events of its stream. Events die with their context.
#[derive(Default)]
pub(crate) struct Profile {
    state: Mutex<State>,
}

fn event() -> Result<CUevent, Refusal> {
    let mut event: CUevent = std::ptr::null_mut();
    let flags = CUevent_flags_enum::CU_EVENT_DEFAULT as u32;
    // SAFETY: writes one handle.
    check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
    Ok(event)
}

impl State {
    fn pair(&mut self, name: &'static str) -> Result<Pending, Refusal> {
        if self.pending.len() >= MAX_PENDING {
            self.collect();
        }
        match self.idle.pop() {
            Some(pair) => Ok(Pending { name, ..pair }),
            None => Ok(Pending { name, start: event()?, end: event()? }),
        }
    }

    /// Reads what has run.
    fn collect(&mut self) {
        let mut at = 0;
        while at < self.pending.len() {
            let Pending { name, start, end } = self.pending[at];
            let mut milliseconds = 0f32;
            // SAFETY: writes one number; both events were recorded.
            let code = unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start, end) };
            if code == CUresult::CUDA_ERROR_NOT_READY {
                at += 1;
                continue;
            }
            if code == CUresult::CUDA_SUCCESS {
                let total = self.totals.entry(name).or_default();
                total.0 += 1;
                total.1 += f64::from(milliseconds);
            }
            let read = self.pending.swap_remove(at);
            self.idle.push(read);
        }
    }
}

impl Profile {
    /// Makes a call that puts work on `stream` between two events; the context is current.
    pub(crate) fn time(
        &self,
        name: &'static str,
        stream: CUstream,
        call: impl FnOnce() -> CUresult,
    ) -> CUresult {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(pair) = state.pair(name) else { return call() };
        // SAFETY: the event and the stream are alive and of the current context.
        unsafe { sys::cuEventRecord(pair.start, stream) };
        let code = call();
        // SAFETY: as above.
        unsafe { sys::cuEventRecord(pair.end, stream) };
        state.pending.push(pair);
        code
    }

    /// Prints the totals to the log, the longest first; the context is current.
    pub(crate) fn report(&self, device: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.collect();
        let mut totals: Vec<_> = state.totals.iter().collect();
        totals.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        for (name, (launches, milliseconds)) in totals {
            let each = milliseconds / *launches as f64;
            tracing::info!(
                device,
                "{name}: {milliseconds:.3} ms in {launches} launches, {each:.4} ms each"
            );
        }
    }
}
