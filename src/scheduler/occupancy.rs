//! How long partitions held devices, from a run's events. That is the scheduler's view: a partition that
//! computes may have gaps between its kernels, which only the device knows
//! ([`twinlock_api::KernelTime`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::events::{EventKind, EventSink, Life, TimedEvent};
use crate::times::milliseconds;

/// What one device did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Occupancy {
    /// Partitions that computed on it, retries included.
    pub computed: usize,
    /// From when `compute` was first taken to when it was last given back, in milliseconds.
    pub span_ms: f64,
    /// Time within the span in which a partition held `compute`.
    pub compute_held_ms: f64,
    /// Time in which one partition staged while another held `compute`.
    pub overlap_ms: f64,
}

impl Occupancy {
    /// The share of the span in which `compute` was held; 0 where it never was.
    pub fn held_share(&self) -> f64 {
        if self.span_ms > 0.0 { self.compute_held_ms / self.span_ms } else { 0.0 }
    }
}

/// From when to when.
pub(crate) type Span = (Duration, Duration);

/// When partitions staged and computed on one device, by worker.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) compute: Vec<(usize, Span)>,
    pub(crate) staging: Vec<(usize, Span)>,
}

#[derive(Default)]
struct State {
    /// When what is open began, by device, worker, and whether it computes.
    open: BTreeMap<(String, usize, bool), Duration>,
    spans: BTreeMap<String, Spans>,
}

/// Takes events and keeps of each partition when it staged and computed.
#[derive(Default)]
pub struct Observer {
    state: Mutex<State>,
}

/// The stages in which a partition uploads and computes nothing.
const STAGING: [&str; 2] = ["prestage", "residents"];

impl EventSink for Observer {
    fn take(&self, event: &TimedEvent) {
        let (Some(device), EventKind::Partition(_, life)) = (&event.device, &event.kind) else {
            return;
        };
        let (is_compute, starts) = match life {
            Life::ComputeStarted => (true, true),
            Life::ComputeEnded => (true, false),
            Life::StageStarted(stage) if STAGING.contains(stage) => (false, true),
            Life::StageEnded(stage) if STAGING.contains(stage) => (false, false),
            _ => return,
        };
        let key = (device.clone(), event.worker, is_compute);
        // What is in it is whole whatever panics elsewhere.
        let State { open, spans } = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if starts {
            open.insert(key, event.at);
        } else if let Some(start) = open.remove(&key) {
            let of_device = spans.entry(device.clone()).or_default();
            let list = if is_compute { &mut of_device.compute } else { &mut of_device.staging };
            list.push((event.worker, (start, event.at)));
        }
    }
}

impl Observer {
    /// The occupancy of each device that was at work, by name.
    pub fn occupancy(&self) -> BTreeMap<String, Occupancy> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spans.iter().map(|(device, spans)| (device.clone(), spans.occupancy())).collect()
    }

    /// What `device` did.
    #[cfg(feature = "cli")] // For `bench`.
    pub(crate) fn spans_of(self, device: &str) -> Spans {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.spans.into_iter().find(|(name, _)| name == device).unwrap_or_default().1
    }
}

impl Spans {
    fn occupancy(&self) -> Occupancy {
        let first = self.compute.iter().map(|(_, span)| span.0).min().unwrap_or_default();
        let last = self.compute.iter().map(|(_, span)| span.1).max().unwrap_or_default();
        // `compute` has one holder at a time, so its spans do not overlap.
        Occupancy {
            computed: self.compute.len(),
            span_ms: milliseconds(last.saturating_sub(first)),
            compute_held_ms: milliseconds(total(&self.compute)),
            overlap_ms: milliseconds(self.overlap()),
        }
    }

    /// Time in which one worker's partition staged while another's computed.
    pub(crate) fn overlap(&self) -> Duration {
        let mut overlap = Duration::ZERO;
        for (worker, staging) in &self.staging {
            for (_, compute) in self.compute.iter().filter(|(other, _)| other != worker) {
                overlap += staging.1.min(compute.1).saturating_sub(staging.0.max(compute.0));
            }
        }
        overlap
    }
}

/// How long the spans are together.
pub(crate) fn total(spans: &[(usize, Span)]) -> Duration {
    spans.iter().map(|(_, (start, end))| end.saturating_sub(*start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::core::Order;

    fn event(at_ms: u64, worker: usize, life: Life) -> TimedEvent {
        let ticket = Order { priority: 0, job: 0, index: worker as u32 }.ticket();
        TimedEvent {
            at: Duration::from_millis(at_ms),
            device: Some("d".into()),
            worker,
            kind: EventKind::Partition(ticket, life),
        }
    }

    #[test]
    fn staging_counts_beside_anothers_compute_only() {
        let events = [
            event(0, 0, Life::StageStarted("prestage")),
            event(10, 0, Life::StageEnded("prestage")),
            event(10, 0, Life::ComputeStarted),
            event(15, 1, Life::StageStarted("prestage")),
            event(25, 1, Life::StageEnded("prestage")),
            event(30, 0, Life::ComputeEnded),
            event(40, 1, Life::ComputeStarted),
            event(41, 1, Life::StageStarted("quotient")),
            event(60, 1, Life::ComputeEnded),
        ];
        let observer = Observer::default();
        assert!(observer.occupancy().is_empty());
        events.iter().for_each(|event| observer.take(event));
        let found = observer.occupancy()["d"];
        let expected =
            Occupancy { computed: 2, span_ms: 50.0, compute_held_ms: 40.0, overlap_ms: 10.0 };
        assert_eq!(found, expected);
        assert!((found.held_share() - 0.8).abs() < 1e-9);
        assert_eq!(Occupancy::default().held_share(), 0.0);
    }
}
