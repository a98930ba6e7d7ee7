//! One attempt of a partition, from its dispatch to what its worker says at the end.

use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock::scheduler::core::{Event, Fault};
use twinlock::scheduler::events::Life;
use twinlock_api::op::Fill;
use twinlock_api::{Device, Error, Op};

use super::{Desk, Ours, Part, Phase, Sabotage};
use crate::check::Broken;
use crate::execution::due;

impl Part {
    pub(super) fn new(job: usize) -> Self {
        Self {
            job,
            desk: Desk::default(),
            phase: Phase::Queued,
            device: None,
            worker: 0,
            started: Duration::ZERO,
            plan: 0,
            asked_memories: None,
            asked_prestage: false,
            asked_compute: false,
            placements: Default::default(),
            residents: Default::default(),
            staged: Default::default(),
            used: Default::default(),
            is_staging: false,
            loads: None,
            execution: None,
            spoilt: false,
            then: None,
            wake: None,
        }
    }

    /// Forgets the last attempt.
    pub(super) fn begin(&mut self, device: usize, worker: usize, now: Duration) {
        *self = Self { device: Some(device), worker, started: now, ..Self::new(self.job) };
    }
}

impl Ours {
    pub(super) fn go_on(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(part) = self.parts.get(&ticket) else { return Ok(()) };
        let (phase, desk) = (part.phase, &part.desk);
        let ends = matches!(phase, Phase::Settle | Phase::Wipe | Phase::Queued);
        if desk.abandon && !matches!(phase, Phase::Queued) {
            return self.give_up(ticket, Event::Failed { ticket, fault: Fault::Lost });
        }
        // Between two stages only: a stage that runs is left to end.
        let runs = matches!(phase, Phase::Stage(_) | Phase::Drain(_));
        if desk.stop && !ends && !runs {
            return self.wind_up(ticket, Event::Stopped { ticket });
        }
        match phase {
            Phase::Queued => Ok(()),
            Phase::Synthesis(until) => {
                if self.waits_until(ticket, until) {
                    return Ok(());
                }
                self.life(ticket, Life::HostEnded("synthesis"));
                self.want_place(ticket)
            }
            Phase::AwaitMemories => self.await_memories(ticket),
            Phase::AwaitAdmission => self.await_admission(ticket),
            Phase::Prepare => self.prepare(ticket),
            Phase::Stage(stage) => self.run_stage(ticket, stage),
            Phase::Drain(stage) => self.drain(ticket, stage),
            Phase::Check(until) => {
                if self.waits_until(ticket, until) {
                    return Ok(());
                }
                self.life(ticket, Life::HostEnded("check"));
                let spoilt = self.parts.get(&ticket).is_some_and(|part| part.spoilt);
                let fault = Event::Failed { ticket, fault: Fault::Wrong };
                self.say_last(ticket, if spoilt { fault } else { Event::Finished { ticket } })
            }
            Phase::Settle => self.settle(ticket),
            Phase::Wipe => self.wipe(ticket),
        }
    }

    fn waits_until(&mut self, ticket: Ticket, until: Duration) -> bool {
        let waits = self.clock.now() < until;
        if waits {
            self.wake_at(ticket, until);
        }
        waits
    }

    /// The check, and what host work is still to end.
    pub(super) fn check(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let now = self.clock.now();
        let Some(program) = self.program(ticket) else { return Ok(()) };
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let until = (part.started + program.beside).max(now) + program.check;
        part.phase = Phase::Check(until);
        part.desk.granted = false;
        self.life(ticket, Life::HostStarted("check"));
        self.wake_at(ticket, until);
        Ok(())
    }

    /// What a device's answer means for the partition.
    pub(super) fn failed(&mut self, ticket: Ticket, error: &Error) -> Result<(), Broken> {
        let fault = match error {
            Error::DeviceLost { .. } => Fault::Lost,
            Error::KernelFailed { .. } => Fault::Wrong,
            Error::OutOfMemory { .. } | Error::ExceedsLimit { .. } => Fault::NoRoom,
            other => return Err(Broken::Nonsense(format!("{ticket}: {other}"))),
        };
        let event = Event::Failed { ticket, fault };
        if fault == Fault::Lost { self.give_up(ticket, event) } else { self.wind_up(ticket, event) }
    }

    /// Ends the attempt once all its work has ended and what it held is wiped.
    pub(super) fn wind_up(&mut self, ticket: Ticket, then: Event) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        (part.phase, part.then) = (Phase::Settle, Some(then));
        self.settle(ticket)
    }

    fn settle(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let opened = part
            .device
            .and_then(|at| self.sites.get_mut(at))
            .and_then(|site| site.card.opened.as_mut());
        if let (Some(execution), Some(opened)) = (&mut part.execution, opened) {
            match execution.give_up(opened) {
                Ok(None) => {
                    let streams = execution.streams();
                    part.execution = None;
                    opened.take_back(streams, false);
                }
                Ok(Some(time)) => {
                    self.wake_at(ticket, time);
                    return Ok(());
                }
                Err(error) => return self.failed(ticket, &error),
            }
        }
        self.wipe(ticket)
    }

    /// Zeroes all that the partition holds, on fresh streams, as often as that takes.
    fn wipe(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let indices: Vec<usize> = match self.parts.get(&ticket) {
            Some(part) => part.placements.keys().copied().collect(),
            None => return Ok(()),
        };
        let views: Vec<_> = indices.iter().filter_map(|index| self.view(ticket, *index)).collect();
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let site = part.device.and_then(|at| self.sites.get_mut(at));
        let Some(opened) = site.and_then(|site| site.card.opened.as_mut()) else {
            return self.give_up(ticket, Event::Failed { ticket, fault: Fault::Lost });
        };
        if views.is_empty() {
            let then = part.then.take();
            return then.map_or(Ok(()), |then| self.say_last(ticket, then));
        }
        let wiped = (|| -> Result<Option<Duration>, Error> {
            if part.phase != Phase::Wipe || part.execution.is_none() {
                let streams = opened.lend_streams()?;
                for view in &views {
                    opened.device.enqueue(streams.compute, &Op::Fill(Fill::zero(*view)))?;
                }
                part.execution = Some(crate::execution::Execution::new(ticket, streams));
                part.phase = Phase::Wipe;
            }
            let Some(execution) = &part.execution else { return Ok(None) };
            let event = opened.device.record(execution.streams().compute)?;
            due(&opened.device, &event)
        })();
        let streams = part.execution.as_ref().map(|execution| execution.streams());
        match wiped {
            Ok(Some(time)) => {
                self.wake_at(ticket, time);
                Ok(())
            }
            Ok(None) => {
                part.execution = None;
                streams.into_iter().for_each(|streams| opened.take_back(streams, true));
                let then = part.then.take();
                then.map_or(Ok(()), |then| self.say_last(ticket, then))
            }
            Err(Error::KernelFailed { .. }) => {
                part.execution = None;
                streams.into_iter().for_each(|streams| opened.take_back(streams, false));
                self.wake_now(ticket);
                Ok(())
            }
            Err(error) => self.failed(ticket, &error),
        }
    }

    /// Ends the attempt on a card that is lost: there is nothing left to wait for or to wipe.
    fn give_up(&mut self, ticket: Ticket, event: Event) -> Result<(), Broken> {
        if let Some(part) = self.parts.get_mut(&ticket) {
            part.execution = None;
        }
        self.say_last(ticket, event)
    }

    /// The worker is free again and says how it went.
    pub(super) fn say_last(&mut self, ticket: Ticket, event: Event) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let Some(device) = part.device else { return Ok(()) };
        if self.scene.sabotage == Sabotage::ForgetRelease && matches!(event, Event::Finished { .. })
        {
            return Ok(());
        }
        part.desk = Desk::default();
        if let Some(site) = self.sites.get_mut(device) {
            site.busy_workers.remove(&part.worker);
            site.loading.retain(|_, loader| *loader != ticket);
            if let Some(opened) = &mut site.card.opened {
                opened.slots.forget(ticket);
                if let Some(execution) = part.execution.take() {
                    opened.take_back(execution.streams(), true);
                }
            }
        }
        part.phase = Phase::Queued;
        let job = part.job;
        self.watch.handed_back(device, ticket);
        self.post(event)?;
        self.memory_went_back(device);
        if self.scene.sabotage == Sabotage::SubmitTwice {
            // Of the watch's own count nothing is changed.
            self.parts.insert(ticket, Part::new(job));
            self.post(Event::Submit { ticket, host_bytes: 0, only: None })?;
        }
        Ok(())
    }
}
