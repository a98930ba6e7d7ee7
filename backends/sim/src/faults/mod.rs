//! Faults, by list or by seed. The same plan on the same calls gives the same run.

mod seeded;
mod text;

use std::time::Duration;

pub use seeded::FaultRates;
pub use text::ParseFaultsError;

/// One fault. Counts start at 0 and go on when the device is reopened. They include work skipped on
/// a poisoned stream, to which nothing can happen any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The n-th allocation of device memory (from the driver or by growing the pool) finds no room.
    OutOfMemory {
        /// Which.
        allocation: u64,
    },
    /// Some copies to or from the host take `factor` times as long.
    SlowCopies {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
        /// How many times as long.
        factor: u32,
    },
    /// The n-th operation fails on the device when it ends.
    KernelFailed {
        /// Which.
        op: u64,
    },
    /// A bit of what the n-th operation writes is flipped. Without arithmetic there are no bits,
    /// and nothing happens.
    BitFlip {
        /// Which.
        op: u64,
        /// The bit, modulo the number of bits of the first view written.
        bit: u64,
    },
    /// The card is lost in the middle of the n-th operation.
    LostAtOp {
        /// Which.
        op: u64,
    },
    /// The card is lost at a time.
    LostAt {
        /// Since the clock's start.
        at: Duration,
    },
    /// After a loss, the first `count` attempts to reopen fail.
    OpenFails {
        /// How many.
        count: u64,
    },
    /// Another process takes device memory (or what is left of it) for a while.
    OtherProcess {
        /// From this time.
        from: Duration,
        /// To this time.
        until: Duration,
        /// Bytes.
        bytes: u64,
    },
}

/// The faults of a run. Prints as one line that parses back to the same plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// The seed it was made from, if it was.
    pub seed: Option<u64>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// After this many faults no more happen.
    pub most: u64,
    /// From this time on no more happen.
    pub until: Duration,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::none()
    }
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self { seed: None, faults: Vec::new(), most: u64::MAX, until: Duration::MAX }
    }

    /// These, without an end.
    pub fn of(faults: impl Into<Vec<Fault>>) -> Self {
        Self { faults: faults.into(), ..Self::none() }
    }
}

/// What goes wrong with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpFault {
    None,
    Failed,
    Flip(u64),
    Lost,
}

/// A plan in progress.
#[derive(Debug)]
pub(crate) struct Faults {
    plan: FaultPlan,
    fired: Vec<Option<Duration>>,
    allocations: u64,
    copies: u64,
    ops: u64,
    failed_opens: u64,
}

/// How much a card has been asked for so far: what the next fault's number counts on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Allocations of device memory.
    pub allocations: u64,
    /// Copies to or from the host.
    pub copies: u64,
    /// Operations.
    pub ops: u64,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        let fired = vec![None; plan.faults.len()];
        Self { plan, fired, allocations: 0, copies: 0, ops: 0, failed_opens: 0 }
    }

    /// Adds a fault to the plan.
    pub(crate) fn add(&mut self, fault: Fault) {
        self.plan.faults.push(fault);
        self.fired.push(None);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { allocations: self.allocations, copies: self.copies, ops: self.ops }
    }

    pub(crate) fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// What has gone wrong so far.
    pub(crate) fn fired(&self) -> Vec<(Duration, Fault)> {
        let mut fired: Vec<_> = self
            .fired
            .iter()
            .zip(&self.plan.faults)
            .filter_map(|(at, fault)| at.map(|at| (at, *fault)))
            .collect();
        fired.sort_by_key(|(at, _)| *at);
        fired
    }

    fn is_open(&self, at: Duration) -> bool {
        let fired = self.fired.iter().flatten().count() as u64;
        fired < self.plan.most && at < self.plan.until
    }

    /// Fires the first fault that `pick` wants; one that fired before may go on.
    fn fire<T>(
        &mut self,
        now: Duration,
        pick: impl Fn(&Fault) -> Option<T>,
        again: bool,
    ) -> Option<T> {
        let open = self.is_open(now);
        let until = self.plan.until;
        for (fault, fired) in self.plan.faults.iter().zip(&mut self.fired) {
            let allowed = if fired.is_some() { again && now < until } else { open };
            if let Some(found) = pick(fault).filter(|_| allowed) {
                fired.get_or_insert(now);
                return Some(found);
            }
        }
        None
    }

    /// Whether this allocation fails.
    pub(crate) fn on_allocation(&mut self, now: Duration) -> bool {
        let at = self.allocations;
        self.allocations += 1;
        let pick = |fault: &Fault| (*fault == Fault::OutOfMemory { allocation: at }).then_some(());
        self.fire(now, pick, false).is_some()
    }

    /// How many times as long this copy takes.
    pub(crate) fn on_copy(&mut self, now: Duration) -> u32 {
        let at = self.copies;
        self.copies += 1;
        let pick = |fault: &Fault| match *fault {
            Fault::SlowCopies { first, count, factor } => {
                (first..first.saturating_add(count)).contains(&at).then_some(factor)
            }
            _ => None,
        };
        self.fire(now, pick, true).unwrap_or(1)
    }

    /// An operation on a poisoned stream.
    pub(crate) fn skip_op(&mut self) {
        self.ops += 1;
    }

    /// A copy on a poisoned stream.
    pub(crate) fn skip_copy(&mut self) {
        self.copies += 1;
    }

    /// What goes wrong with this operation.
    pub(crate) fn on_op(&mut self, now: Duration) -> OpFault {
        let at = self.ops;
        self.ops += 1;
        let pick = |fault: &Fault| match *fault {
            Fault::KernelFailed { op } if op == at => Some(OpFault::Failed),
            Fault::BitFlip { op, bit } if op == at => Some(OpFault::Flip(bit)),
            Fault::LostAtOp { op } if op == at => Some(OpFault::Lost),
            _ => None,
        };
        self.fire(now, pick, false).unwrap_or(OpFault::None)
    }

    /// When the card will be lost next, by the clock.
    pub(crate) fn next_loss(&self) -> Option<Duration> {
        let pending =
            self.plan.faults.iter().zip(&self.fired).filter_map(|(fault, fired)| {
                match (fault, fired) {
                    (Fault::LostAt { at }, None) if self.is_open(*at) => Some(*at),
                    _ => None,
                }
            });
        pending.min()
    }

    /// Marks the losses up to `now` as having happened.
    pub(crate) fn lost(&mut self, now: Duration) {
        for (fault, fired) in self.plan.faults.iter().zip(&mut self.fired) {
            if let Fault::LostAt { at } = fault
                && *at <= now
            {
                fired.get_or_insert(*at);
            }
        }
        self.failed_opens = 0;
    }

    /// Whether this attempt to reopen a lost card fails.
    pub(crate) fn on_reopen(&mut self, now: Duration) -> bool {
        let attempt = self.failed_opens;
        let pick = |fault: &Fault| match *fault {
            Fault::OpenFails { count } if attempt < count => Some(()),
            _ => None,
        };
        let fails = self.fire(now, pick, true).is_some();
        self.failed_opens += u64::from(fails);
        fails
    }

    /// Times and bytes of other processes not asked for before. They count as faults from their
    /// start.
    pub(crate) fn other_processes(&mut self) -> Vec<(Duration, Duration, u64)> {
        let mut found = Vec::new();
        for at in 0..self.plan.faults.len() {
            let Some(Fault::OtherProcess { from, until, bytes }) = self.plan.faults.get(at) else {
                continue;
            };
            let (from, until, bytes) = (*from, (*until).min(self.plan.until), *bytes);
            let is_new = self.fired.get(at).is_some_and(Option::is_none);
            if is_new && from < until && self.is_open(from) {
                found.push((from, until, bytes));
                if let Some(fired) = self.fired.get_mut(at) {
                    *fired = Some(from);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_end_after_a_count_and_at_a_time() {
        let faults = vec![
            Fault::KernelFailed { op: 1 },
            Fault::KernelFailed { op: 2 },
            Fault::KernelFailed { op: 4 },
        ];
        let s = Duration::from_secs;
        let run = |most, until| {
            let plan = FaultPlan { most, until, ..FaultPlan::of(faults.clone()) };
            let mut faults = Faults::new(plan);
            (0..6).map(|at| faults.on_op(s(at)) == OpFault::Failed).collect::<Vec<_>>()
        };
        assert_eq!(run(9, s(9)), [false, true, true, false, true, false]);
        assert_eq!(run(1, s(9)), [false, true, false, false, false, false]);
        assert_eq!(run(9, s(2)), [false, true, false, false, false, false]);
    }

    #[test]
    fn slow_copies_are_one_fault() {
        let slow = Fault::SlowCopies { first: 1, count: 2, factor: 8 };
        let plan = FaultPlan { most: 1, ..FaultPlan::of([slow]) };
        let mut faults = Faults::new(plan);
        let factors: Vec<u32> = (0..4).map(|_| faults.on_copy(Duration::ZERO)).collect();
        assert_eq!(factors, [1, 8, 8, 1]);
        assert_eq!(faults.fired(), [(Duration::ZERO, slow)]);
    }
}
