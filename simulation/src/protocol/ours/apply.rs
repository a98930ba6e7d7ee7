//! Doing what the core says.

use twinlock::scheduler::admission::{
    Action as Said, Placement, Refusal, ResidentPlacement, Ticket,
};
use twinlock::scheduler::core::{Action, DeviceId, End, Event};
use twinlock::scheduler::events::{EventKind, Life};

use super::{Desk, Ours, Phase, Wake};
use crate::check::{Broken, as_promised};

impl Ours {
    pub(super) fn apply(&mut self, action: Action, cause: &Event) -> Result<(), Broken> {
        match action {
            Action::Queued { ticket } => self.life(ticket, Life::Queued),
            Action::Dispatch { ticket, device } => self.dispatched(ticket, device)?,
            Action::MakeMemories { ticket, .. } => {
                self.tell(ticket, |desk| desk.make_memories = true);
            }
            Action::LookAgain { ticket } => self.tell(ticket, |desk| desk.look_again = true),
            Action::On { device, action } => self.said(device.0, action, cause)?,
            Action::Stop { ticket } => self.tell(ticket, |desk| desk.stop = true),
            Action::Abandon { ticket } => self.tell(ticket, |desk| desk.abandon = true),
            Action::Requeued { ticket, fault } => {
                self.life(ticket, Life::Retried { reason: format!("{fault:?}") });
                if let Some(part) = self.parts.get_mut(&ticket) {
                    (part.phase, part.device, part.wake) = (Phase::Queued, None, None);
                }
            }
            Action::Ended { ticket, end } => {
                self.watch.ended(ticket, end)?;
                self.life(
                    ticket,
                    match end {
                        End::Finished => Life::Done,
                        End::Cancelled => Life::Cancelled,
                        End::Failed(fault) => Life::Failed { reason: format!("{fault:?}") },
                    },
                );
                self.parts.remove(&ticket);
            }
            Action::Reopen { device } => self.drained(device.0),
        }
        Ok(())
    }

    fn tell(&mut self, ticket: Ticket, say: impl FnOnce(&mut Desk)) {
        if let Some(part) = self.parts.get_mut(&ticket) {
            say(&mut part.desk);
        }
        self.wake_now(ticket);
    }

    fn dispatched(&mut self, ticket: Ticket, device: DeviceId) -> Result<(), Broken> {
        let nobody = || Broken::Nonsense(format!("{ticket} is given to card {}", device.0));
        let site = self.sites.get_mut(device.0).ok_or_else(nobody)?;
        let worker = (0..).find(|worker| !site.busy_workers.contains(worker)).unwrap_or(0);
        if worker >= site.spec.workers {
            return Err(Broken::Nonsense(format!("card {} has no worker for {ticket}", device.0)));
        }
        site.busy_workers.insert(worker);
        let now = self.clock.now();
        let part = self.parts.get_mut(&ticket).ok_or_else(nobody)?;
        part.begin(device.0, worker, now);
        let synthesis = self.program(ticket).map_or_else(Default::default, |p| p.synthesis);
        if let Some(part) = self.parts.get_mut(&ticket) {
            part.phase = Phase::Synthesis(now + synthesis);
        }
        self.life(ticket, Life::Started);
        self.life(ticket, Life::HostStarted("synthesis"));
        self.wake_at(ticket, now + synthesis);
        Ok(())
    }

    /// What the admission of a card said.
    fn said(&mut self, card: usize, action: Said, cause: &Event) -> Result<(), Broken> {
        match action {
            Said::Admitted { ticket } => {
                self.life(ticket, Life::Admitted);
                self.tell(ticket, |desk| desk.admitted = Some(true));
            }
            Said::Refused { ticket, why } => {
                if !matches!(why, Refusal::NeverFits { .. } | Refusal::NoSuchPool(_)) {
                    return Err(Broken::Nonsense(format!("{ticket} is refused: {why:?}")));
                }
                self.tell(ticket, |desk| desk.admitted = Some(false));
            }
            Said::PrestageReady { ticket, placements } => {
                self.place(ticket, placements);
                self.life(ticket, Life::PrestageReady);
            }
            Said::PrestagePartial { ticket, placements, shortage } => {
                self.place(ticket, placements);
                self.life(ticket, Life::PrestagePartial(shortage));
            }
            Said::Deferred { ticket, shortage } => {
                self.life(ticket, Life::PrestageDeferred(shortage));
            }
            Said::Reserved { ticket, placements, residents } => {
                self.reserved(card, ticket, placements, residents)?;
            }
            Said::GrantCompute { ticket, placements, residents } => {
                self.reserved(card, ticket, placements, residents)?;
                self.watch.granted(card, ticket)?;
                self.tell(ticket, |desk| desk.granted = true);
            }
            Said::Released { ticket, size_bytes, .. } => {
                self.life(ticket, Life::Freed { size_bytes });
                self.memory_went_back(card);
            }
            Said::Ended { ticket, .. } => {
                self.watch.handed_back(card, ticket);
                self.memory_went_back(card);
            }
            Said::Evict { key } => {
                self.watch.evicted += 1;
                if let Some(site) = self.sites.get_mut(card) {
                    site.loaded.remove(&key);
                }
            }
            Said::Shrunk { capacity_bytes, pool, .. } => {
                self.shrunk(card, pool, capacity_bytes)?;
            }
            Said::Waits { .. } | Said::ResidentReady { .. } => {}
            Said::Ignored { why } => {
                return Err(Broken::Nonsense(format!("{cause:?} was ignored: {why:?}")));
            }
        }
        Ok(())
    }

    fn reserved(
        &mut self,
        card: usize,
        ticket: Ticket,
        placements: Vec<Placement>,
        residents: Vec<ResidentPlacement>,
    ) -> Result<(), Broken> {
        if let Some(site) = self.sites.get_mut(card) {
            // A place given anew is a place without bytes.
            for resident in residents.iter().filter(|resident| !resident.loaded) {
                site.loaded.remove(&resident.key);
            }
        }
        self.place(ticket, placements);
        if let Some(part) = self.parts.get_mut(&ticket) {
            part.residents = residents.into_iter().map(|r| (r.key, r)).collect();
        }
        self.tell(ticket, |desk| desk.reserved = true);
        self.check_promise(ticket)
    }

    fn place(&mut self, ticket: Ticket, placements: Vec<Placement>) {
        if let Some(part) = self.parts.get_mut(&ticket) {
            part.placements = placements.into_iter().map(|p| (p.buffer, p)).collect();
        }
        self.wake_now(ticket);
    }

    /// All that its profile says is placed before it computes, no more and no less.
    fn check_promise(&self, ticket: Ticket) -> Result<(), Broken> {
        let (Some(part), Some(program)) = (self.parts.get(&ticket), self.program(ticket)) else {
            return Ok(());
        };
        as_promised(ticket, &program, 0, |index| {
            part.placements.get(&index).map(|placed| (placed.pool, placed.size_bytes))
        })?;
        for (key, size_bytes) in program.residents() {
            if part.residents.get(&key).is_none_or(|placed| placed.size_bytes != size_bytes) {
                let what = format!("resident {} has no place", key.0);
                return Err(Broken::NotAsPromised { ticket, what });
            }
        }
        Ok(())
    }

    /// Those that stage ahead may find room now, and `compute` may be free.
    pub(super) fn memory_went_back(&mut self, card: usize) {
        let there: Vec<Ticket> = (self.parts.iter_mut())
            .filter(|(_, part)| part.device == Some(card) && part.phase == Phase::Prepare)
            .map(|(ticket, part)| {
                part.desk.released = true;
                *ticket
            })
            .collect();
        for ticket in there {
            self.wake_now(ticket);
        }
    }

    /// Notes how much partitions hold.
    pub(super) fn note_memory(&mut self) {
        let at = self.clock.now();
        for (card, site) in self.sites.iter_mut().enumerate() {
            let size_bytes = self.core.held_bytes(DeviceId(card));
            if size_bytes != site.held_bytes {
                site.held_bytes = size_bytes;
                self.record.note(at, Some(&site.name), 0, EventKind::MemoryHeld { size_bytes });
            }
        }
    }

    pub(super) fn drained(&mut self, card: usize) {
        let now = self.clock.now();
        if let Some(site) = self.sites.get_mut(card) {
            site.card.opened = None;
            site.loaded.clear();
            site.loading.clear();
            site.open_attempts = 0;
            self.agenda.note(now, Wake::Reopen(card));
        }
    }
}
