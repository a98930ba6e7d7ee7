//! Workers that run partitions through the admission machine, as a transition system.

use std::fmt::Write as _;
use std::sync::Arc;

use stateright::{Model, Property};
use twinlock::scheduler::admission::{
    Action, Admission, Event, Parked, PoolId, Refusal, ResidentKey, Ticket,
};

use super::explore::{NO_DEADLOCK, Told};
use super::scenario::{Job, Scenario};

pub const HOLDER_RUNS: &str = "the holder of compute never waits";
pub const NO_OVERLAP: &str = "no two live buffers overlap";
pub const WITHIN: &str = "nothing lies past the capacity";
pub const ACCOUNTED: &str = "bytes held are bytes counted";
pub const IN_ORDER: &str = "nobody is served past an older that waits for memory";
pub const ENDS_ONCE: &str = "every partition ends once and all memory comes back";
pub const NO_FAULT: &str = "every answer makes sense";

/// Where a worker is in its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    Idle,
    Arrived,
    /// Holds `mem` to prestage.
    InPrestage,
    Staged,
    /// Holds `mem` to reserve.
    InReserve,
    Waiting,
    Computing,
    Draining,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Partitions ended so far; the script is over when it equals its length.
    pub ended: usize,
    pub at: At,
    pub stage: u8,
    /// As told by actions, by index of buffer and of resident.
    pub buffers: Vec<Option<u64>>,
    pub residents: Vec<Option<u64>>,
    /// Residents that the worker has to load before its first stage ends.
    pub to_load: Vec<ResidentKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub admission: Admission,
    pub workers: Vec<Arc<Worker>>,
    /// Who holds `mem`.
    pub mem: Option<usize>,
    pub shrunk: usize,
    /// A younger partition was given memory while an older waited for some.
    pub overtaken: bool,
    pub fault: Option<&'static str>,
}

impl State {
    fn worker(&mut self, index: usize) -> &mut Worker {
        Arc::make_mut(&mut self.workers[index])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Arrive(usize),
    LockMemToPrestage(usize),
    Prestage(usize),
    LockMemToReserve(usize),
    Reserve(usize),
    Load(usize),
    EndStage(usize),
    EndCompute(usize),
    Finish(usize),
    Cancel(usize),
    Shrink,
}

impl Scenario {
    fn job<'a>(&'a self, index: usize, worker: &Worker) -> Option<&'a Job> {
        self.workers[index].get(worker.ended)
    }

    fn ticket(&self, index: usize, worker: &Worker) -> Ticket {
        self.job(index, worker).expect("a move of a worker without a job").ticket
    }

    /// Whether the buffers of the worker's stage are all there.
    fn can_run_stage(&self, index: usize, worker: &Worker) -> bool {
        let Some(job) = self.job(index, worker) else { return false };
        let needs = job.profile.buffers().iter().zip(&worker.buffers);
        let buffers =
            needs.filter(|(need, _)| need.first <= worker.stage && worker.stage <= need.last);
        buffers.into_iter().all(|(_, at)| at.is_some())
            && worker.residents.iter().all(Option::is_some)
    }

    /// What a worker can do now; cancels apart.
    fn moves(&self, state: &State, index: usize) -> [Option<Move>; 2] {
        let worker = &state.workers[index];
        let Some(job) = self.job(index, worker) else { return [None, None] };
        let free = state.mem.is_none();
        let may_release = free || self.locks.release_is_free;
        let explicit = self.locks.explicit;
        let only = |is: bool, what: Move| [is.then_some(what), None];
        match worker.at {
            At::Idle => only(true, Move::Arrive(index)),
            At::Arrived | At::Staged => {
                let prestage = match explicit {
                    true => Move::LockMemToPrestage(index),
                    false => Move::Prestage(index),
                };
                let reserve = match explicit {
                    true => Move::LockMemToReserve(index),
                    false => Move::Reserve(index),
                };
                let first = free && worker.at == At::Arrived;
                [first.then_some(prestage), free.then_some(reserve)]
            }
            At::InPrestage => only(true, Move::Prestage(index)),
            At::InReserve => only(true, Move::Reserve(index)),
            At::Waiting => [None, None],
            At::Computing if !worker.to_load.is_empty() => only(true, Move::Load(index)),
            At::Computing if worker.stage < job.profile.last_stage() => {
                only(may_release && self.can_run_stage(index, worker), Move::EndStage(index))
            }
            At::Computing => only(self.can_run_stage(index, worker), Move::EndCompute(index)),
            At::Draining => only(may_release, Move::Finish(index)),
        }
    }

    fn can_move(&self, state: &State, index: usize) -> bool {
        self.moves(state, index).iter().any(Option::is_some)
    }

    fn progress(&self, state: &State) -> usize {
        let workers = state.workers.iter().map(|worker| {
            let left = 8 - worker.to_load.len().min(8);
            let here = worker.at as usize * 32 + usize::from(worker.stage) * 16 + left;
            worker.ended * 4096 + here
        });
        workers.sum::<usize>() + state.shrunk
    }

    /// Steps the machine and tells the workers.
    fn step(&self, state: &mut State, event: Event) {
        let before = state.admission.clone();
        let actions = state.admission.step(event);
        for action in actions {
            self.told(state, &before, action);
        }
    }

    fn worker_of(&self, state: &State, ticket: Ticket) -> Option<usize> {
        let mut workers = state.workers.iter().enumerate();
        let found = workers.find(|(index, worker)| {
            self.job(*index, worker).is_some_and(|job| job.ticket == ticket)
        });
        found.map(|(index, _)| index)
    }

    fn told(&self, state: &mut State, before: &Admission, action: Action) {
        let mut given = None;
        match action {
            Action::Admitted { .. } | Action::Deferred { .. } | Action::Waits { .. } => {}
            Action::Released { .. } | Action::Shrunk { .. } => {}
            Action::PrestageReady { ticket, placements }
            | Action::PrestagePartial { ticket, placements, .. } => {
                given = Some((ticket, placements, Vec::new(), false));
            }
            Action::Reserved { ticket, placements, residents } => {
                given = Some((ticket, placements, residents, false));
            }
            Action::GrantCompute { ticket, placements, residents } => {
                given = Some((ticket, placements, residents, true));
            }
            Action::Evict { key } => {
                for (index, worker) in state.workers.iter().enumerate() {
                    let Some(job) = self.job(index, worker) else { continue };
                    let mut needs = job.profile.residents().iter().zip(&worker.residents);
                    if needs.any(|(need, at)| need.key == key && at.is_some()) {
                        state.fault = Some("a resident in use was evicted");
                    }
                }
            }
            Action::Ended { ticket, .. } => match self.worker_of(state, ticket) {
                Some(index) => {
                    let ended = state.workers[index].ended + 1;
                    state.workers[index] = Arc::new(self.fresh(index, ended));
                    if state.mem == Some(index) {
                        state.mem = None;
                    }
                }
                None => state.fault = Some("a partition ended that was not running"),
            },
            Action::Refused { ticket, why } => match (why, self.worker_of(state, ticket)) {
                // After a shrink; the executor would make a smaller plan.
                (Refusal::NeverFits { needed_bytes, capacity_bytes, .. }, Some(index))
                    if state.shrunk > 0 && needed_bytes > capacity_bytes =>
                {
                    let ended = state.workers[index].ended + 1;
                    state.workers[index] = Arc::new(self.fresh(index, ended));
                }
                _ => state.fault = Some("a partition that fits was refused"),
            },
            Action::ResidentReady { ticket, resident } => {
                given = Some((ticket, before.placements(ticket), vec![resident], false));
            }
            Action::Ignored { .. } => state.fault = Some("an event in turn was ignored"),
        }
        let Some((ticket, placements, residents, compute)) = given else { return };
        let Some(index) = self.worker_of(state, ticket) else {
            state.fault = Some("an answer to nobody");
            return;
        };
        let Some(job) = self.job(index, &state.workers[index]) else { return };
        let worker = Arc::make_mut(&mut state.workers[index]);
        let had = worker.buffers.iter().chain(&worker.residents).flatten().count();
        let moved = placements
            .iter()
            .any(|p| worker.buffers[p.buffer].is_some_and(|offset| offset != p.offset_bytes));
        if moved {
            state.fault = Some("a buffer in use was moved");
        }
        worker.buffers.fill(None);
        for placement in placements {
            worker.buffers[placement.buffer] = Some(placement.offset_bytes);
        }
        for (slot, need) in worker.residents.iter_mut().zip(job.profile.residents()) {
            if let Some(at) = residents.iter().find(|resident| resident.key == need.key) {
                *slot = Some(at.offset_bytes);
            }
        }
        if compute {
            if worker.at != At::Waiting {
                state.fault = Some("compute was given to one that did not ask");
            }
            worker.at = At::Computing;
            let missing = residents.iter().filter(|resident| !resident.loaded);
            worker.to_load = missing.map(|resident| resident.key).collect();
        }
        let has = worker.buffers.iter().chain(&worker.residents).flatten().count();
        if has > had {
            let mut older = state.admission.tickets().take_while(|other| *other != ticket);
            state.overtaken |= older.any(|other| {
                let waits = |a: &Admission| matches!(a.parked(other), Some(Parked::OnMemory(_)));
                waits(before) && waits(&state.admission)
            });
        }
    }

    fn fresh(&self, index: usize, ended: usize) -> Worker {
        let profile = self.workers[index].get(ended).map(|job| &job.profile);
        Worker {
            ended,
            at: At::Idle,
            stage: 0,
            buffers: vec![None; profile.map_or(0, |p| p.buffers().len())],
            residents: vec![None; profile.map_or(0, |p| p.residents().len())],
            to_load: Vec::new(),
        }
    }

    /// A bit for each GiB of `pool` that lives in each worker, and whether any two clash.
    fn masks(&self, state: &State, pool: PoolId) -> (u64, bool, bool) {
        let bits = |start: u64, size: u64| ((1u64 << size) - 1) << start;
        let end = state.admission.capacity(pool);
        let (mut all, mut clash, mut past) = (0u64, false, false);
        let mut seen_residents: Vec<(ResidentKey, u64)> = Vec::new();
        for (index, worker) in state.workers.iter().enumerate() {
            let Some(job) = self.job(index, worker) else { continue };
            let live = || {
                let buffers = job.profile.buffers().iter().zip(&worker.buffers);
                buffers
                    .filter_map(|(need, at)| Some((need, (*at)?)))
                    .filter(|(need, _)| need.pool == pool && need.last >= worker.stage)
            };
            let mut own = 0;
            for (nth, (need, at)) in live().enumerate() {
                past |= at + need.size_bytes > end;
                own |= bits(at, need.size_bytes);
                clash |= live().take(nth).any(|(other, there)| {
                    other.first <= need.last
                        && need.first <= other.last
                        && bits(at, need.size_bytes) & bits(there, other.size_bytes) != 0
                });
            }
            clash |= all & own != 0;
            all |= own;
            for (need, at) in job.profile.residents().iter().zip(&worker.residents) {
                let Some(at) = *at else { continue };
                if need.pool != pool || seen_residents.contains(&(need.key, at)) {
                    continue;
                }
                past |= at + need.size_bytes > end;
                clash |= all & bits(at, need.size_bytes) != 0;
                all |= bits(at, need.size_bytes);
                seen_residents.push((need.key, at));
            }
        }
        (all, clash, past)
    }

    fn pool_ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.pools.len()).map(|index| PoolId(index as u8))
    }

    fn is_final(&self, state: &State) -> bool {
        state.workers.iter().zip(&self.workers).all(|(worker, jobs)| worker.ended == jobs.len())
    }

    fn no_deadlock(&self, state: &State) -> bool {
        (0..state.workers.len()).any(|index| self.can_move(state, index)) || self.is_final(state)
    }

    fn holder_runs(&self, state: &State) -> bool {
        let computes = |index: &usize| state.workers[*index].at == At::Computing;
        let mut holders = (0..state.workers.len()).filter(computes);
        holders.next().is_none_or(|index| self.can_move(state, index)) && holders.next().is_none()
    }

    fn all_back(&self, state: &State) -> bool {
        !self.is_final(state)
            || (state.mem.is_none()
                && state.admission.tickets().next().is_none()
                && state.admission.computing().is_none()
                && self.pool_ids().all(|pool| state.admission.held_bytes(pool) == 0)
                && self.pool_ids().all(|pool| state.admission.owed_bytes(pool) == 0))
    }
}

impl Model for Scenario {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            admission: Admission::with_rules(self.pools.iter().copied(), self.rules),
            workers: (0..self.workers.len()).map(|index| Arc::new(self.fresh(index, 0))).collect(),
            mem: None,
            shrunk: 0,
            overtaken: false,
            fault: None,
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        for (index, worker) in state.workers.iter().enumerate() {
            moves.extend(self.moves(state, index).into_iter().flatten());
            let inside = matches!(worker.at, At::InPrestage | At::InReserve);
            let may_release =
                self.locks.release_is_free || state.mem.is_none() || state.mem == Some(index);
            if self.cancels && worker.at != At::Idle && !inside && may_release {
                moves.push(Move::Cancel(index));
            }
        }
        if state.shrunk < self.shrinks.len() {
            moves.push(Move::Shrink);
        }
    }

    fn next_state(&self, last: &State, action: Move) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        let ticket_of = |index: usize| self.ticket(index, &last.workers[index]);
        match action {
            Move::Arrive(index) => {
                let job = self.job(index, &last.workers[index])?;
                let (ticket, profile) = (job.ticket, job.profile.clone());
                state.worker(index).at = At::Arrived;
                self.step(state, Event::Arrive { ticket, profile });
            }
            Move::LockMemToPrestage(index) => {
                state.mem = Some(index);
                state.worker(index).at = At::InPrestage;
            }
            Move::LockMemToReserve(index) => {
                state.mem = Some(index);
                state.worker(index).at = At::InReserve;
            }
            Move::Prestage(index) => {
                state.worker(index).at = At::Staged;
                state.mem = None;
                let ticket = ticket_of(index);
                self.step(state, Event::WantPrestage { ticket });
                for need in self.job(index, &last.workers[index])?.profile.residents() {
                    self.step(state, Event::WantResident { ticket, key: need.key });
                }
            }
            Move::Reserve(index) => {
                state.worker(index).at = At::Waiting;
                self.step(state, Event::WantCompute { ticket: ticket_of(index) });
            }
            Move::Load(index) => {
                let key = state.worker(index).to_load.pop()?;
                self.step(state, Event::ResidentLoaded { ticket: ticket_of(index), key });
            }
            Move::EndStage(index) => {
                let (ticket, stage) = (ticket_of(index), last.workers[index].stage);
                let job = self.job(index, &last.workers[index])?;
                let worker = state.worker(index);
                worker.stage += 1;
                for (need, slot) in job.profile.buffers().iter().zip(&mut worker.buffers) {
                    if need.last <= stage {
                        *slot = None;
                    }
                }
                self.step(state, Event::StageEnded { ticket, stage });
            }
            Move::EndCompute(index) => {
                state.worker(index).at = At::Draining;
                self.step(state, Event::ComputeEnded { ticket: ticket_of(index) });
            }
            Move::Finish(index) => {
                self.step(state, Event::Finished { ticket: ticket_of(index) });
            }
            Move::Cancel(index) => {
                self.step(state, Event::Cancelled { ticket: ticket_of(index) });
            }
            Move::Shrink => {
                let (pool, size_bytes) = *self.shrinks.get(last.shrunk)?;
                state.shrunk += 1;
                self.step(state, Event::BudgetShrunk { pool, size_bytes });
            }
        }
        // Whoever reserved under `mem` lets go of it: at once, or without rule 7 when it has room.
        if let Some(holder) = state.mem
            && state.workers[holder].at >= At::Waiting
        {
            let parked = state.admission.parked(self.ticket(holder, &state.workers[holder]));
            if self.locks.wait_without_mem || !matches!(parked, Some(Parked::OnMemory(_))) {
                state.mem = None;
            }
        }
        if self.progress(state) <= self.progress(last) {
            state.fault = Some("a move went backwards");
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_DEADLOCK, |m: &Self, s: &State| m.no_deadlock(s)),
            Property::always(HOLDER_RUNS, |m: &Self, s: &State| m.holder_runs(s)),
            Property::always(NO_OVERLAP, |m: &Self, s: &State| {
                m.pool_ids().all(|pool| !m.masks(s, pool).1)
            }),
            Property::always(WITHIN, |m: &Self, s: &State| {
                m.pool_ids().all(|pool| !m.masks(s, pool).2)
            }),
            Property::always(ACCOUNTED, |m: &Self, s: &State| {
                m.pool_ids().all(|pool| {
                    let held = u64::from(m.masks(s, pool).0.count_ones());
                    held == s.admission.held_bytes(pool) && held <= s.admission.capacity(pool)
                })
            }),
            Property::always(IN_ORDER, |_: &Self, s: &State| !s.overtaken),
            Property::always(ENDS_ONCE, |m: &Self, s: &State| m.all_back(s)),
            Property::always(NO_FAULT, |_: &Self, s: &State| s.fault.is_none()),
        ]
    }
}

impl Told for Scenario {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tell(&self, state: &State) -> String {
        let mut text = String::new();
        for (index, worker) in state.workers.iter().enumerate() {
            let _ = writeln!(
                text,
                "worker {index} {:?}, stage {}, buffers at {:?}, residents at {:?}",
                worker.at, worker.stage, worker.buffers, worker.residents
            );
        }
        let _ = write!(text, "mem held by {:?}", state.mem);
        if let Some(fault) = state.fault {
            let _ = write!(text, ", {fault}");
        }
        text
    }
}
