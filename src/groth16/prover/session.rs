//! Many partitions at once: threads that carry them, and handles to wait for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use blstrs::Scalar;
use twinlock_api::Error as DeviceError;

use super::assemble::Blinding;
use super::attempt::{Item, Supply, carry};
use super::{Proved, Prover, ProvingKey};
use crate::groth16::assignment::Assignment;
use crate::scheduler::admission::Ticket;
use crate::scheduler::core::{End, Fault, Order};
use crate::scheduler::locks::LockToken;
use crate::{Error, Result};

/// One circuit to prove.
pub struct PartitionInput<'e> {
    supply: Supply<'e>,
    blinding: Blinding,
    host_bytes: u64,
}

impl<'e> PartitionInput<'e> {
    /// An assignment that is there already.
    pub fn ready(assignment: &'e Assignment, r: Scalar, s: Scalar) -> Self {
        Self { supply: Supply::Ready(assignment), blinding: Blinding { r, s }, host_bytes: 0 }
    }

    /// An assignment that a worker makes when its turn has come, of about `host_bytes` bytes. A
    /// partition that is tried again is synthesised again and has to come out the same.
    pub fn synthesized(
        synthesis: impl Fn() -> Result<Assignment> + Send + Sync + 'e,
        host_bytes: u64,
        r: Scalar,
        s: Scalar,
    ) -> Self {
        let supply = Supply::Synthesis(Box::new(synthesis));
        Self { supply, blinding: Blinding { r, s }, host_bytes }
    }
}

impl fmt::Debug for PartitionInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionInput")
            .field("host_bytes", &self.host_bytes)
            .finish_non_exhaustive()
    }
}

/// Partitions of one key, ordered by priority, then age, then their place in the list.
#[derive(Debug)]
pub struct Job<'e> {
    /// The key of all.
    pub key: &'e ProvingKey<'e>,
    /// The higher, the sooner.
    pub priority: u8,
    /// 2^24 at most.
    pub partitions: Vec<PartitionInput<'e>>,
}

/// A prover with its threads at work; see [`Prover::serve`].
pub struct Session<'e> {
    prover: &'e Prover,
    id: u64,
    items: Mutex<BTreeMap<Ticket, Arc<Item<'e>>>>,
    closed: AtomicBool,
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl<'e> Session<'e> {
    pub(super) fn new(prover: &'e Prover) -> Self {
        Self {
            prover,
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            items: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Queues a job's partitions.
    ///
    /// # Errors
    /// `Limit` for more partitions than can be numbered.
    pub fn submit(&self, job: Job<'e>) -> Result<JobHandle<'_, 'e>> {
        const LIMIT: u64 = 1 << 24;
        let count = job.partitions.len() as u64;
        if count > LIMIT {
            return Err(Error::Limit {
                what: "partitions of a job".into(),
                value: count,
                limit: LIMIT,
            });
        }
        let number = self.prover.jobs.fetch_add(1, Ordering::Relaxed);
        let mut token = LockToken::for_this_thread();
        let mut parts = Vec::new();
        for (index, input) in (0..).zip(job.partitions) {
            let ticket = Order { priority: job.priority, job: number, index }.ticket();
            let item = Arc::new(Item::new(job.key, input.supply, input.blinding));
            let items = || self.items.lock().unwrap_or_else(PoisonError::into_inner);
            items().insert(ticket, item.clone());
            self.prover.runtime.submit(self.id, ticket, input.host_bytes, &mut token);
            parts.push((ticket, item));
        }
        Ok(JobHandle { session: self, parts })
    }

    /// Carries partitions until the session is closed and none is left.
    pub(super) fn work(&self, worker: usize) {
        let mut token = LockToken::for_this_thread();
        let closed = || self.closed.load(Ordering::Acquire);
        while let Some(seat) = self.prover.runtime.claim(self.id, worker, closed, &mut token) {
            let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
            let item = items.get(&seat.ticket()).cloned();
            drop(items);
            if let Some(item) = item {
                carry(self.prover, &seat, &item, &mut token);
            }
        }
    }

    /// Lets the workers go once nothing is left.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.prover.runtime.nudge();
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.prover.runtime.forget(self.id, &mut LockToken::for_this_thread());
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Closes a session even when its user panics.
pub(super) struct CloseAtEnd<'s, 'e>(pub &'s Session<'e>);

impl Drop for CloseAtEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A job in the queue or at work.
pub struct JobHandle<'s, 'e> {
    session: &'s Session<'e>,
    parts: Vec<(Ticket, Arc<Item<'e>>)>,
}

impl fmt::Debug for JobHandle<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("partitions", &self.parts.len()).finish_non_exhaustive()
    }
}

impl JobHandle<'_, '_> {
    /// Stops what is queued at once and what is at work between two stages.
    pub fn cancel(&self) {
        let mut token = LockToken::for_this_thread();
        for (ticket, _) in &self.parts {
            self.session.prover.runtime.cancel(*ticket, &mut token);
        }
    }

    /// Waits for all partitions; tells of each in order, as they come. Errors of a partition are
    /// those of [`Prover::prove`], and `Cancelled`.
    pub fn outcomes(self) -> impl Iterator<Item = Result<Proved>> {
        let prover = self.session.prover;
        let mut token = LockToken::for_this_thread();
        self.parts.into_iter().map(move |(ticket, item)| {
            let end = prover.runtime.wait_for_end(ticket, &mut token);
            match (end, item.outcome()) {
                (End::Cancelled, _) => Err(Error::Cancelled),
                (_, Some(outcome)) => outcome,
                (End::Failed(Fault::Lost), None) => {
                    let reason = "no device is left to prove on".into();
                    let device = prover.device_names().join(", ");
                    Err(Error::Device { device, source: DeviceError::DeviceLost { reason } })
                }
                (_, None) => Err(Error::InvalidProof { attempts: item.attempts() }),
            }
        })
    }

    /// Waits for all partitions.
    pub fn wait(self) -> Vec<Result<Proved>> {
        self.outcomes().collect()
    }
}
