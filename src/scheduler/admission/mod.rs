//! Who may hold device memory and who may compute: one pure state machine for one device.
//!
//! [`Admission::step`] takes what happened and answers what to do. It has no threads, no clock and
//! no device, so the executor, the simulator and the exhaustive model drive the same code. It is
//! total: an event that makes no sense is answered by [`Action::Ignored`] and changes nothing.
//!
//! Partitions stand in a total order, the oldest first. One that arrives with a smaller ticket
//! goes before all larger ones, but not past a partition that already holds so much that the
//! newcomer could not run beside it: memory once granted is not taken away.
//!
//! # The rules
//! 1. **Banker.** Memory is granted to a partition only if each older one could still be placed
//!    to its end once all partitions older than *it* have ended. The proof is a layout made by
//!    the allocator, stage by stage, and it is kept: the *promise*. (Habermann's order-based form
//!    of Dijkstra's banker, with places in the stead of sums: bytes may suffice in pieces that
//!    fit nothing.)
//! 2. **Whole profile.** `compute` goes to a partition only when all it will ever hold is placed,
//!    so that its holder asks for nothing.
//! 3. **In order.** While a partition waits for its whole remaining profile, no younger one is
//!    given memory.
//! 4. **Release is free.** Nothing is asked and no lock is needed to give memory back.
//! 5. **Residents.** An idle one counts as free and is evicted when its place is needed; one in
//!    use counts as held by its youngest user.
//! 6. **Budget.** It shrinks only by what leaves every promise good; the rest is owed, and no
//!    partition that can run without it is placed there any more.
//! 7. **Locks.** `step` is the only thing done under `mem`, and it never blocks: who lacks memory
//!    is told so and waits with neither lock. (Kept by the executor; the model shows why.)
//!
//! # Why every partition ends
//! Invariant: each partition has a promise, that is a place for everything it still lacks, clear
//! of all that younger partitions hold and of itself wherever lifetimes meet. A grant keeps it:
//! the promises of older partitions are checked or made anew, the receiver's is made anew, and to
//! the younger the receiver's memory counts as given back. A release keeps it, for it removes
//! obstacles only; that is why promises are kept and not made again on demand, since best fit may
//! fail with *more* room. An arrival has its promise from the start; a shrink checks all.
//!
//! Take the oldest partition. Nobody is older, so all that is held, apart from idle residents,
//! which can be evicted, is its own or held by the younger: its promise can be taken as it is, and
//! it never waits for memory. The holder of `compute` lacks nothing (rule 2) and needs no lock to
//! release (rule 4), so it ends; then `compute` passes to the oldest that asks and has its memory.
//! Hence the oldest gets `compute` after finitely many others, ends, and leaves one partition
//! fewer in a state in which the invariant holds. By induction all end, whoever is cancelled.

mod budget;
mod event;
mod grant;
mod partition;
mod place;
mod profile;
mod rules;
mod safety;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use budget::Pool;
pub use budget::PoolSpec;
pub use event::{
    Action, Event, Nonsense, Outcome, Parked, Placement, Refusal, ResidentPlacement, Shortage,
};
use partition::{Partition, Phase, Resident};
use place::{Goal, merged};
pub use profile::{BufferNeed, PoolId, Profile, ResidentKey, ResidentNeed, Ticket};
#[doc(hidden)]
pub use rules::Rules;
use safety::covered_bytes;

/// The state of one device's memory and of its `compute` lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Admission {
    rules: Rules,
    pools: Vec<Pool>,
    /// The oldest first. Shared by the copies on which grants are tried.
    partitions: Vec<Arc<Partition>>,
    /// Those idle the longest first.
    residents: Vec<Resident>,
    compute: Option<Ticket>,
}

impl Admission {
    /// Empty memories; [`PoolId`] is the position in the list.
    pub fn new(pools: impl IntoIterator<Item = PoolSpec>) -> Self {
        Self::with_rules(pools, Rules::ALL)
    }

    /// For tests that leave a rule out.
    #[doc(hidden)]
    pub fn with_rules(pools: impl IntoIterator<Item = PoolSpec>, rules: Rules) -> Self {
        let pools = pools.into_iter().map(Pool::new).collect();
        Self { rules, pools, partitions: Vec::new(), residents: Vec::new(), compute: None }
    }

    /// Takes one event; answers what to do, in order. Never waits and never panics.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut asked = None;
        let outcome = match event {
            Event::Arrive { ticket, profile } => {
                self.arrive(ticket, profile, &mut actions);
                Ok(())
            }
            Event::WantPrestage { ticket } => self.want_prestage(ticket, &mut actions),
            Event::WantResident { ticket, key } => self.want_resident(ticket, key, &mut actions),
            Event::WantCompute { ticket } => {
                asked = Some(ticket);
                self.want_compute(ticket)
            }
            Event::ResidentLoaded { ticket, key } => self.resident_loaded(ticket, key),
            Event::StageEnded { ticket, stage } => self.stage_ended(ticket, stage, &mut actions),
            Event::ComputeEnded { ticket } => self.compute_ended(ticket),
            Event::Finished { ticket } => self.finished(ticket, &mut actions),
            Event::Cancelled { ticket } => self.end(ticket, Outcome::Cancelled, &mut actions),
            Event::Failed { ticket } => self.end(ticket, Outcome::Failed, &mut actions),
            Event::BudgetShrunk { pool, size_bytes } => {
                self.owe(pool, size_bytes).then_some(()).ok_or(Nonsense::NoSuchPool(pool))
            }
            Event::BudgetGrown { pool, size_bytes } => {
                self.grow(pool, size_bytes).then_some(()).ok_or(Nonsense::NoSuchPool(pool))
            }
        };
        if let Err(why) = outcome {
            return vec![Action::Ignored { why }];
        }
        self.pay(&mut actions);
        self.serve_waiting(&mut actions);
        self.pass_compute(&mut actions);
        if let Some(ticket) = asked {
            actions.extend(self.parked(ticket).map(|parked| Action::Waits { ticket, parked }));
        }
        actions
    }

    /// Who computes.
    pub fn computing(&self) -> Option<Ticket> {
        self.compute
    }

    /// The partitions, the oldest first.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.partitions.iter().map(|partition| partition.ticket)
    }

    /// What a partition waits for; `None` when it does not.
    pub fn parked(&self, ticket: Ticket) -> Option<Parked> {
        let rank = self.rank(ticket).ok()?;
        let partition = self.partitions.get(rank)?;
        if partition.phase != Phase::Waiting {
            return None;
        }
        let goal = self.goal(partition);
        Some(if partition.holds(goal) {
            Parked::OnCompute
        } else {
            Parked::OnMemory(self.shortage(rank, goal))
        })
    }

    /// Where a partition's buffers lie.
    pub fn placements(&self, ticket: Ticket) -> Vec<Placement> {
        let rank = self.rank(ticket).ok();
        rank.and_then(|rank| self.partitions.get(rank)).map_or(Vec::new(), |own| own.placements())
    }

    /// How many older partitions compute or are still to, and how many there are at all.
    pub fn older(&self, ticket: Ticket) -> (usize, usize) {
        let older = || self.partitions.iter().take_while(|other| other.ticket != ticket);
        (older().filter(|other| other.phase != Phase::Draining).count(), older().count())
    }

    /// The residents on the device, those idle the longest first.
    pub fn residents(&self) -> impl Iterator<Item = ResidentPlacement> + '_ {
        self.residents.iter().map(Resident::placement)
    }

    fn rank(&self, ticket: Ticket) -> Result<usize, Nonsense> {
        let found = self.partitions.iter().position(|partition| partition.ticket == ticket);
        found.ok_or(Nonsense::NoSuchTicket(ticket))
    }

    fn partition(&mut self, ticket: Ticket) -> Result<&mut Partition, Nonsense> {
        let found = self.partitions.iter_mut().find(|partition| partition.ticket == ticket);
        found.map(Arc::make_mut).ok_or(Nonsense::NoSuchTicket(ticket))
    }

    fn partition_at(&mut self, rank: usize) -> Option<&mut Partition> {
        self.partitions.get_mut(rank).map(Arc::make_mut)
    }

    /// What has to be held before `compute` is granted.
    fn goal(&self, partition: &Partition) -> Goal {
        if self.rules.whole_profile { Goal::Whole } else { Goal::Through(partition.stage) }
    }

    fn arrive(&mut self, ticket: Ticket, profile: Arc<Profile>, actions: &mut Vec<Action>) {
        match self.admit(ticket, profile) {
            Ok(()) => actions.push(Action::Admitted { ticket }),
            Err(why) => actions.push(Action::Refused { ticket, why }),
        }
    }

    fn admit(&mut self, ticket: Ticket, profile: Arc<Profile>) -> Result<(), Refusal> {
        if self.rank(ticket).is_ok() {
            return Err(Refusal::TicketTaken);
        }
        let named = profile.buffers().iter().map(|need| need.pool);
        let named = named.chain(profile.residents().iter().map(|need| need.pool));
        if let Some(pool) = named.into_iter().find(|pool| self.pool(*pool).is_none()) {
            return Err(Refusal::NoSuchPool(pool));
        }
        for need in profile.residents() {
            let here = self.residents.iter().map(|r| (r.key, r.pool, r.size_bytes));
            let named = self.partitions.iter().flat_map(|p| p.profile.residents());
            let named = named.map(|other| (other.key, other.pool, other.size_bytes));
            if here.chain(named).any(|(key, pool, size_bytes)| {
                key == need.key && (pool, size_bytes) != (need.pool, need.size_bytes)
            }) {
                return Err(Refusal::ResidentDiffers(need.key));
            }
        }
        let limits = self.limits_after_debt();
        if !self.fits_alone(&profile, &limits) {
            return Err(self.never_fits(&profile, &limits));
        }
        // As far to the front as its ticket allows and the memory of the younger permits. The last
        // place always does, for behind it nobody holds anything.
        let front = self.partitions.iter().rposition(|other| other.ticket < ticket);
        let front = front.map_or(0, |last| last + 1);
        let newcomer = Arc::new(Partition::new(ticket, profile));
        for rank in front..=self.partitions.len() {
            self.partitions.insert(rank, newcomer.clone());
            if !self.rules.banker || !self.rules.placed {
                return Ok(());
            }
            if let Some(promise) = self.derive_promise(rank) {
                if let Some(own) = self.partition_at(rank) {
                    own.promised = promise;
                }
                return Ok(());
            }
            self.partitions.remove(rank);
        }
        // Only without rule 5 does an idle resident bar even the last place.
        self.partitions.push(newcomer);
        Ok(())
    }

    /// The numbers of a refusal: of the memory that is exceeded, else of the one with the least
    /// to spare (a layout may need some more than the bytes that live at once).
    fn never_fits(&self, profile: &Profile, limits: &[u64]) -> Refusal {
        let newcomer = Partition::new(Ticket(u64::MAX), Arc::new(profile.clone()));
        let mut worst = (0u64, u64::MAX, PoolId(0), 0);
        for (pool, capacity_bytes) in self.pool_ids().zip(limits.iter().copied()) {
            let residents = profile.residents().iter().filter(|need| need.pool == pool);
            let needed_bytes = residents
                .fold(self.buffers_peak_bytes(&newcomer.profile, 0, pool), |sum, need| {
                    sum.saturating_add(self.rounded(pool, need.size_bytes))
                });
            let (over, spare) = (
                needed_bytes.saturating_sub(capacity_bytes),
                capacity_bytes.saturating_sub(needed_bytes),
            );
            if needed_bytes > 0 && (over > worst.0 || (worst.0 == 0 && spare < worst.1)) {
                worst = (over, spare, pool, needed_bytes);
            }
        }
        let (_, _, pool, needed_bytes) = worst;
        let capacity_bytes = limits.get(usize::from(pool.0)).copied().unwrap_or(0);
        Refusal::NeverFits { pool, needed_bytes, capacity_bytes }
    }

    fn want_prestage(&mut self, ticket: Ticket, actions: &mut Vec<Action>) -> Result<(), Nonsense> {
        let rank = self.rank(ticket)?;
        let Some(own) = self.partitions.get(rank).filter(|own| own.phase == Phase::Arrived) else {
            return Err(Nonsense::OutOfTurn(ticket));
        };
        let goal = Goal::Buffers(own.stage);
        // Those that live longest first, as whole profiles are placed: what stays to the end must
        // not lie between what goes early.
        let needs = own.profile.buffers();
        let mut indices: Vec<usize> = (0..needs.len()).collect();
        indices.sort_by_key(|index| {
            needs.get(*index).map(|need| (u8::MAX - need.last, u64::MAX - need.size_bytes))
        });
        let may = !self.older_waits(rank);
        if may && !self.grant(rank, goal, actions) {
            for index in indices {
                let wanted = self
                    .partitions
                    .get(rank)
                    .is_some_and(|own| goal.wants_buffer(&own.profile, index) && own.lives(index));
                if wanted {
                    self.grant(rank, Goal::Buffer(index), actions);
                }
            }
        }
        let Some(own) = self.partitions.get(rank) else { return Ok(()) };
        let placements = own.placements();
        actions.push(if own.holds(goal) {
            Action::PrestageReady { ticket, placements }
        } else {
            let shortage = self.shortage(rank, goal);
            if placements.is_empty() {
                Action::Deferred { ticket, shortage }
            } else {
                Action::PrestagePartial { ticket, placements, shortage }
            }
        });
        Ok(())
    }

    fn want_resident(
        &mut self,
        ticket: Ticket,
        key: ResidentKey,
        actions: &mut Vec<Action>,
    ) -> Result<(), Nonsense> {
        let rank = self.rank(ticket)?;
        let Some(own) = self.partitions.get(rank).filter(|own| own.phase == Phase::Arrived) else {
            return Err(Nonsense::OutOfTurn(ticket));
        };
        let index = own.resident_index(key).ok_or(Nonsense::NotItsResident(ticket, key))?;
        let goal = Goal::Resident(index);
        let may = own.holds(goal) || !self.older_waits(rank);
        let granted = may && self.grant(rank, goal, actions);
        let resident = self.residents.iter().find(|resident| resident.key == key);
        actions.push(match resident {
            Some(resident) if granted => {
                Action::ResidentReady { ticket, resident: resident.placement() }
            }
            _ => Action::Deferred { ticket, shortage: self.shortage(rank, goal) },
        });
        Ok(())
    }

    fn want_compute(&mut self, ticket: Ticket) -> Result<(), Nonsense> {
        let own = self.partition(ticket)?;
        if own.phase != Phase::Arrived {
            return Err(Nonsense::OutOfTurn(ticket));
        }
        own.phase = Phase::Waiting;
        Ok(())
    }

    fn resident_loaded(&mut self, ticket: Ticket, key: ResidentKey) -> Result<(), Nonsense> {
        if !self.partition(ticket)?.uses(key) {
            return Err(Nonsense::NotItsResident(ticket, key));
        }
        if let Some(resident) = self.residents.iter_mut().find(|resident| resident.key == key) {
            resident.loaded = true;
        }
        Ok(())
    }

    fn stage_ended(
        &mut self,
        ticket: Ticket,
        stage: u8,
        actions: &mut Vec<Action>,
    ) -> Result<(), Nonsense> {
        let rank = self.rank(ticket)?;
        let Some(own) = self.partitions.get(rank) else { return Ok(()) };
        let runs = matches!(own.phase, Phase::Computing | Phase::Draining);
        let in_turn = own.stage == stage
            && stage <= own.profile.last_stage()
            && (runs || stage == 0)
            && own.holds(Goal::Buffers(stage));
        if !in_turn {
            return Err(Nonsense::OutOfTurn(ticket));
        }
        let before = merged(self.held_ranges(own));
        if let Some(own) = self.partition_at(rank) {
            // The last stage is 255 at most, and past it nothing is asked of `stage`.
            own.stage = stage.saturating_add(1);
            for (index, need) in own.profile.buffers().iter().enumerate() {
                if need.last <= stage {
                    for layout in [&mut own.held, &mut own.promised] {
                        if let Some(slot) = layout.buffers.get_mut(index) {
                            *slot = None;
                        }
                    }
                }
            }
        }
        let after = self.partitions.get(rank).map_or(Vec::new(), |own| self.held_ranges(own));
        let after = merged(after);
        for pool in self.pool_ids() {
            let size_bytes = covered_bytes(&before, pool) - covered_bytes(&after, pool);
            if size_bytes > 0 {
                actions.push(Action::Released { ticket, pool, size_bytes });
            }
        }
        Ok(())
    }

    fn compute_ended(&mut self, ticket: Ticket) -> Result<(), Nonsense> {
        let own = self.partition(ticket)?;
        if own.phase != Phase::Computing {
            return Err(Nonsense::OutOfTurn(ticket));
        }
        own.phase = Phase::Draining;
        self.compute = None;
        Ok(())
    }

    fn finished(&mut self, ticket: Ticket, actions: &mut Vec<Action>) -> Result<(), Nonsense> {
        match self.partition(ticket)?.phase {
            Phase::Computing | Phase::Draining => self.end(ticket, Outcome::Finished, actions),
            Phase::Arrived | Phase::Waiting => Err(Nonsense::OutOfTurn(ticket)),
        }
    }

    fn end(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) -> Result<(), Nonsense> {
        let rank = self.rank(ticket)?;
        let gone = self.partitions.remove(rank);
        let held = merged(self.held_ranges(&gone));
        for pool in self.pool_ids() {
            let size_bytes = covered_bytes(&held, pool);
            if size_bytes > 0 {
                actions.push(Action::Released { ticket, pool, size_bytes });
            }
        }
        if self.compute == Some(ticket) {
            self.compute = None;
        }
        actions.push(Action::Ended { ticket, outcome });
        for need in gone.profile.residents().iter().filter(|need| gone.uses(need.key)) {
            let Some(at) = self.residents.iter().position(|r| r.key == need.key) else { continue };
            // Used last, so evicted last; without bytes it is of no use to anyone.
            let resident = self.residents.remove(at);
            let used = self.partitions.iter().any(|partition| partition.uses(need.key));
            if used || resident.loaded {
                self.residents.push(resident);
            } else {
                actions.push(Action::Evict { key: need.key });
            }
        }
        Ok(())
    }

    fn waits_for_memory(&self, rank: usize) -> bool {
        self.partitions
            .get(rank)
            .is_some_and(|own| own.phase == Phase::Waiting && !own.holds(self.goal(own)))
    }

    /// Places the profiles of those that wait, the oldest first.
    fn serve_waiting(&mut self, actions: &mut Vec<Action>) {
        for rank in 0..self.partitions.len() {
            let Some(own) = self.partitions.get(rank) else { break };
            let goal = self.goal(own);
            // Without rule 2 even the one that computes may still lack memory.
            let asks = matches!(own.phase, Phase::Waiting | Phase::Computing);
            if !asks || own.holds(goal) {
                continue;
            }
            if self.grant(rank, goal, actions) {
                if let Some(own) = self.partitions.get(rank) {
                    let (ticket, placements) = (own.ticket, own.placements());
                    let residents = self.residents_of(own);
                    actions.push(Action::Reserved { ticket, placements, residents });
                }
            } else if self.rules.in_order {
                break;
            }
        }
    }

    fn pass_compute(&mut self, actions: &mut Vec<Action>) {
        if self.compute.is_some() {
            return;
        }
        let ready = self.partitions.iter().position(|partition| {
            partition.phase == Phase::Waiting && partition.holds(self.goal(partition))
        });
        let Some(own) = ready.and_then(|rank| self.partition_at(rank)) else { return };
        own.phase = Phase::Computing;
        let (ticket, placements) = (own.ticket, own.placements());
        let own = own.clone();
        self.compute = Some(ticket);
        let residents = self.residents_of(&own);
        actions.push(Action::GrantCompute { ticket, placements, residents });
    }

    fn residents_of(&self, own: &Partition) -> Vec<ResidentPlacement> {
        let used = self.residents.iter().filter(|resident| own.uses(resident.key));
        used.map(Resident::placement).collect()
    }
}
