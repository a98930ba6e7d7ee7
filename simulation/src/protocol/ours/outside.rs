//! What comes from outside: partitions, other processes, cards that come back, the end.

use std::time::Duration;

use twinlock::scheduler::admission::PoolId;
use twinlock::scheduler::core::{DeviceId, Event};

use super::{Ours, Part, Played, Pressure, Wake};
use crate::check::{self, Broken, Watch};

/// Between two attempts to reopen a card.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

impl Ours {
    pub(super) fn submit(&mut self, job: usize) -> Result<(), Broken> {
        let Some(spec) = self.scene.jobs.get(job) else { return Ok(()) };
        let (ticket, host_bytes) = (spec.ticket, spec.host_bytes);
        self.parts.insert(ticket, Part::new(job));
        self.watch.submitted(ticket);
        self.post(Event::Submit { ticket, host_bytes, only: None })
    }

    pub(super) fn reopen(&mut self, card: usize) -> Result<(), Broken> {
        let device = DeviceId(card);
        let Some(site) = self.sites.get_mut(card) else { return Ok(()) };
        site.open_attempts += 1;
        if site.card.open().is_ok() {
            return self.post(Event::Reopened { device });
        }
        site.card.opened = None;
        if site.open_attempts >= site.spec.open_attempts {
            site.is_gone = true;
            return self.post(Event::Gone { device });
        }
        self.agenda.note(self.clock.now() + REOPEN_PAUSE, Wake::Reopen(card));
        Ok(())
    }

    pub(super) fn shrink(&mut self, at: usize) -> Result<(), Broken> {
        let Some(Pressure { card, pool, size_bytes, until, .. }) =
            self.scene.pressures.get(at).copied()
        else {
            return Ok(());
        };
        let device = DeviceId(card);
        let Some(admission) = self.core.admission_of(device) else { return Ok(()) };
        let left_bytes = admission.capacity(pool).saturating_sub(admission.owed_bytes(pool));
        let size_bytes = size_bytes.min(left_bytes);
        if size_bytes == 0 {
            return Ok(());
        }
        if let Some(pressure) = self.scene.pressures.get_mut(at) {
            pressure.size_bytes = size_bytes;
        }
        self.agenda.note(until, Wake::Grow(at));
        self.press(card, pool, |pressed| *pressed += size_bytes);
        self.post(Event::BudgetShrunk { device, pool, size_bytes })
    }

    pub(super) fn grow(&mut self, at: usize) -> Result<(), Broken> {
        let Some(Pressure { card, pool, size_bytes, .. }) = self.scene.pressures.get(at).copied()
        else {
            return Ok(());
        };
        let device = DeviceId(card);
        self.press(card, pool, |pressed| *pressed -= size_bytes.min(*pressed));
        // Memories that were made anew meanwhile owe nothing.
        let region_bytes = self.region_bytes(card, pool);
        let Some(admission) = self.core.admission_of(device) else { return Ok(()) };
        let missing_bytes =
            region_bytes.saturating_sub(admission.capacity(pool)) + admission.owed_bytes(pool);
        let size_bytes = size_bytes.min(missing_bytes);
        if size_bytes == 0 {
            return Ok(());
        }
        self.post(Event::BudgetGrown { device, pool, size_bytes })?;
        self.memory_went_back(card);
        Ok(())
    }

    fn press(&mut self, card: usize, pool: PoolId, change: impl FnOnce(&mut u64)) {
        let site = self.sites.get_mut(card);
        if let Some(pressed) = site.and_then(|site| site.pressed_bytes.get_mut(usize::from(pool.0)))
        {
            change(pressed);
        }
    }

    fn region_bytes(&self, card: usize, pool: PoolId) -> u64 {
        let opened = self.sites.get(card).and_then(|site| site.card.opened.as_ref());
        let region = opened.and_then(|opened| opened.memories.get(usize::from(pool.0)));
        region.map_or(0, |region| region.size_bytes())
    }

    pub(super) fn shrunk(
        &mut self,
        card: usize,
        pool: PoolId,
        capacity_bytes: u64,
    ) -> Result<(), Broken> {
        self.watch.shrunk += 1;
        let region_bytes = self.region_bytes(card, pool);
        if capacity_bytes > region_bytes {
            let (card, pool) = (card, pool.0);
            let (held_bytes, budget_bytes) = (capacity_bytes, region_bytes);
            return Err(Broken::OverBudget { card, pool, held_bytes, budget_bytes });
        }
        Ok(())
    }

    /// Nothing is left to do: all must have ended, and everything be given back.
    pub(super) fn close(mut self) -> Result<Played, Broken> {
        let ends = self.watch.ends().map_err(|broken| match broken {
            Broken::Stuck(what) => Broken::Stuck(format!("{what}; {}", self.picture())),
            other => other,
        })?;
        self.watch.released()?;
        if !self.core.is_empty() || !self.parts.is_empty() {
            return Err(Broken::LeftOver(format!("{} partitions in the core", self.core.len())));
        }
        for (card, site) in self.sites.iter_mut().enumerate() {
            let device = DeviceId(card);
            let held_bytes = self.core.held_bytes(device);
            let computing = self.core.admission_of(device).and_then(|a| a.computing());
            if held_bytes != 0 || computing.is_some() || !site.busy_workers.is_empty() {
                let what = format!("{held_bytes} bytes, compute {computing:?} on card {card}");
                return Err(Broken::LeftOver(what));
            }
            // A card that was lost while nobody looked has given its memory back by itself.
            let _ = site.card.free_memories();
            let context_bytes = site.card.sim.config().context_bytes;
            let alive = site
                .card
                .opened
                .as_ref()
                .is_some_and(|opened| twinlock_api::Device::memory(&*opened.device).is_ok());
            let left_bytes = site.card.sim.held_bytes();
            if left_bytes != if alive { context_bytes } else { 0 } {
                return Err(Broken::LeftOver(format!("{left_bytes} bytes on card {card}")));
            }
            check::card(&site.card.sim, site.card.promised_peak_bytes)?;
            site.card.opened = None;
            if site.card.sim.held_bytes() != 0 {
                return Err(Broken::LeftOver(format!("a context on card {card}")));
            }
        }
        let cards = self.sites.iter().map(|site| site.card.sim.clone()).collect();
        let gone = self.sites.iter().map(|site| site.is_gone).collect();
        let Watch { steps, shrunk, evicted, .. } = self.watch;
        let (record, ended) = (self.record, self.clock.now());
        Ok(Played { record, ends, cards, gone, shrunk, evicted, ended, steps })
    }

    /// Where everyone is.
    fn picture(&self) -> String {
        let parts = self.parts.iter().map(|(ticket, part)| {
            let admission = part.device.and_then(|at| self.core.admission_of(DeviceId(at)));
            let parked = admission.and_then(|admission| admission.parked(*ticket));
            format!(
                "{ticket} on {:?} in {:?}, {:?}, parked {parked:?}",
                part.device, part.phase, part.desk
            )
        });
        parts.collect::<Vec<_>>().join("; ")
    }
}
