//! Carries the dispatcher's actions to the threads that wait for them.
//!
//! What happened is *posted*, which needs no lock of the two; whoever next looks at the state,
//! under `mem`, takes the posts through [`Core::step`]. A thread that waits does so holding
//! neither lock, and any post wakes it.

mod desk;
mod seat;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use desk::{Desk, on_device};
pub use desk::{Halt, Halted, Memories, Reserved};
pub use seat::{Duty, Seat, Turn};

use super::admission::{self, ResidentKey, Ticket};
use super::core::{Action, Core, DeviceId, End, Event, MemoryUsage};
use super::events::{EventKind, EventSink, Life, TimedEvent};
use super::locks::{LockToken, Mem};

/// The queue, the devices' memories, and the threads at work on them.
pub struct Runtime {
    mem: Mem<State>,
    inbox: Mutex<Inbox>,
    wake: Condvar,
    sinks: RwLock<Vec<Arc<dyn EventSink>>>,
    started: Instant,
    device_names: Vec<String>,
}

struct State {
    core: Core,
    desks: BTreeMap<Ticket, Desk>,
    held_bytes: Vec<u64>,
    peak_bytes: Vec<u64>,
    /// Grows when memory of a device goes back.
    releases: Vec<u64>,
    /// Who brings a resident to a device now.
    loading: BTreeMap<(DeviceId, ResidentKey), Ticket>,
    /// Lost devices that wait for somebody to open them again.
    reopen: Vec<DeviceId>,
}

#[derive(Default)]
struct Inbox {
    posts: Vec<Post>,
    /// Grows with every change of the state.
    generation: u64,
}

struct Post {
    event: Event,
    reason: String,
}

/// What there is to do for a worker.
pub enum Claim<'a> {
    /// A partition to carry.
    Carry(Seat<'a>),
    /// A lost device, which nobody uses any more, to open again; see [`Runtime::reopened`].
    Reopen(DeviceId),
}

impl Runtime {
    /// A runtime for devices of these names with so many workers each.
    pub fn new(
        devices: impl IntoIterator<Item = String>,
        workers: usize,
        host_budget_bytes: u64,
    ) -> Self {
        let device_names: Vec<String> = devices.into_iter().collect();
        let core = Core::new(device_names.iter().map(|_| workers), host_budget_bytes);
        let held_bytes = vec![0; device_names.len()];
        let (peak_bytes, releases) = (held_bytes.clone(), held_bytes.clone());
        Self {
            mem: Mem::new(State {
                core,
                desks: BTreeMap::new(),
                held_bytes,
                peak_bytes,
                releases,
                loading: BTreeMap::new(),
                reopen: Vec::new(),
            }),
            inbox: Mutex::default(),
            wake: Condvar::new(),
            sinks: RwLock::default(),
            started: Instant::now(),
            device_names,
        }
    }

    /// Tells `sink` of everything from now on.
    pub fn observe(&self, sink: Arc<dyn EventSink>) {
        self.sinks.write().unwrap_or_else(PoisonError::into_inner).push(sink);
    }

    /// Queues a partition that threads of `session` will carry. Where it does the work of another,
    /// it is given up with that one.
    pub fn submit(
        &self,
        session: u64,
        ticket: Ticket,
        host_bytes: u64,
        outer: Option<Halted>,
        token: &mut LockToken,
    ) {
        let desk = Desk { session, outer, ..Desk::default() };
        self.enqueue(desk, Event::Submit { ticket, host_bytes, only: None }, ticket, token);
    }

    /// Queues what brings a key to `device`, in a partition's stead.
    pub fn submit_load(
        &self,
        session: u64,
        ticket: Ticket,
        device: DeviceId,
        token: &mut LockToken,
    ) {
        let desk = Desk { session, loads: true, ..Desk::default() };
        let only = Some(device);
        self.enqueue(desk, Event::Submit { ticket, host_bytes: 0, only }, ticket, token);
    }

    fn enqueue(&self, desk: Desk, submit: Event, ticket: Ticket, token: &mut LockToken) {
        self.mem.lock(token).desks.insert(ticket, desk);
        self.post(submit);
        self.look(token, |_| Some(()));
    }

    /// What lies in a device's memories now.
    pub fn memory_usage(&self, device: DeviceId, token: &mut LockToken) -> MemoryUsage {
        let state = self.mem.lock(token);
        let peak_bytes = state.peak_bytes.get(device.0).copied().unwrap_or(0);
        MemoryUsage { peak_bytes, ..state.core.usage(device) }
    }

    /// Asks for a partition to be stopped.
    pub fn cancel(&self, ticket: Ticket, token: &mut LockToken) {
        self.post(Event::Cancel { ticket });
        self.look(token, |_| Some(()));
    }

    /// Says what became of a lost device: whether it works again.
    pub fn reopened(&self, device: DeviceId, works: bool) {
        self.post(if works { Event::Reopened { device } } else { Event::Gone { device } });
    }

    /// Waits for something to do: a lost device, or a partition of `session`. None when `closed`
    /// says that none will come and none is left.
    pub fn claim(
        &self,
        session: u64,
        worker: usize,
        closed: impl Fn() -> bool,
        token: &mut LockToken,
    ) -> Option<Claim<'_>> {
        enum Found {
            Partition(Ticket, DeviceId, Halted),
            Lost(DeviceId),
            Nothing,
        }
        let found = self.wait(token, |state| {
            if let Some(device) = state.reopen.pop() {
                return Some(Found::Lost(device));
            }
            let mut left = false;
            for (ticket, desk) in &mut state.desks {
                if desk.session != session || desk.ended.is_some() {
                    continue;
                }
                left = true;
                if let (Some(device), false) = (desk.device, desk.claimed) {
                    (desk.claimed, desk.worker) = (true, worker);
                    let outer = desk.outer.clone().map(Box::new);
                    let halted = Halted { signal: desk.signal.clone(), outer };
                    return Some(Found::Partition(*ticket, device, halted));
                }
            }
            (!left && closed()).then_some(Found::Nothing)
        });
        match found {
            Found::Partition(ticket, device, halted) => {
                let seat = Seat { runtime: self, ticket, device, worker, halted };
                seat.tell(Life::Started);
                Some(Claim::Carry(seat))
            }
            Found::Lost(device) => Some(Claim::Reopen(device)),
            Found::Nothing => None,
        }
    }

    /// Wakes those that wait, for something they look at has changed.
    pub fn nudge(&self) {
        self.inbox().generation += 1;
        self.wake.notify_all();
    }

    /// Waits until a partition has ended, and forgets it.
    pub fn wait_for_end(&self, ticket: Ticket, token: &mut LockToken) -> End {
        self.wait(token, |state| {
            let ended = state.desks.get(&ticket).map_or(Some(End::Cancelled), |desk| desk.ended);
            if ended.is_some() {
                state.desks.remove(&ticket);
            }
            ended
        })
    }

    /// Says that nobody waits for a partition's end: it is forgotten then. Whether it has ended.
    pub fn detach(&self, ticket: Ticket, token: &mut LockToken) -> bool {
        let mut state = self.mem.lock(token);
        let Some(desk) = state.desks.get_mut(&ticket) else { return true };
        desk.detached = true;
        let has_ended = desk.ended.is_some();
        if has_ended {
            state.desks.remove(&ticket);
        }
        has_ended
    }

    /// Whether a partition is in the queue, at work, or waited for.
    pub fn knows(&self, ticket: Ticket, token: &mut LockToken) -> bool {
        self.mem.lock(token).desks.contains_key(&ticket)
    }

    /// Forgets the partitions of a session, which have ended.
    pub fn forget(&self, session: u64, token: &mut LockToken) {
        self.mem.lock(token).desks.retain(|_, desk| desk.session != session);
    }

    fn post(&self, event: Event) {
        self.post_because(event, String::new());
    }

    fn post_because(&self, event: Event, reason: String) {
        let mut inbox = self.inbox();
        inbox.posts.push(Post { event, reason });
        inbox.generation += 1;
        drop(inbox);
        self.wake.notify_all();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Pushing and counting leave it whole, whatever panics elsewhere.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<R>(&self, token: &mut LockToken, mut ready: impl FnMut(&mut State) -> Option<R>) -> R {
        loop {
            let mut seen = 0;
            let found = self.look(token, |state| {
                seen = self.inbox().generation;
                ready(state)
            });
            if let Some(found) = found {
                return found;
            }
            let mut inbox = self.inbox();
            while inbox.generation == seen && inbox.posts.is_empty() {
                inbox = self.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes the posts through the core under `mem`, and looks at what has come of it.
    fn look<R>(
        &self,
        token: &mut LockToken,
        ready: impl FnOnce(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut told = Vec::new();
        let mut state = self.mem.lock(token);
        let since = self.started.elapsed();
        let posts = std::mem::take(&mut self.inbox().posts);
        let changed = !posts.is_empty();
        for Post { event, reason } in posts {
            if let Event::Failed { ticket, .. } = event
                && let Some(desk) = state.desks.get_mut(&ticket)
            {
                desk.reason = reason;
            }
            for action in state.core.step(event) {
                self.apply(&mut state, action, &mut told);
            }
        }
        if changed {
            self.note_memory(&mut state, &mut told);
            self.inbox().generation += 1;
        }
        let found = ready(&mut state);
        drop(state);
        let until = self.started.elapsed();
        if changed {
            self.wake.notify_all();
            let kind = EventKind::MemHeld { since };
            told.push(TimedEvent { at: until, device: None, worker: 0, kind });
        }
        for event in &told {
            self.tell(event);
        }
        found
    }

    fn apply(&self, state: &mut State, action: Action, told: &mut Vec<TimedEvent>) {
        let at = self.started.elapsed();
        let (ticket, life) = match action {
            Action::Queued { ticket } => {
                let loads = state.desks.get(&ticket).is_some_and(|desk| desk.loads);
                (ticket, (!loads).then_some(Life::Queued))
            }
            Action::Dispatch { ticket, device } => {
                if let Some(desk) = state.desks.get_mut(&ticket) {
                    desk.device = Some(device);
                }
                (ticket, None)
            }
            Action::MakeMemories { ticket, .. } => {
                if let Some(desk) = state.desks.get_mut(&ticket) {
                    desk.memories = Some(Memories::Make);
                }
                (ticket, None)
            }
            Action::LookAgain { ticket } => {
                if let Some(desk) = state.desks.get_mut(&ticket) {
                    desk.memories = Some(Memories::LookAgain);
                }
                (ticket, None)
            }
            Action::Stop { ticket } | Action::Abandon { ticket } => {
                let stop = matches!(action, Action::Stop { .. });
                if let Some(desk) = state.desks.get_mut(&ticket) {
                    desk.signal.set(if stop { Halt::Stop } else { Halt::Abandon });
                }
                (ticket, None)
            }
            Action::Requeued { ticket, .. } => {
                state.loading.retain(|_, by| *by != ticket);
                let reason = state.desks.get_mut(&ticket).map(|desk| {
                    desk.clear();
                    std::mem::take(&mut desk.reason)
                });
                (ticket, Some(Life::Retried { reason: reason.unwrap_or_default() }))
            }
            Action::Ended { ticket, end } => {
                state.loading.retain(|_, by| *by != ticket);
                let (mut reason, mut loads) = (String::new(), false);
                if let Some(desk) = state.desks.get_mut(&ticket) {
                    desk.ended = Some(end);
                    reason.clone_from(&desk.reason);
                    loads = desk.loads;
                }
                let life = match end {
                    End::Finished if loads => Life::Loaded,
                    End::Finished => Life::Done,
                    End::Cancelled => Life::Cancelled,
                    End::Failed(_) => Life::Failed { reason },
                };
                (ticket, Some(life))
            }
            Action::Reopen { device } => {
                state.reopen.push(device);
                return;
            }
            Action::On { action, device } => {
                if let (admission::Action::Released { .. }, Some(releases)) =
                    (&action, state.releases.get_mut(device.0))
                {
                    *releases += 1;
                }
                match on_device(&mut state.desks, action) {
                    Some(told) => told,
                    None => return,
                }
            }
        };
        let Some(life) = life else { return };
        let desk = state.desks.get(&ticket);
        let device = desk.and_then(|desk| desk.device).map(|device| self.name(device));
        let worker = desk.map_or(0, |desk| desk.worker);
        if life.is_end() && desk.is_some_and(|desk| desk.detached) {
            state.desks.remove(&ticket);
        }
        told.push(TimedEvent { at, device, worker, kind: EventKind::Partition(ticket, life) });
    }

    fn note_memory(&self, state: &mut State, told: &mut Vec<TimedEvent>) {
        let at = self.started.elapsed();
        for (index, last) in state.held_bytes.iter_mut().enumerate() {
            let size_bytes = state.core.held_bytes(DeviceId(index));
            if size_bytes != *last {
                *last = size_bytes;
                if let Some(peak) = state.peak_bytes.get_mut(index) {
                    *peak = size_bytes.max(*peak);
                }
                let device = Some(self.name(DeviceId(index)));
                let kind = EventKind::MemoryHeld { size_bytes };
                told.push(TimedEvent { at, device, worker: 0, kind });
            }
        }
    }

    fn name(&self, device: DeviceId) -> String {
        self.device_names.get(device.0).cloned().unwrap_or_default()
    }

    fn tell(&self, event: &TimedEvent) {
        for sink in &*self.sinks.read().unwrap_or_else(PoisonError::into_inner) {
            if catch_unwind(AssertUnwindSafe(|| sink.take(event))).is_err() {
                tracing::error!("a sink of events panicked");
            }
        }
    }
}
