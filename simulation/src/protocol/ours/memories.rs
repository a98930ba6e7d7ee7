//! A partition's way into the order of its card: memories, plans, admission.

use twinlock::scheduler::admission::{PoolId, PoolSpec, Ticket};
use twinlock::scheduler::core::{DeviceId, Event, Fault};
use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Device, Error, MemoryClass};

use super::{Ours, Phase, Sabotage};
use crate::check::Broken;

fn pool(capacity_bytes: u64) -> PoolSpec {
    PoolSpec { capacity_bytes, align_bytes: ARENA_ALIGN_BYTES }
}

/// How often a smaller memory is tried when the driver has less than it said.
const SMALLER_ATTEMPTS: u32 = 3;

impl Ours {
    /// Asks for a place by the first plan, or for memories where there are none.
    pub(super) fn want_place(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(site) = self.site_of(ticket) else { return Ok(()) };
        let Some(opened) = &site.card.opened else {
            return self.failed(ticket, &crate::card::not_open());
        };
        if opened.memories.is_empty() {
            return self.want_memories(ticket);
        }
        self.want_admission(ticket)
    }

    fn want_memories(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let made = self.site_of(ticket).map_or(0, |site| site.memories_made);
        if let Some(part) = self.parts.get_mut(&ticket) {
            (part.phase, part.asked_memories) = (Phase::AwaitMemories, Some(made));
        }
        self.post(Event::WantMemories { ticket })
    }

    fn want_admission(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(program) = self.program(ticket) else {
            return self.wind_up(ticket, Event::Failed { ticket, fault: Fault::NoRoom });
        };
        if let Some(part) = self.parts.get_mut(&ticket) {
            (part.phase, part.desk.admitted) = (Phase::AwaitAdmission, None);
        }
        self.post(Event::Planned { ticket, profile: program.profile.clone() })
    }

    pub(super) fn await_memories(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let looks =
            self.parts.get_mut(&ticket).map(|part| std::mem::take(&mut part.desk.look_again));
        if looks == Some(true) {
            return self.want_place(ticket);
        }
        let asked =
            self.parts.get_mut(&ticket).map(|part| std::mem::take(&mut part.desk.make_memories));
        if asked != Some(true) {
            return Ok(());
        }
        if self.scene.sabotage == Sabotage::KeepMemory
            && let Some(opened) = self.site_of(ticket).and_then(|site| site.card.opened.as_ref())
        {
            let _ = opened.device.allocate("kept", MemoryClass::Work, ARENA_ALIGN_BYTES);
        }
        let asked = self.parts.get(&ticket).and_then(|part| part.asked_memories);
        let Some(site) = self.site_of(ticket) else { return Ok(()) };
        let are_there = site.card.opened.iter().any(|opened| !opened.memories.is_empty());
        if are_there && asked.is_some_and(|asked| asked < site.memories_made) {
            // Another made them meanwhile.
            return self.keep_memories(ticket);
        }
        let made = self.make_memories(ticket);
        let factor = if self.scene.sabotage == Sabotage::ClaimMore { 2 } else { 1 };
        let Some(site) = self.site_of(ticket) else { return Ok(()) };
        let memories = site.card.opened.iter().flat_map(|opened| &opened.memories);
        let pools = memories.map(|region| pool(region.size_bytes() * factor)).collect();
        if let Err(error @ Error::DeviceLost { .. }) = made {
            return self.failed(ticket, &error);
        }
        self.post(Event::MemoriesMade { ticket, pools })?;
        match made {
            Ok(()) => self.want_admission(ticket),
            Err(error) => self.failed(ticket, &error),
        }
    }

    /// Says that the memories are as they were.
    fn keep_memories(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let device = self.parts.get(&ticket).and_then(|part| part.device).map(DeviceId);
        let admission = device.and_then(|device| self.core.admission_of(device));
        let pools = [0, 1].map(PoolId).into_iter();
        let pools = pools.filter_map(|id| admission.map(|admission| pool(admission.capacity(id))));
        let pools = pools.collect();
        self.post(Event::MemoriesMade { ticket, pools })?;
        self.want_admission(ticket)
    }

    /// Takes as much as the card's pools are meant to have of what the driver has, less if it
    /// turns out to have less.
    fn make_memories(&mut self, ticket: Ticket) -> Result<(), Error> {
        let Some(site) = self.site_of(ticket) else { return Ok(()) };
        site.loaded.clear();
        site.card.free_memories()?;
        for attempt in 0..=SMALLER_ATTEMPTS {
            let mut free_bytes = site.card.free_bytes()? >> attempt;
            let mut sizes: Vec<(MemoryClass, u64)> = Vec::new();
            for wish in site.spec.pools.iter().rev() {
                let share_bytes = (u128::from(free_bytes) * u128::from(wish.share) / 256) as u64;
                // What another process wants now is not taken again.
                let pool = site.spec.pools.len() - 1 - sizes.len();
                let pressed_bytes = site.pressed_bytes.get(pool).copied().unwrap_or(0);
                let size_bytes = share_bytes.min(wish.most_bytes).saturating_sub(pressed_bytes);
                let size_bytes = size_bytes / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
                free_bytes -= size_bytes.min(free_bytes);
                sizes.push((wish.class, size_bytes.max(ARENA_ALIGN_BYTES)));
            }
            sizes.reverse();
            match site.card.make_memories(&sizes) {
                Err(Error::OutOfMemory { .. }) if attempt < SMALLER_ATTEMPTS => {}
                Ok(()) => {
                    site.memories_made += 1;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn await_admission(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        match part.desk.admitted.take() {
            None => Ok(()),
            Some(true) => self.begin_staging(ticket),
            Some(false) => {
                part.plan += 1;
                let asked = part.asked_memories;
                if self.program(ticket).is_some() {
                    return self.want_admission(ticket);
                }
                if let Some(part) = self.parts.get_mut(&ticket) {
                    part.plan = 0;
                }
                // The driver may have more by now than when the memories were made.
                if asked.is_some() {
                    return self.wind_up(ticket, Event::Failed { ticket, fault: Fault::NoRoom });
                }
                self.want_memories(ticket)
            }
        }
    }

    fn site_of(&mut self, ticket: Ticket) -> Option<&mut super::Site> {
        let device = self.parts.get(&ticket)?.device?;
        self.sites.get_mut(device)
    }
}
