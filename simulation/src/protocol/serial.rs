//! One lock: whoever has it stages and computes one partition, in memory taken once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock::scheduler::events::Life;
use twinlock_api::{MemoryClass, Region, Result};
use twinlock_sim::SimCard;

use super::workers::{Floor, Shop};
use crate::agenda::Agenda;
use crate::execution::{Execution, Progress};
use crate::record::Record;

#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    /// Has the lock, at this stage.
    Stage(usize),
    /// Assembles and checks.
    Ends,
}

struct Worker {
    step: Step,
    ticket: Ticket,
    started: Duration,
    execution: Execution,
}

struct Serial {
    floor: Floor,
    memory: Region,
    agenda: Agenda<usize>,
    workers: Vec<Worker>,
    /// Who has the lock (first) and who waits for it.
    lock: VecDeque<usize>,
    left: u64,
    next: u64,
}

/// Plays it to the end: the events and the card.
///
/// # Errors
/// What the device answers.
pub fn play(shop: &Shop) -> Result<(Record, Arc<SimCard>)> {
    let mut floor = Floor::new(shop)?;
    let bytes = floor.partition_bytes();
    let opened = floor.opened()?;
    let device = opened.device.clone();
    let memory = twinlock_api::Device::allocate(&*device, "memory", MemoryClass::Work, bytes)?;
    let mut workers = Vec::new();
    let mut agenda = Agenda::default();
    let now = floor.clock.now();
    for at in 0..shop.workers {
        let execution = Execution::new(Ticket(at as u64), floor.opened()?.lend_streams()?);
        workers.push(Worker { step: Step::Begin, ticket: Ticket(0), started: now, execution });
        agenda.note(now, at);
    }
    let (lock, left, next) = (VecDeque::new(), shop.partitions, 0);
    let mut serial = Serial { floor, memory, agenda, workers, lock, left, next };
    while let Some((at, worker)) = serial.agenda.pop() {
        serial.floor.clock.advance_to(at);
        serial.go_on(worker)?;
    }
    Ok((serial.floor.record, serial.floor.card.sim))
}

impl Serial {
    fn go_on(&mut self, at: usize) -> Result<()> {
        let now = self.floor.clock.now();
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        match worker.step {
            Step::Begin => {
                if self.left == 0 {
                    return Ok(());
                }
                self.left -= 1;
                worker.ticket = Ticket(self.next);
                worker.started = now;
                worker.step = Step::Stage(0);
                self.next += 1;
                let ticket = worker.ticket;
                self.floor.note(at, ticket, Life::Started);
                self.lock.push_back(at);
                if self.lock.len() == 1 { self.enter(at) } else { Ok(()) }
            }
            Step::Stage(stage) => {
                match worker.execution.go_on(self.floor.card.opened()?, true)? {
                    Progress::Until(time) => self.agenda.note(time, at),
                    Progress::Done => self.stage_ended(at, stage)?,
                }
                Ok(())
            }
            Step::Ends => {
                worker.step = Step::Begin;
                let ticket = worker.ticket;
                self.floor.note(at, ticket, Life::Done);
                self.agenda.note(now, at);
                Ok(())
            }
        }
    }

    /// Has the lock.
    fn enter(&mut self, at: usize) -> Result<()> {
        let views = self.floor.prestage(self.memory);
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        worker.execution.add_uploads(views);
        let ticket = worker.ticket;
        self.floor.note(at, ticket, Life::ComputeStarted);
        self.floor.note(at, ticket, Life::StageStarted("prestage"));
        self.agenda.note(self.floor.clock.now(), at);
        Ok(())
    }

    fn stage_ended(&mut self, at: usize, stage: usize) -> Result<()> {
        let program = self.floor.program.clone();
        let now = self.floor.clock.now();
        let Some(worker) = self.workers.get_mut(at) else { return Ok(()) };
        let ticket = worker.ticket;
        let name = |stage: usize| program.stages.get(stage).map_or("", |work| work.name);
        self.floor.note(at, ticket, Life::StageEnded(name(stage)));
        let next = stage + 1;
        if next < program.stages.len() {
            worker.step = Step::Stage(next);
            self.floor.add_stage(&mut worker.execution, self.memory, next)?;
            self.floor.note(at, ticket, Life::StageStarted(name(next)));
            self.agenda.note(now, at);
            return Ok(());
        }
        worker.step = Step::Ends;
        let ends = (worker.started + program.beside).max(now) + program.check;
        self.agenda.note(ends, at);
        self.floor.note(at, ticket, Life::ComputeEnded);
        self.lock.pop_front();
        match self.lock.front().copied() {
            Some(next) => self.enter(next),
            None => Ok(()),
        }
    }
}
