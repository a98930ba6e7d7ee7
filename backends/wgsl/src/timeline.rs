//! What has been recorded, submitted and completed: the one order that all streams of a device
//! share. Every recorded part gets the next ticket; the queue runs parts in order of tickets.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::{Error, Result};

use crate::params::Params;
use crate::profile::PartProfile;

/// Submissions that the driver holds at once.
pub(crate) const MAX_IN_FLIGHT: usize = 3;
/// Dispatches of one submission, so that none runs into a watchdog.
pub(crate) const MAX_DISPATCHES: u32 = 64;

/// Commands, ready to be submitted.
pub(crate) struct Part {
    pub(crate) commands: wgpu::CommandBuffer,
    pub(crate) params: Option<Params>,
    pub(crate) dispatches: u32,
    pub(crate) profile: Option<PartProfile>,
}

#[derive(Default)]
struct State {
    recorded: VecDeque<Part>,
    recorded_dispatches: u32,
    /// The last ticket given out.
    last: u64,
    /// The last ticket that somebody waits for.
    wanted: u64,
    taken: u64,
    completed: u64,
    lost: Option<String>,
    stopping: bool,
    held: bool,
}

/// What the worker does next.
pub(crate) enum Next {
    /// Submits these; the ticket of the last one.
    Submit(Vec<Part>, u64),
    /// Drops these, for the device is lost.
    Discard(VecDeque<Part>),
    /// Waits on the device.
    Poll,
    /// Ends.
    Stop,
}

/// The order of a device's work.
#[derive(Default)]
pub(crate) struct Timeline {
    state: Mutex<State>,
    changed: Condvar,
}

impl Timeline {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends parts; the ticket of the last.
    pub(crate) fn push(&self, parts: impl IntoIterator<Item = Part>) -> u64 {
        let mut state = self.state();
        for part in parts {
            state.last += 1;
            state.recorded_dispatches += part.dispatches.max(1);
            state.recorded.push_back(part);
        }
        self.changed.notify_all();
        state.last
    }

    /// Asks that everything up to `ticket` be submitted soon.
    pub(crate) fn flush(&self, ticket: u64) {
        let mut state = self.state();
        state.wanted = state.wanted.max(ticket);
        self.changed.notify_all();
    }

    /// Fails if the device is lost.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.state().lost.as_ref().map_or(Ok(()), |reason| Err(lost(reason)))
    }

    /// Fails if the device has been let go of: nothing pushed now would be submitted.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.state().stopping { Err(lost("it has been closed")) } else { Ok(()) }
    }

    /// Whether everything up to `ticket` has run.
    pub(crate) fn is_complete(&self, ticket: u64) -> Result<bool> {
        let state = self.state();
        match &state.lost {
            Some(reason) => Err(lost(reason)),
            None => Ok(state.completed >= ticket),
        }
    }

    /// Waits until everything up to `ticket` has run.
    pub(crate) fn wait(&self, ticket: u64, what: &str, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        let mut state = self.state();
        state.wanted = state.wanted.max(ticket);
        self.changed.notify_all();
        loop {
            if let Some(reason) = &state.lost {
                return Err(lost(reason));
            }
            if state.completed >= ticket {
                return Ok(());
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(timed_out(what, timeout));
            }
            let slice = left.min(Duration::from_secs(60));
            state =
                self.changed.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until everything recorded so far has run.
    pub(crate) fn wait_for_all(&self, timeout: Duration) -> Result<()> {
        let last = self.state().last;
        self.wait(last, "everything enqueued", timeout)
    }

    /// Declares the device lost; the first reason stays. Takes no lock but its own, for it is
    /// called from within wgpu.
    pub(crate) fn lose(&self, reason: &str) {
        let mut state = self.state();
        if state.lost.is_none() {
            tracing::warn!(reason, "device lost");
            state.lost = Some(reason.to_owned());
        }
        self.changed.notify_all();
    }

    /// Makes the worker end once all is done.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        (state.stopping, state.held) = (true, false);
        self.changed.notify_all();
    }

    /// Whether submissions are held back.
    pub(crate) fn hold(&self, held: bool) {
        self.state().held = held;
        self.changed.notify_all();
    }

    /// For the worker, which has `in_flight` submissions on the device: what to do now.
    pub(crate) fn next(&self, in_flight: usize) -> Next {
        let mut state = self.state();
        loop {
            if state.lost.is_some() {
                if !state.recorded.is_empty() {
                    return Next::Discard(std::mem::take(&mut state.recorded));
                }
                if state.stopping {
                    return Next::Stop;
                }
            } else {
                // With the device busy, small pieces are gathered until somebody waits for them.
                let ready = in_flight == 0
                    || state.taken < state.wanted
                    || state.recorded_dispatches >= MAX_DISPATCHES
                    || state.stopping;
                let room = in_flight < MAX_IN_FLIGHT && !state.held;
                if ready && room && !state.recorded.is_empty() {
                    return state.take();
                }
                if in_flight > 0 {
                    return Next::Poll;
                }
                if state.stopping {
                    return Next::Stop;
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that everything up to `ticket` has run.
    pub(crate) fn complete(&self, ticket: u64) {
        self.state().completed = ticket;
        self.changed.notify_all();
    }
}

impl State {
    /// Parts for one submission.
    fn take(&mut self) -> Next {
        let mut parts = Vec::new();
        let mut dispatches = 0;
        let mut params = HashSet::new();
        while let Some(part) = self.recorded.front() {
            let more = part.dispatches.max(1);
            // All parameters are written before the first command of a submission.
            let taken = part.params.as_ref().is_some_and(|own| !params.insert(own.at));
            if !parts.is_empty() && (taken || dispatches + more > MAX_DISPATCHES) {
                break;
            }
            dispatches += more;
            parts.extend(self.recorded.pop_front());
        }
        self.recorded_dispatches = self.recorded_dispatches.saturating_sub(dispatches);
        self.taken += parts.len() as u64;
        Next::Submit(parts, self.taken)
    }
}

fn lost(reason: &str) -> Error {
    Error::DeviceLost { reason: reason.to_owned() }
}

/// A wait for `what` that ended early.
pub(crate) fn timed_out(what: &str, timeout: Duration) -> Error {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    Error::Timeout { what: what.to_owned(), timeout_ms }
}
