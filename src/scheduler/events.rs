//! What can be seen of the scheduler from outside: typed events with times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::admission::{Shortage, Ticket};
use super::core::Order;

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedEvent {
    /// Since the prover was made.
    pub at: Duration,
    /// The device's name, where one is concerned.
    pub device: Option<String>,
    /// The number of the thread that carries the partition, from 0.
    pub worker: usize,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen. Names of stages are those of the prover; sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A step in a partition's life.
    Partition(Ticket, Life),
    /// `mem` was held, from this time on until now.
    MemHeld {
        /// When it was taken.
        since: Duration,
    },
    /// Device memory that partitions hold changed to this.
    MemoryHeld {
        /// In all memories of the device.
        size_bytes: u64,
    },
}

/// The steps of a partition's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It is in the queue.
    Queued,
    /// A worker took it.
    Started,
    /// Work on the CPU starts: `synthesis`, `check`.
    HostStarted(&'static str),
    /// It ended.
    HostEnded(&'static str),
    /// The device has it in its order.
    Admitted,
    /// How it will be proved.
    Planned {
        /// Queries whose bases come chunk by chunk, for they do not stay on the device.
        streamed: Vec<&'static str>,
    },
    /// All of the prestage's buffers have a place.
    PrestageReady,
    /// Some have.
    PrestagePartial(Shortage),
    /// None has; staging follows under `compute`.
    PrestageDeferred(Shortage),
    /// `compute` is its own.
    ComputeStarted,
    /// `compute` was handed back.
    ComputeEnded,
    /// A stage starts.
    StageStarted(&'static str),
    /// Its work on the device is complete.
    StageEnded(&'static str),
    /// Memory went back.
    Freed {
        /// How much, rounding included.
        size_bytes: u64,
    },
    /// An attempt failed and another follows.
    Retried {
        /// Why.
        reason: String,
    },
    /// It ended with a proof.
    Done,
    /// It brought a key to the device, and ended.
    Loaded,
    /// It ended with an error.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was stopped.
    Cancelled,
}

impl Life {
    /// Whether nothing follows.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Done | Self::Loaded | Self::Failed { .. } | Self::Cancelled)
    }
}

/// Takes events as they happen, from any thread. Never called under `mem`, but perhaps while the
/// partition computes: a slow sink holds it up. Must not add sinks itself.
pub trait EventSink: Send + Sync {
    /// Takes one.
    fn take(&self, event: &TimedEvent);
}

/// Keeps all events in memory.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Mutex<Vec<TimedEvent>>,
}

impl Recorder {
    /// What was recorded so far, in order of arrival.
    pub fn events(&self) -> Vec<TimedEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for Recorder {
    fn take(&self, event: &TimedEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

/// Counts of what happened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Partitions queued.
    pub queued: AtomicU64,
    /// Partitions that ended with a proof.
    pub done: AtomicU64,
    /// Partitions that ended with an error.
    pub failed: AtomicU64,
    /// Partitions that were stopped.
    pub cancelled: AtomicU64,
    /// Attempts that another followed.
    pub retried: AtomicU64,
    /// Prestages that found less room than they asked for.
    pub short_prestages: AtomicU64,
}

impl EventSink for Counters {
    fn take(&self, event: &TimedEvent) {
        let EventKind::Partition(_, life) = &event.kind else { return };
        let counter = match life {
            Life::Queued => &self.queued,
            Life::Done => &self.done,
            Life::Failed { .. } => &self.failed,
            Life::Cancelled => &self.cancelled,
            Life::Retried { .. } => &self.retried,
            Life::PrestagePartial(_) | Life::PrestageDeferred(_) => &self.short_prestages,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes events as log lines.
#[derive(Debug, Default)]
pub struct Log;

impl EventSink for Log {
    fn take(&self, event: &TimedEvent) {
        let EventKind::Partition(ticket, life) = &event.kind else { return };
        let (device, worker) = (event.device.as_deref().unwrap_or("-"), event.worker);
        let partition = Order::from(*ticket);
        match life {
            Life::PrestagePartial(short) | Life::PrestageDeferred(short) => {
                let mib = |bytes: u64| bytes >> 20;
                tracing::info!(
                    %partition, device, worker,
                    free_mib = mib(short.free_bytes),
                    usable_mib = mib(short.usable_bytes),
                    needed_mib = mib(short.needed_bytes),
                    "prestage found less room than it needs"
                );
            }
            Life::Retried { reason } => {
                tracing::warn!(%partition, device, worker, reason, "retried")
            }
            Life::Failed { reason } => tracing::warn!(%partition, device, worker, reason, "failed"),
            life => tracing::debug!(%partition, device, worker, ?life, "scheduler"),
        }
    }
}
