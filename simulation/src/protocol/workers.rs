//! What the simple protocols share: workers that make one partition after the other from a fixed
//! layout.

use std::sync::Arc;
use twinlock::scheduler::admission::{PoolId, Ticket};
use twinlock::scheduler::events::Life;
use twinlock_api::{Device, MemoryClass, Region, Result, View};
use twinlock_sim::{Clock, SimConfig};

use crate::card::{Card, Opened, SlotSpec};
use crate::execution::{Execution, Progress};
use crate::program::Program;
use crate::record::Record;

/// What to play.
#[derive(Debug, Clone)]
pub struct Shop {
    /// The card.
    pub config: SimConfig,
    /// Staging.
    pub slots: SlotSpec,
    /// Workers.
    pub workers: usize,
    /// Partitions in all.
    pub partitions: u64,
    /// What each does.
    pub program: Arc<Program>,
}

/// A card, its clock and the residents, with what was noted.
pub struct Floor {
    pub(super) clock: Clock,
    pub(super) card: Card,
    pub(super) program: Arc<Program>,
    pub(super) record: Record,
    residents: Vec<View>,
}

impl Floor {
    /// Opens the card and loads the residents.
    pub(super) fn new(shop: &Shop) -> Result<Self> {
        let clock = Clock::new();
        let mut card = Card::new(shop.config.clone(), &clock, shop.slots)?;
        let opened = card.opened()?;
        let mut residents = Vec::new();
        for (_, size_bytes) in shop.program.residents() {
            let region = opened.device.allocate("resident", MemoryClass::Resident, size_bytes)?;
            residents.push(region.whole("resident")?);
        }
        let streams = opened.lend_streams()?;
        let mut loads = Execution::new(Ticket(u64::MAX), streams);
        loads.add_uploads(residents.iter().copied());
        while let Progress::Until(time) = loads.go_on(opened, false)? {
            clock.advance_to(time);
        }
        opened.take_back(streams, true);
        let (program, record) = (shop.program.clone(), Record::default());
        Ok(Self { clock, card, program, record, residents })
    }

    pub(super) fn opened(&mut self) -> Result<&mut Opened> {
        self.card.opened()
    }

    pub(super) fn note(&mut self, worker: usize, ticket: Ticket, life: Life) {
        let name = &self.card.sim.config().name;
        self.record.life(self.clock.now(), Some(name), worker, (ticket, life));
    }

    /// Where a buffer lies in a partition's memory by the plan's own layout; `bases` and what is
    /// written may be one region, one after the other.
    pub(super) fn view(&self, memory: Region, index: usize) -> Option<View> {
        let need = self.program.profile.buffers().get(index)?;
        let before = match need.pool {
            PoolId(0) => 0,
            _ => self.program.layout_bytes.first().copied()?,
        };
        let offset_bytes = before + self.program.offsets_bytes.get(index)?;
        memory.view(need.name, offset_bytes, need.size_bytes).ok()
    }

    /// Bytes of a partition's memory.
    pub(super) fn partition_bytes(&self) -> u64 {
        self.program.layout_bytes.iter().sum()
    }

    pub(super) fn prestage(&self, memory: Region) -> Vec<View> {
        let first = self.program.stages.first();
        let uploads = first.into_iter().flat_map(|work| &work.uploads);
        uploads.filter_map(|index| self.view(memory, *index)).collect()
    }

    /// Adds a stage's work to an execution.
    pub(super) fn add_stage(&self, to: &mut Execution, memory: Region, stage: usize) -> Result<()> {
        let Some(work) = self.program.stages.get(stage) else { return Ok(()) };
        let uses = self.program.touched(stage);
        let mut views: Vec<View> = uses.iter().filter_map(|at| self.view(memory, *at)).collect();
        views.extend(&self.residents);
        let is_drain = stage + 1 == self.program.stages.len();
        let touches = if is_drain { &[][..] } else { &views };
        let next = self.program.stages.get(stage + 1);
        to.add_stage(work, next, touches, |index| self.view(memory, index))
    }
}
