//! The scheduler as it is: [`Core`] decides, this does what it says.

mod apply;
mod attempt;
mod memories;
mod outside;
mod stages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::{Placement, PoolId, ResidentKey, ResidentPlacement, Ticket};
use twinlock::scheduler::core::{Core, DeviceId, End, Event};
use twinlock::scheduler::events::Life;
use twinlock_api::{MemoryClass, View};
use twinlock_sim::{Clock, SimConfig, enter_mem};

use crate::agenda::Agenda;
use crate::card::{Card, SlotSpec};
use crate::check::{Broken, Watch};
use crate::execution::Execution;
use crate::program::Program;
use crate::record::Record;

/// A card and how its workers use it.
#[derive(Debug, Clone)]
pub struct CardSpec {
    /// The hardware, with its faults.
    pub config: SimConfig,
    /// Workers.
    pub workers: usize,
    /// Staging.
    pub slots: SlotSpec,
    /// The memories to make, in the order of their pools; the last takes its share first.
    pub pools: Vec<PoolWish>,
    /// How often a lost card is tried before it is given up.
    pub open_attempts: u32,
}

/// What a memory should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolWish {
    /// What for.
    pub class: MemoryClass,
    /// Its share, in 256ths, of what the driver has and the pools after it leave.
    pub share: u64,
    /// At most this.
    pub most_bytes: u64,
}

/// A partition to prove.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its place in the queue.
    pub ticket: Ticket,
    /// Bytes of its assignment.
    pub host_bytes: u64,
    /// When it is submitted.
    pub at: Duration,
    /// When somebody wants it stopped.
    pub cancelled_at: Option<Duration>,
    /// Its plans for each card, the preferred first.
    pub plans: Vec<Vec<Arc<Program>>>,
}

/// Another process wants memory of a card for a while, and the budget is to shrink for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Which card.
    pub card: usize,
    /// Which memory.
    pub pool: PoolId,
    /// How much.
    pub size_bytes: u64,
    /// From when.
    pub from: Duration,
    /// To when.
    pub until: Duration,
}

/// A rule that the workers break on purpose, to show that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Memory is said to be free before the work on it is complete.
    ReleaseEarly,
    /// A finished partition says nothing.
    ForgetRelease,
    /// Memory is taken from the driver under `mem`.
    AllocateUnderMem,
    /// A kernel reaches past what its buffer was given.
    ReachTooFar,
    /// Kernels start without `compute`.
    ComputeUnasked,
    /// A buffer is not used though it was reserved.
    LeaveUnused,
    /// Memories are said to be larger than they are.
    ClaimMore,
    /// Device memory is taken that nobody gives back.
    KeepMemory,
    /// The same partition is submitted again after its end.
    SubmitTwice,
}

/// What to play.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The cards.
    pub cards: Vec<CardSpec>,
    /// The partitions.
    pub jobs: Vec<Job>,
    /// Other processes.
    pub pressures: Vec<Pressure>,
    /// Host memory for assignments in work.
    pub host_budget_bytes: u64,
    /// A rule to break.
    pub sabotage: Sabotage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Submit(usize),
    Cancel(Ticket),
    GoOn(Ticket),
    Reopen(usize),
    Shrink(usize),
    Grow(usize),
}

/// Where a partition's worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Synthesis(Duration),
    AwaitMemories,
    AwaitAdmission,
    /// Stages ahead, waits for memory and for `compute`.
    Prepare,
    /// Runs a stage under `compute`.
    Stage(usize),
    Drain(usize),
    Check(Duration),
    /// Waits for its work to end, then wipes.
    Settle,
    Wipe,
}

/// What the core has said to a partition's worker.
#[derive(Debug, Default)]
struct Desk {
    stop: bool,
    abandon: bool,
    make_memories: bool,
    look_again: bool,
    admitted: Option<bool>,
    reserved: bool,
    granted: bool,
    /// Memory went back since it last asked.
    released: bool,
}

struct Part {
    job: usize,
    desk: Desk,
    phase: Phase,
    device: Option<usize>,
    worker: usize,
    started: Duration,
    /// Which of its plans for this card is used.
    plan: usize,
    /// If it asked for other memories in this attempt, how often they had been made before.
    asked_memories: Option<u64>,
    asked_prestage: bool,
    asked_compute: bool,
    placements: BTreeMap<usize, Placement>,
    residents: BTreeMap<ResidentKey, ResidentPlacement>,
    /// Buffers of the prestage whose bytes are there or on their way.
    staged: BTreeSet<usize>,
    used: BTreeSet<usize>,
    is_staging: bool,
    /// A resident that it loads.
    loads: Option<ResidentKey>,
    execution: Option<Execution>,
    /// A bit of its data was flipped.
    spoilt: bool,
    /// What is said once all is wiped.
    then: Option<Event>,
    wake: Option<Duration>,
}

struct Site {
    card: Card,
    spec: CardSpec,
    name: String,
    busy_workers: BTreeSet<usize>,
    /// Residents whose bytes are there.
    loaded: BTreeSet<ResidentKey>,
    loading: BTreeMap<ResidentKey, Ticket>,
    open_attempts: u32,
    is_gone: bool,
    memories_made: u64,
    held_bytes: u64,
    /// What other processes want of each memory.
    pressed_bytes: [u64; 2],
}

/// A scene being played.
pub struct Ours {
    clock: Clock,
    agenda: Agenda<Wake>,
    core: Core,
    sites: Vec<Site>,
    parts: BTreeMap<Ticket, Part>,
    scene: Scene,
    record: Record,
    watch: Watch,
}

/// What came of a scene.
#[derive(Debug)]
pub struct Played {
    /// The events.
    pub record: Record,
    /// How each partition ended.
    pub ends: BTreeMap<Ticket, End>,
    /// The cards, for their logs.
    pub cards: Vec<Arc<twinlock_sim::SimCard>>,
    /// Whether each card is given up.
    pub gone: Vec<bool>,
    /// How often a memory's budget shrank.
    pub shrunk: u64,
    /// How often a resident was evicted.
    pub evicted: u64,
    /// When the last event was.
    pub ended: Duration,
    /// Steps of the core.
    pub steps: u64,
}

/// Plays a scene to its end.
///
/// # Errors
/// What the checks found.
pub fn play(scene: Scene) -> Result<Played, Broken> {
    let mut ours = Ours::new(scene)?;
    while let Some((at, wake)) = ours.agenda.pop() {
        ours.clock.advance_to(at);
        ours.wake(at, wake)?;
    }
    ours.close()
}

impl Ours {
    fn new(scene: Scene) -> Result<Self, Broken> {
        let clock = Clock::new();
        let mut sites = Vec::new();
        for spec in &scene.cards {
            let card = Card::new(spec.config.clone(), &clock, spec.slots);
            let card = card.map_err(|error| Broken::Setup(error.to_string()))?;
            sites.push(Site {
                card,
                spec: spec.clone(),
                name: spec.config.name.clone(),
                busy_workers: BTreeSet::new(),
                loaded: BTreeSet::new(),
                loading: BTreeMap::new(),
                open_attempts: 0,
                is_gone: false,
                memories_made: 0,
                held_bytes: 0,
                pressed_bytes: [0; 2],
            });
        }
        let workers = scene.cards.iter().map(|spec| spec.workers);
        let core = Core::new(workers, scene.host_budget_bytes);
        let mut agenda = Agenda::default();
        for (at, job) in scene.jobs.iter().enumerate() {
            agenda.note(job.at, Wake::Submit(at));
            if let Some(time) = job.cancelled_at {
                agenda.note(time.max(job.at), Wake::Cancel(job.ticket));
            }
        }
        for (at, pressure) in scene.pressures.iter().enumerate() {
            agenda.note(pressure.from, Wake::Shrink(at));
        }
        let watch = Watch::new(sites.len());
        let (parts, record) = (BTreeMap::new(), Record::default());
        Ok(Self { clock, agenda, core, sites, parts, scene, record, watch })
    }

    fn wake(&mut self, at: Duration, wake: Wake) -> Result<(), Broken> {
        match wake {
            Wake::Submit(job) => self.submit(job),
            Wake::Cancel(ticket) => self.post(Event::Cancel { ticket }),
            Wake::GoOn(ticket) => {
                let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
                if part.wake != Some(at) {
                    // A later or an earlier one took its place.
                    return Ok(());
                }
                part.wake = None;
                self.go_on(ticket)
            }
            Wake::Reopen(site) => self.reopen(site),
            Wake::Shrink(pressure) => self.shrink(pressure),
            Wake::Grow(pressure) => self.grow(pressure),
        }
    }

    /// Lets a worker go on at `at`, unless it does so earlier anyway.
    fn wake_at(&mut self, ticket: Ticket, at: Duration) {
        let at = at.max(self.clock.now());
        if let Some(part) = self.parts.get_mut(&ticket)
            && part.wake.is_none_or(|other| at < other)
        {
            part.wake = Some(at);
            self.agenda.note(at, Wake::GoOn(ticket));
        }
    }

    fn wake_now(&mut self, ticket: Ticket) {
        self.wake_at(ticket, self.clock.now());
    }

    /// Takes an event through the core under `mem`, and does what it says.
    fn post(&mut self, event: Event) -> Result<(), Broken> {
        let mem = enter_mem();
        let actions = self.core.step(event.clone());
        if self.scene.sabotage == Sabotage::AllocateUnderMem
            && let Some(opened) = self.sites.first().and_then(|site| site.card.opened.as_ref())
            && let Ok(region) =
                twinlock_api::Device::allocate(&*opened.device, "rogue", MemoryClass::Work, 256)
        {
            let _ = twinlock_api::Device::free(&*opened.device, region);
        }
        drop(mem);
        self.watch.steps += 1;
        for action in actions {
            self.apply(action, &event)?;
        }
        for at in 0..self.sites.len() {
            self.watch.memory(&self.core, DeviceId(at))?;
        }
        self.note_memory();
        Ok(())
    }

    fn life(&mut self, ticket: Ticket, life: Life) {
        let part = self.parts.get(&ticket);
        let device = part.and_then(|part| part.device);
        let name = device.and_then(|at| self.sites.get(at)).map(|site| site.name.as_str());
        let worker = part.map_or(0, |part| part.worker);
        self.record.life(self.clock.now(), name, worker, (ticket, life));
    }

    fn program(&self, ticket: Ticket) -> Option<Arc<Program>> {
        let part = self.parts.get(&ticket)?;
        let plans = self.scene.jobs.get(part.job)?.plans.get(part.device?)?;
        plans.get(part.plan).cloned()
    }

    /// Where a buffer of a partition lies on the card.
    fn view(&self, ticket: Ticket, index: usize) -> Option<View> {
        let part = self.parts.get(&ticket)?;
        let placement = part.placements.get(&index)?;
        let site = self.sites.get(part.device?)?;
        let memories = &site.card.opened.as_ref()?.memories;
        let region = memories.get(usize::from(placement.pool.0))?;
        region.view(placement.name, placement.offset_bytes, placement.size_bytes).ok()
    }

    fn resident_view(&self, ticket: Ticket, key: ResidentKey) -> Option<View> {
        let part = self.parts.get(&ticket)?;
        let resident = part.residents.get(&key)?;
        let site = self.sites.get(part.device?)?;
        let memories = &site.card.opened.as_ref()?.memories;
        let region = memories.get(usize::from(resident.pool.0))?;
        region.view("resident", resident.offset_bytes, resident.size_bytes).ok()
    }
}
