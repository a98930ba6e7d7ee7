//! Many partitions at once: threads that carry them, and handles to wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellpepper_core::Circuit;
use blstrs::Scalar;
use ff::Field;
use rand::RngCore;

use super::assemble::Blinding;
use super::attempt::{Item, Supply, Task, carry};
use super::{Proved, Prover, ProvingKey};
use crate::groth16::assignment::{Assignment, synthesize};
use crate::scheduler::admission::Ticket;
use crate::scheduler::core::{DeviceId, End, Order};
use crate::scheduler::locks::LockToken;
use crate::scheduler::runtime::{Claim, Halted};
use crate::{Error, Result};

/// One circuit to prove.
pub struct PartitionInput<'e> {
    supply: Supply<'e>,
    blinding: Blinding,
    /// `None` for what the key says.
    host_bytes: Option<u64>,
}

impl<'e> PartitionInput<'e> {
    /// A circuit, synthesised when its turn has come, and blinding factors from `rng`.
    pub fn circuit<C>(circuit: C, mut rng: impl RngCore) -> Self
    where
        C: Circuit<Scalar> + Clone + Send + Sync + 'e,
    {
        let blinding = Blinding { r: Scalar::random(&mut rng), s: Scalar::random(&mut rng) };
        let supply = Supply::Synthesis(Box::new(move || synthesize(circuit.clone())));
        Self { supply, blinding, host_bytes: None }
    }

    /// An assignment that is there already.
    pub fn ready(assignment: &'e Assignment, r: Scalar, s: Scalar) -> Self {
        Self { supply: Supply::Ready(assignment), blinding: Blinding { r, s }, host_bytes: Some(0) }
    }

    /// An assignment that a worker makes when its turn has come, of about `host_bytes` bytes. A
    /// partition that is tried again is synthesised again and has to come out the same. Synthesis
    /// must not wait for proofs of the same prover: it may hold the only worker.
    pub fn synthesized(
        synthesis: impl Fn() -> Result<Assignment> + Send + Sync + 'e,
        host_bytes: u64,
        r: Scalar,
        s: Scalar,
    ) -> Self {
        let supply = Supply::Synthesis(Box::new(synthesis));
        Self { supply, blinding: Blinding { r, s }, host_bytes: Some(host_bytes) }
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
    /// Partitions whose handle was dropped before their end.
    detached: Mutex<Vec<Ticket>>,
    /// Set where a session does the work of another's partition.
    outer: Option<Halted>,
    closed: AtomicBool,
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl<'e> Session<'e> {
    pub(super) fn new(prover: &'e Prover, outer: Option<Halted>) -> Self {
        Self {
            prover,
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            items: Mutex::default(),
            detached: Mutex::default(),
            outer,
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
        let mut parts = VecDeque::new();
        for (index, input) in (0..).zip(job.partitions) {
            let ticket = Order { priority: job.priority, job: number, index }.ticket();
            let PartitionInput { supply, blinding, host_bytes } = input;
            let host_bytes = host_bytes.unwrap_or_else(|| job.key.assignment_bytes());
            let item = Arc::new(Item::new(job.key, Task::Prove { supply, blinding }));
            self.items().insert(ticket, item.clone());
            let (runtime, outer) = (&self.prover.runtime, self.outer.clone());
            runtime.submit(self.id, ticket, host_bytes, outer, &mut token);
            parts.push_back((ticket, item));
        }
        Ok(JobHandle { session: self, parts })
    }

    /// Queues the loading of a key's queries onto each device.
    pub(super) fn submit_loads(&self, key: &'e ProvingKey<'e>) -> JobHandle<'_, 'e> {
        let job = self.prover.jobs.fetch_add(1, Ordering::Relaxed);
        let mut token = LockToken::for_this_thread();
        let devices = (0..self.prover.slots.len()).map(DeviceId);
        let parts = (0..).zip(devices).map(|(index, device)| {
            let ticket = Order { priority: u8::MAX, job, index }.ticket();
            let item = Arc::new(Item::new(key, Task::Load));
            self.items().insert(ticket, item.clone());
            self.prover.runtime.submit_load(self.id, ticket, device, &mut token);
            (ticket, item)
        });
        JobHandle { parts: parts.collect(), session: self }
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<Ticket, Arc<Item<'e>>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries partitions until the session is closed and none is left.
    pub(super) fn work(&self) {
        let worker = self.prover.worker();
        let mut token = LockToken::for_this_thread();
        let closed = || self.closed.load(Ordering::Acquire);
        let runtime = &self.prover.runtime;
        while let Some(claim) = runtime.claim(self.id, worker.number, closed, &mut token) {
            match claim {
                Claim::Carry(seat) => {
                    let Some(item) = self.items().get(&seat.ticket()).cloned() else { continue };
                    let carried = catch_unwind(AssertUnwindSafe(|| {
                        carry(self.prover, &seat, &item, &mut token);
                    }));
                    if carried.is_err() {
                        // Others need this worker.
                        tracing::error!(ticket = %seat.ticket(), "a worker panicked");
                        item.panicked(&seat);
                    }
                    self.forget_detached(&mut token);
                }
                Claim::Reopen(device) => self.prover.reopen(device),
            }
        }
    }

    /// Drops what has ended and nobody waits for.
    fn forget_detached(&self, token: &mut LockToken) {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        detached.retain(|ticket| {
            let known = self.prover.runtime.knows(*ticket, token);
            if !known {
                self.items().remove(ticket);
            }
            known
        });
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

/// A job in the queue or at work. Dropping it cancels what was not waited for.
pub struct JobHandle<'s, 'e> {
    session: &'s Session<'e>,
    parts: VecDeque<(Ticket, Arc<Item<'e>>)>,
}

impl Drop for JobHandle<'_, '_> {
    /// Nobody can ask for the outcomes any more.
    fn drop(&mut self) {
        self.cancel();
        let mut token = LockToken::for_this_thread();
        for (ticket, _) in self.parts.drain(..) {
            let has_ended = self.session.prover.runtime.detach(ticket, &mut token);
            let detached = || self.session.detached.lock().unwrap_or_else(PoisonError::into_inner);
            match has_ended {
                true => drop(self.session.items().remove(&ticket)),
                false => detached().push(ticket),
            }
        }
    }
}

impl fmt::Debug for JobHandle<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("partitions", &self.parts.len()).finish_non_exhaustive()
    }
}

/// Cancels a job from elsewhere while its handle is waited on.
#[derive(Debug, Clone)]
pub struct Canceller<'s> {
    prover: &'s Prover,
    tickets: Arc<[Ticket]>,
}

impl Canceller<'_> {
    /// As [`JobHandle::cancel`]. What has ended stays as it is.
    pub fn cancel(&self) {
        let mut token = LockToken::for_this_thread();
        for ticket in &*self.tickets {
            self.prover.runtime.cancel(*ticket, &mut token);
        }
    }
}

impl<'s> JobHandle<'s, '_> {
    /// Stops what is queued at once and what is at work between two stages, of what was not waited
    /// for.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// What cancels this job while another thread waits for it.
    pub fn canceller(&self) -> Canceller<'s> {
        let tickets = self.parts.iter().map(|(ticket, _)| *ticket).collect();
        Canceller { prover: self.session.prover, tickets }
    }

    /// Waits for the next partition, in the job's order.
    fn next_end(&mut self) -> Option<(End, Option<Result<Proved>>)> {
        let (ticket, item) = self.parts.pop_front()?;
        let mut token = LockToken::for_this_thread();
        let end = self.session.prover.runtime.wait_for_end(ticket, &mut token);
        self.session.items().remove(&ticket);
        Some((end, item.outcome().map(|outcome| outcome.map_err(with_hint))))
    }

    /// Waits for loads. A device that cannot take the key is no error if another can.
    pub(super) fn loaded(mut self) -> Result<()> {
        let (mut is_loaded, mut refused) = (false, None);
        while let Some(end) = self.next_end() {
            let error = match end {
                (End::Finished, _) => {
                    is_loaded = true;
                    continue;
                }
                (_, Some(Err(error))) => error,
                _ => self.session.prover.nobody_left(),
            };
            if !matches!(error, Error::Device { .. }) {
                return Err(error);
            }
            tracing::warn!(%error, "a device does not take the key");
            refused.get_or_insert(error);
        }
        match refused {
            Some(error) if !is_loaded => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for all partitions and tells of each, in the job's order.
    pub fn wait(self) -> Vec<Result<Proved>> {
        self.collect()
    }
}

/// Each partition's outcome in the job's order, waited for. Errors are those of [`Prover::prove`],
/// and `Cancelled`.
impl Iterator for JobHandle<'_, '_> {
    type Item = Result<Proved>;

    fn next(&mut self) -> Option<Result<Proved>> {
        Some(match self.next_end()? {
            (End::Cancelled, _) => Err(Error::Cancelled),
            (_, Some(outcome)) => outcome,
            (_, None) => Err(self.session.prover.nobody_left()),
        })
    }
}

/// What to look at when proofs were wrong on every device.
fn with_hint(error: Error) -> Error {
    const HINT: &str = " (`params check` tells whether the key is whole)";
    match error {
        Error::InvalidProof { attempts }
            if attempts.contains("self-check") && !attempts.contains(HINT) =>
        {
            Error::InvalidProof { attempts: attempts + HINT }
        }
        other => other,
    }
}
