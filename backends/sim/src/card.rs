//! A card: what outlives the devices opened on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::layout::{FR_BYTES, MAX_LG_DOMAIN};
use twinlock_api::{DeviceInfo, Error, Result};

use crate::clock::Clock;
use crate::config::SimConfig;
use crate::context::Context;
use crate::device::SimDevice;
use crate::engine::Engine;
use crate::faults::{Counts, Fault, FaultPlan, Faults};
use crate::log::{Lane, Log, Span};
use crate::mem_guard::{self, OnViolation, Violation};
use crate::memory::Ledger;
use crate::races::Race;

/// The most races that are kept: more are the same mistake again.
const MAX_RACES: usize = 1_000;

/// A simulated card. Devices are opened on it, at most one at a time in most tests; its memory,
/// engines, faults and records are shared by all of them and outlive each.
#[derive(Debug)]
pub struct SimCard {
    config: SimConfig,
    clock: Clock,
    info: DeviceInfo,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) compute: Engine,
    pub(crate) upload: Engine,
    pub(crate) download: Engine,
    pub(crate) memory: Ledger,
    pub(crate) faults: Faults,
    pub(crate) contexts: BTreeMap<u64, Context>,
    opened: u64,
    /// When a running operation takes the card down.
    pub(crate) lost_by_op: Option<Duration>,
    losses: u64,
    keeps_spans: bool,
    spans: Vec<Span>,
    violations: Vec<Violation>,
    races: Vec<Race>,
}

impl SimCard {
    /// A card at the time that `clock` shows.
    pub fn new(config: SimConfig, clock: Clock) -> Arc<Self> {
        let usable_bytes = config.memory_bytes.saturating_sub(config.context_bytes);
        let lg_fits = (config.memory_bytes / FR_BYTES).max(1).ilog2();
        let lg_sizes = config.arithmetic.sizes().map_or(MAX_LG_DOMAIN, |d| d.info().max_lg_domain);
        let info = DeviceInfo {
            name: config.name.clone(),
            backend: crate::backend::NAME,
            model: "simulated card".into(),
            driver: "none".into(),
            memory_bytes: config.memory_bytes,
            max_region_bytes: usable_bytes,
            max_lg_domain: MAX_LG_DOMAIN.min(lg_fits).min(lg_sizes),
        };
        let mut state = State {
            compute: Engine::new(config.compute_order),
            upload: Engine::new(config.copy_order),
            download: Engine::new(config.copy_order),
            memory: Ledger::new(config.memory_bytes),
            faults: Faults::new(config.faults.clone()),
            contexts: BTreeMap::new(),
            opened: 0,
            lost_by_op: None,
            losses: 0,
            keeps_spans: config.keeps_spans,
            spans: Vec::new(),
            violations: Vec::new(),
            races: Vec::new(),
        };
        state.ask_others();
        Arc::new(Self { config, clock, info, state: Mutex::new(state) })
    }

    /// Opens a device: a fresh context, whose bytes are in use from now on.
    ///
    /// # Errors
    /// `OutOfMemory` when the context finds no room, `DeviceLost` for an injected fault.
    pub fn open(self: &Arc<Self>) -> Result<Arc<SimDevice>> {
        let mut state = self.enter()?;
        let now = self.clock.now();
        if state.losses > 0 && state.faults.on_reopen(now) {
            return Err(Error::DeviceLost {
                reason: "injected fault: it does not come back".into(),
            });
        }
        let requested_bytes = self.config.context_bytes;
        state.memory.take(requested_bytes, now).map_err(|free| Error::OutOfMemory {
            what: format!("context of {}", self.config.name),
            requested_bytes,
            free_bytes: Some(free),
        })?;
        state.opened += 1;
        let id = state.opened;
        let inner = self.config.arithmetic.device().cloned();
        state.contexts.insert(id, Context::new(inner, requested_bytes));
        drop(state);
        Ok(Arc::new(SimDevice::new(self.clone(), id)))
    }

    /// What it was made of.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// What a device on it says it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What happened when.
    pub fn log(&self) -> Log {
        let mut state = self.lock();
        state.memory.others_until(self.clock.now());
        Log { spans: state.spans.clone(), memory: state.memory.samples().to_vec() }
    }

    /// Calls that broke the rule of [`crate::enter_mem`].
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Uses of the same bytes with no order between them (the first thousand).
    pub fn races(&self) -> Vec<Race> {
        self.lock().races.clone()
    }

    /// The plan of its faults: printed, it replays the run.
    pub fn fault_plan(&self) -> FaultPlan {
        self.lock().faults.plan().clone()
    }

    /// Adds a fault to the plan, e.g. the failure of the next operation:
    /// `Fault::KernelFailed { op: card.counts().ops }`.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.lock();
        state.faults.add(fault);
        state.ask_others();
    }

    /// How much it has been asked for so far.
    pub fn counts(&self) -> Counts {
        self.lock().faults.counts()
    }

    /// The faults that have happened, and when.
    pub fn faults_fired(&self) -> Vec<(Duration, Fault)> {
        self.lock().faults.fired()
    }

    /// How often it was lost.
    pub fn losses(&self) -> u64 {
        self.lock().losses
    }

    /// Bytes that devices opened on it hold now: contexts, regions, pools.
    pub fn held_bytes(&self) -> u64 {
        self.lock().memory.samples().last().map_or(0, |sample| sample.held_bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // State is changed only after all checks, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as of now.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        state.tick(self.clock.now());
        Ok(state)
    }

    /// Records a call that goes to the allocator or may wait until `done`, if `mem` is held.
    pub(crate) fn check_rule(
        &self,
        state: &mut State,
        call: &'static str,
        subject: &'static str,
        done: Duration,
    ) -> Result<()> {
        if !mem_guard::is_held() {
            return Ok(());
        }
        let at = self.clock.now();
        state.violations.push(Violation { call, subject, at, waits: done.saturating_sub(at) });
        match self.config.on_violation {
            OnViolation::Record => Ok(()),
            OnViolation::Refuse => {
                Err(Error::invalid(format!("{call} of {subject:?} while mem is held")))
            }
        }
    }

    /// Lets time pass to `done`, or to a loss or `deadline` before it.
    pub(crate) fn pass_until(
        &self,
        state: &mut State,
        done: Duration,
        deadline: Duration,
    ) -> Result<(), Waited> {
        let target = done.min(deadline);
        let loss = state.next_loss().filter(|loss| *loss <= target);
        self.clock.advance_to(loss.unwrap_or(target));
        state.tick(self.clock.now());
        if loss.is_some() {
            return Err(Waited::Lost);
        }
        if done > self.clock.now() { Err(Waited::TooLong) } else { Ok(()) }
    }
}

/// Why a wait ended before the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Lost,
    TooLong,
}

impl State {
    /// The context of an open device.
    pub(crate) fn context(&mut self, id: u64) -> Result<&mut Context> {
        self.contexts.get_mut(&id).ok_or_else(lost)
    }

    /// Lets the plan's other processes into the ledger.
    fn ask_others(&mut self) {
        for (from, until, bytes) in self.faults.other_processes() {
            self.memory.add_other(from, until, bytes);
        }
    }

    fn next_loss(&self) -> Option<Duration> {
        self.lost_by_op.into_iter().chain(self.faults.next_loss()).min()
    }

    /// Lets happen what is due at `now`.
    fn tick(&mut self, now: Duration) {
        if let Some(at) = self.next_loss().filter(|at| *at <= now) {
            self.lose(at, now);
        }
        self.memory.others_until(now);
    }

    /// Every context dies, and with them all handles; the memory is free again.
    fn lose(&mut self, at: Duration, now: Duration) {
        self.faults.lost(now);
        self.lost_by_op = None;
        self.losses += 1;
        for context in std::mem::take(&mut self.contexts).into_values() {
            self.memory.give(context.held_bytes(), now);
        }
        for engine in [&mut self.compute, &mut self.upload, &mut self.download] {
            engine.reset(at);
        }
        self.spans.retain(|span| span.lane == Lane::Host || span.start < at);
        for span in &mut self.spans {
            if span.lane != Lane::Host {
                span.end = span.end.min(at);
            }
        }
    }

    /// Ends a context; its work has ended.
    pub(crate) fn close(&mut self, id: u64, now: Duration) {
        if let Some(context) = self.contexts.remove(&id) {
            self.memory.give(context.held_bytes(), now);
        }
    }

    pub(crate) fn add_span(&mut self, span: Span) {
        if self.keeps_spans {
            self.spans.push(span);
        }
    }

    pub(crate) fn add_races(&mut self, races: impl IntoIterator<Item = Race>) {
        let room = MAX_RACES.saturating_sub(self.races.len());
        self.races.extend(races.into_iter().take(room));
    }
}

/// What every call on a dead device answers.
pub(crate) fn lost() -> Error {
    Error::DeviceLost { reason: "the simulated card was lost; reopen it".into() }
}
