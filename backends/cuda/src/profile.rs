//! Times of kernels on the device, for those who tune them.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUevent, CUevent_flags_enum, CUresult, CUstream};
use twinlock_api::KernelTime;
use twinlock_api::kernel_time::KernelSpans;

use crate::driver::{Refusal, check};

/// Timings that wait to be read before some are read.
const MAX_PENDING: usize = 512;
/// How long an event on a stream without work may take.
const EVENT_WAIT: Duration = Duration::from_secs(1);

/// Copies between host and device: the multiprocessors have no part in them.
const TRANSFERS: [&str; 2] = ["upload", "download"];

struct Pending {
    name: &'static str,
    start: CUevent,
    end: CUevent,
}

// SAFETY: event handles may be used from any thread.
unsafe impl Send for Pending {}

struct State {
    /// Came before all that is pending, and what times count from.
    origin: Origin,
    pending: Vec<Pending>,
    idle: Vec<Pending>,
    /// Launches and milliseconds by name.
    totals: HashMap<&'static str, (u64, f64)>,
    spans: KernelSpans,
}

struct Origin(CUevent);

// SAFETY: as of `Pending`.
unsafe impl Send for Origin {}

impl Origin {
    /// Marks now; the context is current.
    fn mark(&self) -> Result<(), Refusal> {
        // SAFETY: the event is alive. Streams here do not wait for the default stream, nor it for
        // them, and nothing runs on it.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.0, std::ptr::null_mut()) })?;
        let start = Instant::now();
        loop {
            // SAFETY: the event is alive.
            let code = unsafe { sys::cuEventQuery(self.0) };
            if code != CUresult::CUDA_ERROR_NOT_READY || start.elapsed() > EVENT_WAIT {
                return check("cuEventQuery", code);
            }
            std::thread::yield_now();
        }
    }
}

/// Milliseconds from one event to another, once both have come.
fn elapsed(start: CUevent, end: CUevent) -> Result<f64, CUresult> {
    let mut milliseconds = 0f32;
    // SAFETY: writes one number; both events were recorded.
    match unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start, end) } {
        CUresult::CUDA_SUCCESS => Ok(f64::from(milliseconds)),
        code => Err(code),
    }
}

/// From and until when a kernel ran, in nanoseconds.
fn span_ns(before_ms: f64, took_ms: f64) -> (u64, u64) {
    let start = before_ms.max(0.0) * 1e6;
    (start as u64, (start + took_ms.max(0.0) * 1e6) as u64)
}

/// Times each launch between two events of its stream. Events die with their context.
///
/// A launch that its stream is ready for counts from then on, so that where the device idles some
/// microseconds of launching count as the kernel's. The distance to the origin comes as an `f32` in
/// milliseconds: within a minute it is exact to 4 microseconds, how long a kernel took always to
/// half of one.
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
            match elapsed(start, end) {
                Err(CUresult::CUDA_ERROR_NOT_READY) => {
                    at += 1;
                    continue;
                }
                Err(_) => self.spans.spoil(),
                Ok(took_ms) => {
                    let total = self.totals.entry(name).or_default();
                    total.0 += 1;
                    total.1 += took_ms;
                    if !TRANSFERS.contains(&name) {
                        match elapsed(self.origin.0, start) {
                            Ok(before_ms) => {
                                let (start_ns, end_ns) = span_ns(before_ms, took_ms);
                                self.spans.add(start_ns, end_ns);
                            }
                            Err(_) => self.spans.spoil(),
                        }
                    }
                }
            }
            let read = self.pending.swap_remove(at);
            self.idle.push(read);
        }
    }
}

impl Profile {
    /// A profile that begins now; the context is current.
    pub(crate) fn new() -> Result<Self, Refusal> {
        let origin = Origin(event()?);
        origin.mark()?;
        Ok(Self {
            state: Mutex::new(State {
                origin,
                pending: Vec::new(),
                idle: Vec::new(),
                totals: HashMap::new(),
                spans: KernelSpans::default(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call that puts work on `stream` between two events; the context is current.
    pub(crate) fn time(
        &self,
        name: &'static str,
        stream: CUstream,
        call: impl FnOnce() -> CUresult,
    ) -> CUresult {
        let mut state = self.state();
        let Ok(pair) = state.pair(name) else {
            state.spans.spoil();
            return call();
        };
        // SAFETY: the event and the stream are alive and of the current context.
        let started = unsafe { sys::cuEventRecord(pair.start, stream) };
        let code = call();
        // SAFETY: as above.
        let ended = unsafe { sys::cuEventRecord(pair.end, stream) };
        if started == CUresult::CUDA_SUCCESS && ended == CUresult::CUDA_SUCCESS {
            state.pending.push(pair);
        } else {
            // What the events hold is of an earlier launch.
            state.idle.push(pair);
            state.spans.spoil();
        }
        code
    }

    /// What ran since the last call; the context is current.
    pub(crate) fn kernel_time(&self) -> Option<KernelTime> {
        let mut state = self.state();
        state.collect();
        let time = state.spans.take();
        // Times stay exact if they count from a moment that is near.
        if state.pending.is_empty() && state.origin.mark().is_err() {
            state.spans.spoil();
        }
        time
    }

    /// Prints the totals to the log, the longest first; the context is current.
    pub(crate) fn report(&self, device: &str) {
        let mut state = self.state();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_nanoseconds() {
        assert_eq!(span_ns(0.5, 0.25), (500_000, 750_000));
        assert_eq!(span_ns(0.0, 0.0), (0, 0));
        // Nothing is before the origin.
        assert_eq!(span_ns(-0.001, 0.002), (0, 2_000));
        let mut spans = KernelSpans::default();
        for (before_ms, took_ms) in [(1.0, 2.0), (2.0, 2.0), (5.0, 1.0)] {
            let (start_ns, end_ns) = span_ns(before_ms, took_ms);
            spans.add(start_ns, end_ns);
        }
        let time = spans.take().unwrap();
        assert_eq!((time.span, time.busy), (Duration::from_millis(5), Duration::from_millis(4)));
    }
}
