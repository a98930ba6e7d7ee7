//! The first design, from elsewhere: the device's mutex split in two. `mem` covers making room
//! (a device-wide synchronise, the driver's allocator) and staging, `compute` covers kernels. A
//! worker that finds no room goes on to a fallback that allocates and stages under `compute`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock::scheduler::events::{EventKind, Life};
use twinlock_api::{Device, Error, MemoryClass, Region, Result};
use twinlock_sim::{SimCard, SimDevice, enter_mem};

use super::workers::{Floor, Shop};
use crate::execution::{Execution, Progress};
use crate::record::Record;

/// What a worker does that finds no room under `mem`, and how memory goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// It lets go of `mem` and allocates under `compute` later; freeing needs no lock.
    FallBack,
    /// It waits for room holding `mem`; freeing needs `mem`.
    WaitInside,
}

/// What the events call all stages of a partition together.
pub const KERNELS: &str = "kernels";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// Holds `mem` and waits until the device is idle, with all that is enqueued meanwhile.
    Synchronise,
    /// Holds `mem`; nobody gives room back.
    AwaitRoom,
    Upload,
    /// Holds `compute`; the driver waits until the device is idle.
    FallBack,
    Compute,
    /// Holds `compute`; the driver waits until the device is idle.
    Free,
    Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Mem,
    Compute,
}

struct Worker {
    step: Step,
    ticket: Ticket,
    started: Duration,
    execution: Execution,
    memory: Option<Region>,
    has_kernels: bool,
    mem_since: Duration,
    /// The lock it waits for.
    waits: Option<Lock>,
}

/// What came of it.
#[derive(Debug)]
pub struct Played {
    /// The events.
    pub record: Record,
    /// The card.
    pub card: Arc<SimCard>,
    /// The errors of partitions that failed.
    pub failures: Vec<Error>,
    /// Partitions that found no room under `mem`.
    pub found_no_room: u64,
    /// If nobody can go on: who waits for whom.
    pub deadlock: Option<Vec<String>>,
}

struct Naive {
    floor: Floor,
    device: Arc<SimDevice>,
    no_room: NoRoom,
    /// When each goes on. Of those that wake at one time the lower number is first: threads that
    /// a device wakes at once run in no order that anyone may rely on.
    agenda: BTreeSet<(Duration, usize)>,
    workers: Vec<Worker>,
    /// Who holds each lock (first), and who waits for it.
    mem: VecDeque<usize>,
    compute: VecDeque<usize>,
    left: u64,
    next: u64,
    failures: Vec<Error>,
    found_no_room: u64,
}

/// Plays it until all partitions ended or nobody can go on.
///
/// # Errors
/// What the device answers, but for the want of room, which is a partition's failure.
pub fn play(shop: &Shop, no_room: NoRoom) -> Result<Played> {
    let mut floor = Floor::new(shop)?;
    let device = floor.opened()?.device.clone();
    let mut workers = Vec::new();
    let mut agenda = BTreeSet::new();
    let now = floor.clock.now();
    for at in 0..shop.workers {
        workers.push(Worker {
            step: Step::Begin,
            ticket: Ticket(0),
            started: now,
            execution: Execution::new(Ticket(at as u64), floor.opened()?.lend_streams()?),
            memory: None,
            has_kernels: false,
            mem_since: now,
            waits: None,
        });
        agenda.insert((now, at));
    }
    let mut naive = Naive {
        floor,
        device,
        no_room,
        agenda,
        workers,
        mem: VecDeque::new(),
        compute: VecDeque::new(),
        left: shop.partitions,
        next: 0,
        failures: Vec::new(),
        found_no_room: 0,
    };
    while let Some((at, worker)) = naive.agenda.pop_first() {
        naive.floor.clock.advance_to(at);
        naive.go_on(worker)?;
    }
    let deadlock = naive.cycle();
    let Naive { floor, failures, found_no_room, .. } = naive;
    Ok(Played { record: floor.record, card: floor.card.sim, failures, found_no_room, deadlock })
}

impl Naive {
    fn now(&self) -> Duration {
        self.floor.clock.now()
    }

    fn note_at(&mut self, time: Duration, worker: usize) {
        self.agenda.insert((time, worker));
    }

    fn queue(&mut self, lock: Lock) -> &mut VecDeque<usize> {
        match lock {
            Lock::Mem => &mut self.mem,
            Lock::Compute => &mut self.compute,
        }
    }

    /// Goes on as `step` once it has the lock.
    fn ask(&mut self, at: usize, lock: Lock, step: Step) {
        let now = self.now();
        self.queue(lock).push_back(at);
        let is_free = self.queue(lock).len() == 1;
        if let Some(worker) = self.workers.get_mut(at) {
            worker.step = step;
            worker.waits = (!is_free).then_some(lock);
        }
        if is_free {
            self.entered(at, lock, now);
        }
    }

    fn entered(&mut self, at: usize, lock: Lock, now: Duration) {
        let Some(worker) = self.workers.get_mut(at) else { return };
        worker.waits = None;
        let ticket = worker.ticket;
        match lock {
            Lock::Mem => worker.mem_since = now,
            Lock::Compute => self.floor.note(at, ticket, Life::ComputeStarted),
        }
        self.note_at(now, at);
    }

    fn release(&mut self, lock: Lock) {
        let now = self.now();
        let Some(at) = self.queue(lock).pop_front() else { return };
        let Some(worker) = self.workers.get(at) else { return };
        match lock {
            Lock::Mem => {
                let kind = EventKind::MemHeld { since: worker.mem_since };
                let name = self.floor.card.sim.config().name.clone();
                self.floor.record.note(now, Some(&name), at, kind);
            }
            Lock::Compute => self.floor.note(at, worker.ticket, Life::ComputeEnded),
        }
        if let Some(next) = self.queue(lock).front().copied() {
            self.entered(next, lock, now);
        }
    }

    /// Whether the device is idle; if not, the worker looks again when it may be.
    fn is_idle(&mut self, at: usize) -> Result<bool> {
        let idle_at = self.device.idle_time()?;
        let is_idle = idle_at <= self.now();
        if !is_idle {
            self.note_at(idle_at, at);
        }
        Ok(is_idle)
    }

    fn go_on(&mut self, at: usize) -> Result<()> {
        let now = self.now();
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        let ticket = worker.ticket;
        match worker.step {
            Step::Begin => {
                if self.left == 0 {
                    return Ok(());
                }
                self.left -= 1;
                (worker.ticket, worker.started) = (Ticket(self.next), now);
                let ticket = worker.ticket;
                self.next += 1;
                self.floor.note(at, ticket, Life::Started);
                self.ask(at, Lock::Mem, Step::Synchronise);
            }
            Step::Synchronise => {
                if self.is_idle(at)? {
                    self.make_room(at)?;
                }
            }
            Step::AwaitRoom => self.make_room(at)?,
            Step::Upload => match worker.execution.go_on(self.floor.card.opened()?, false)? {
                Progress::Until(time) => self.note_at(time, at),
                Progress::Done => {
                    self.floor.note(at, ticket, Life::StageEnded("prestage"));
                    self.release(Lock::Mem);
                    self.ask(at, Lock::Compute, Step::Compute);
                    self.enqueue_all(at)?;
                }
            },
            Step::FallBack => {
                if self.is_idle(at)? {
                    self.fall_back(at)?;
                }
            }
            Step::Compute => {
                if !std::mem::replace(&mut worker.has_kernels, true) {
                    self.floor.note(at, ticket, Life::StageStarted(KERNELS));
                }
                match worker.execution.go_on(self.floor.card.opened()?, true)? {
                    Progress::Until(time) => self.note_at(time, at),
                    Progress::Done => {
                        worker.has_kernels = false;
                        worker.step = Step::Free;
                        self.floor.note(at, ticket, Life::StageEnded(KERNELS));
                        match self.no_room {
                            NoRoom::WaitInside => self.ask(at, Lock::Mem, Step::Free),
                            NoRoom::FallBack => self.note_at(now, at),
                        }
                    }
                }
            }
            Step::Free => {
                if self.is_idle(at)? {
                    self.free(at)?;
                }
            }
            Step::Ends => {
                worker.step = Step::Begin;
                self.floor.note(at, ticket, Life::Done);
                self.note_at(now, at);
            }
        }
        Ok(())
    }

    /// Under `mem`: the card is synchronised, memory is taken from the driver, staging starts.
    fn make_room(&mut self, at: usize) -> Result<()> {
        let mem = enter_mem();
        self.device.device_synchronize(Duration::MAX)?;
        let bytes = self.floor.partition_bytes();
        let memory = if self.device.memory()?.free_bytes >= bytes {
            Some(self.device.allocate("partition", MemoryClass::Work, bytes)?)
        } else {
            None
        };
        drop(mem);
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        worker.memory = memory;
        let (ticket, first) = (worker.ticket, worker.step == Step::Synchronise);
        self.found_no_room += u64::from(memory.is_none() && first);
        match (memory, self.no_room) {
            (Some(memory), _) => {
                worker.step = Step::Upload;
                worker.execution.add_uploads(self.floor.prestage(memory));
                self.floor.note(at, ticket, Life::StageStarted("prestage"));
                self.note_at(self.floor.clock.now(), at);
            }
            (None, NoRoom::FallBack) => {
                self.release(Lock::Mem);
                self.ask(at, Lock::Compute, Step::FallBack);
            }
            (None, NoRoom::WaitInside) => worker.step = Step::AwaitRoom,
        }
        Ok(())
    }

    /// All stages at once, as a worker does that waits for the device at the end only.
    fn enqueue_all(&mut self, at: usize) -> Result<()> {
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        let Some(memory) = worker.memory else { return Ok(()) };
        for stage in 1..self.floor.program.stages.len() {
            self.floor.add_stage(&mut worker.execution, memory, stage)?;
            if stage + 1 < self.floor.program.stages.len() {
                worker.execution.run_ahead();
            }
        }
        Ok(())
    }

    fn fall_back(&mut self, at: usize) -> Result<()> {
        let bytes = self.floor.partition_bytes();
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        match self.device.allocate("partition", MemoryClass::Work, bytes) {
            Ok(memory) => {
                (worker.memory, worker.step) = (Some(memory), Step::Compute);
                worker.execution.add_uploads(self.floor.prestage(memory));
                self.enqueue_all(at)?;
                self.note_at(self.now(), at);
            }
            Err(error @ Error::OutOfMemory { .. }) => {
                let life = Life::Failed { reason: error.to_string() };
                worker.step = Step::Begin;
                let ticket = worker.ticket;
                self.floor.note(at, ticket, life);
                self.failures.push(error);
                self.release(Lock::Compute);
                self.note_at(self.now(), at);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn free(&mut self, at: usize) -> Result<()> {
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        if let Some(memory) = worker.memory.take() {
            self.device.free(memory)?;
        }
        let now = self.floor.clock.now();
        let program = &self.floor.program;
        worker.step = Step::Ends;
        let ends = (worker.started + program.beside).max(now) + program.check;
        self.note_at(ends, at);
        if self.no_room == NoRoom::WaitInside {
            self.release(Lock::Mem);
        }
        self.release(Lock::Compute);
        let waiting = self.workers.iter().position(|worker| worker.step == Step::AwaitRoom);
        if let Some(waiting) = waiting {
            self.note_at(now, waiting);
        }
        Ok(())
    }

    /// Who waits for whom, if anyone waits at all.
    fn cycle(&self) -> Option<Vec<String>> {
        let holder = |lock: Lock| match lock {
            Lock::Mem => self.mem.front(),
            Lock::Compute => self.compute.front(),
        };
        let mut edges = Vec::new();
        for (at, worker) in self.workers.iter().enumerate() {
            if let Some(lock) = worker.waits {
                let whom = holder(lock).map_or("nobody".into(), |whom| format!("worker {whom}"));
                let held =
                    [Lock::Mem, Lock::Compute].into_iter().filter(|l| holder(*l) == Some(&at));
                let held: Vec<_> = held.map(|lock| format!("{lock:?}")).collect();
                edges.push(format!("worker {at}, holding {held:?}, waits for {lock:?} of {whom}"));
            }
            if worker.step == Step::AwaitRoom && worker.memory.is_none() {
                let with_room = self.workers.iter().position(|other| other.memory.is_some());
                let whom = with_room.map_or("nobody".into(), |whom| format!("worker {whom}"));
                edges.push(format!("worker {at}, holding [\"Mem\"], waits for room of {whom}"));
            }
        }
        (!edges.is_empty()).then_some(edges)
    }
}
