//! Which partition goes to which device, and when: one pure state machine for all devices.
//!
//! It owns the queue and each device's [`Admission`]. Like that, [`Core::step`] takes what
//! happened and answers what to do; it has no threads, no clock and no device, never waits and
//! never panics. The runtime and simulations drive the same code.
//!
//! * The queue is ordered by [`Ticket`]: priority, then age, then partition index ([`Order`]).
//! * A device has so many workers; the next partition goes to the least busy device that may have
//!   it. It starts when the assignments in work leave room for its own in host memory (or there
//!   are none).
//! * An attempt that computed wrongly is repeated once, on another device. One that ran on a lost
//!   device is repeated on any, after it was reopened on that one too. One that has no room on a
//!   device is tried on each other.
//! * A cancelled partition ends at once in the queue; at work it is told to stop, and ends when
//!   its worker has wiped what it held.

mod device;
mod event;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{DeviceState, Status};
pub use event::{Action, DeviceId, End, Event, Fault, Order};

use super::admission::{self, Admission, Profile, Ticket};

/// A partition whose device was lost so often is given up: it may be what kills them.
const MAX_LOSSES: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host_bytes: u64,
    on: Option<DeviceId>,
    /// Whether the device's admission knows it.
    arrived: bool,
    stopping: bool,
    /// Attempts that ended with something wrong.
    wrong: u32,
    /// Attempts that a lost device ended.
    lost: u32,
    /// Devices that computed it wrongly, can't hold it or are not to have it.
    excluded: Vec<DeviceId>,
}

/// The state of the queue and of all devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    entries: BTreeMap<Ticket, Entry>,
    devices: Vec<DeviceState>,
    host_budget_bytes: u64,
    /// Partitions at work, and the host memory of their assignments.
    at_work: usize,
    at_work_bytes: u64,
}

impl Core {
    /// A queue before devices with so many workers each, whose memories are empty as yet.
    /// [`DeviceId`] is the position in the list.
    pub fn new(workers: impl IntoIterator<Item = usize>, host_budget_bytes: u64) -> Self {
        let devices = workers.into_iter().map(DeviceState::new).collect();
        let entries = BTreeMap::new();
        Self { entries, devices, host_budget_bytes, at_work: 0, at_work_bytes: 0 }
    }

    /// Takes one event; answers what to do, in order. What makes no sense changes nothing.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Submit { ticket, host_bytes, only } => {
                self.submit(ticket, host_bytes, only, &mut actions);
            }
            Event::WantMemories { ticket } => {
                if let Some(state) = self.device_of(ticket) {
                    state.release(ticket);
                    state.remake.push_back(ticket);
                }
            }
            Event::MemoriesMade { ticket, pools } => {
                self.memories_made(ticket, pools, &mut actions);
            }
            Event::Planned { ticket, profile } => self.planned(ticket, profile, &mut actions),
            Event::WantPrestage { ticket } => {
                self.admission(ticket, admission::Event::WantPrestage { ticket }, &mut actions);
            }
            Event::WantCompute { ticket } => {
                self.admission(ticket, admission::Event::WantCompute { ticket }, &mut actions);
            }
            Event::ResidentLoaded { ticket, key } => {
                let event = admission::Event::ResidentLoaded { ticket, key };
                self.admission(ticket, event, &mut actions);
            }
            Event::StageEnded { ticket, stage } => {
                let event = admission::Event::StageEnded { ticket, stage };
                self.admission(ticket, event, &mut actions);
            }
            Event::ComputeEnded { ticket } => {
                self.admission(ticket, admission::Event::ComputeEnded { ticket }, &mut actions);
            }
            Event::Drained { ticket } => {
                self.admission(ticket, admission::Event::Finished { ticket }, &mut actions);
                if let Some(entry) = self.entries.get_mut(&ticket) {
                    entry.arrived = false;
                }
            }
            Event::GaveUp { ticket } => {
                self.admission(ticket, admission::Event::Failed { ticket }, &mut actions);
                if let Some(entry) = self.entries.get_mut(&ticket) {
                    entry.arrived = false;
                }
                if let Some(state) = self.device_of(ticket) {
                    state.forget(ticket);
                }
            }
            Event::Finished { ticket } => {
                if self.leave(ticket, &mut actions) {
                    self.end(ticket, End::Finished, &mut actions);
                }
            }
            Event::Failed { ticket, fault } => self.failed(ticket, fault, &mut actions),
            Event::Cancel { ticket } => self.cancel(ticket, &mut actions),
            Event::Stopped { ticket } => {
                if self.leave(ticket, &mut actions) {
                    self.end(ticket, End::Cancelled, &mut actions);
                }
            }
            Event::BudgetShrunk { device, pool, size_bytes } => {
                let event = admission::Event::BudgetShrunk { pool, size_bytes };
                self.admission_on(device, event, &mut actions);
            }
            Event::BudgetGrown { device, pool, size_bytes } => {
                let event = admission::Event::BudgetGrown { pool, size_bytes };
                self.admission_on(device, event, &mut actions);
            }
            Event::Lost { device } => self.lost(device, &mut actions),
            Event::Reopened { device } => {
                if let Some(state) = self.devices.get_mut(device.0) {
                    state.status = Status::Open;
                }
            }
            Event::Gone { device } => {
                if let Some(state) = self.devices.get_mut(device.0) {
                    state.status = Status::Gone;
                }
                self.strand(&mut actions);
            }
        }
        self.settle_devices(&mut actions);
        self.dispatch(&mut actions);
        actions
    }

    /// The devices' memories and who holds what.
    pub fn admission_of(&self, device: DeviceId) -> Option<&Admission> {
        self.devices.get(device.0).map(|state| &state.admission)
    }

    /// Bytes that partitions hold on a device, the residents that they read and rounding included.
    pub fn held_bytes(&self, device: DeviceId) -> u64 {
        let Some(admission) = self.admission_of(device) else { return 0 };
        admission.pool_ids().map(|pool| admission.held_bytes(pool)).sum()
    }

    /// What lies in a device's memories.
    pub fn usage(&self, device: DeviceId) -> MemoryUsage {
        let mut usage = MemoryUsage::default();
        let Some(admission) = self.admission_of(device) else { return usage };
        usage.reserved_bytes = admission.pool_ids().map(|pool| admission.capacity(pool)).sum();
        usage.held_bytes = self.held_bytes(device);
        for placement in admission.tickets().flat_map(|ticket| admission.placements(ticket)) {
            *usage.by_name.entry(placement.name).or_default() += placement.size_bytes;
        }
        usage.resident_bytes = admission.residents().map(|resident| resident.size_bytes).sum();
        usage
    }

    /// Partitions in the queue or at work.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn device_of(&mut self, ticket: Ticket) -> Option<&mut DeviceState> {
        let device = self.entries.get(&ticket)?.on?;
        self.devices.get_mut(device.0)
    }

    fn submit(
        &mut self,
        ticket: Ticket,
        host_bytes: u64,
        only: Option<DeviceId>,
        actions: &mut Vec<Action>,
    ) {
        if self.entries.contains_key(&ticket) {
            return;
        }
        let devices = (0..self.devices.len()).map(DeviceId);
        let is_excluded = |device: &DeviceId| only.is_some_and(|only| only != *device);
        let entry = Entry {
            host_bytes,
            on: None,
            arrived: false,
            stopping: false,
            wrong: 0,
            lost: 0,
            excluded: devices.filter(is_excluded).collect(),
        };
        self.entries.insert(ticket, entry);
        actions.push(Action::Queued { ticket });
        if !self.has_place(ticket) {
            self.end(ticket, End::Failed(Fault::Lost), actions);
        }
    }

    fn admission(&mut self, ticket: Ticket, event: admission::Event, actions: &mut Vec<Action>) {
        let Some(entry) = self.entries.get(&ticket).filter(|entry| entry.arrived) else { return };
        let Some(device) = entry.on else { return };
        self.admission_on(device, event, actions);
    }

    fn admission_on(
        &mut self,
        device: DeviceId,
        event: admission::Event,
        actions: &mut Vec<Action>,
    ) {
        let Some(state) = self.devices.get_mut(device.0) else { return };
        for action in state.admission.step(event) {
            match &action {
                admission::Action::Admitted { ticket } => self.set_arrived(*ticket, true),
                admission::Action::Refused { ticket, .. } => self.set_arrived(*ticket, false),
                _ => {}
            }
            actions.push(Action::On { device, action });
        }
    }

    fn set_arrived(&mut self, ticket: Ticket, arrived: bool) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.arrived = arrived;
        }
    }

    fn memories_made(
        &mut self,
        ticket: Ticket,
        pools: Vec<admission::PoolSpec>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(state) = self.device_of(ticket).filter(|state| state.remaking == Some(ticket)) {
            state.admission = Admission::new(pools);
            state.made = true;
            // What suits one suits others most often; who waited would else find it busy.
            actions.extend(state.remake.drain(..).map(|ticket| Action::LookAgain { ticket }));
        }
    }

    fn planned(&mut self, ticket: Ticket, profile: SharedProfile, actions: &mut Vec<Action>) {
        let Some(device) = self.entries.get(&ticket).and_then(|entry| entry.on) else { return };
        let Some(state) = self.devices.get_mut(device.0) else { return };
        if state.remaking == Some(ticket) && state.made {
            // Before those that wait to have the memories made anew once more.
            state.release(ticket);
            self.admission_on(device, admission::Event::Arrive { ticket, profile }, actions);
        } else {
            state.planned.push_back((ticket, profile));
        }
    }

    /// Takes a partition off its device, whatever it holds there; whether it was on one.
    fn leave(&mut self, ticket: Ticket, actions: &mut Vec<Action>) -> bool {
        let Some(entry) = self.entries.get(&ticket) else { return false };
        let Some(device) = entry.on else { return false };
        let event = match entry.stopping {
            true => admission::Event::Cancelled { ticket },
            false => admission::Event::Failed { ticket },
        };
        self.admission(ticket, event, actions);
        if let Some(entry) = self.entries.get_mut(&ticket) {
            (entry.on, entry.arrived) = (None, false);
            self.at_work = self.at_work.saturating_sub(1);
            self.at_work_bytes = self.at_work_bytes.saturating_sub(entry.host_bytes);
        }
        if let Some(state) = self.devices.get_mut(device.0) {
            state.active = state.active.saturating_sub(1);
            state.forget(ticket);
        }
        true
    }

    fn end(&mut self, ticket: Ticket, end: End, actions: &mut Vec<Action>) {
        if self.entries.remove(&ticket).is_some() {
            actions.push(Action::Ended { ticket, end });
        }
    }

    fn cancel(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        if entry.on.is_none() {
            self.end(ticket, End::Cancelled, actions);
        } else if !entry.stopping {
            entry.stopping = true;
            actions.push(Action::Stop { ticket });
        }
    }

    fn failed(&mut self, ticket: Ticket, fault: Fault, actions: &mut Vec<Action>) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        let (device, stopping) = (entry.on, entry.stopping);
        if !self.leave(ticket, actions) {
            return;
        }
        if let (Fault::Lost, Some(device)) = (fault, device) {
            self.lost(device, actions);
        }
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        if fault != Fault::Lost {
            entry.excluded.extend(device);
        }
        let again = match fault {
            Fault::Wrong => {
                entry.wrong += 1;
                entry.wrong < 2
            }
            Fault::Lost => {
                entry.lost += 1;
                entry.lost < MAX_LOSSES
            }
            // Each device says so once.
            Fault::NoRoom => true,
            Fault::Final => false,
        };
        if stopping {
            self.end(ticket, End::Cancelled, actions);
        } else if again && self.has_place(ticket) {
            actions.push(Action::Requeued { ticket, fault });
        } else {
            self.end(ticket, End::Failed(fault), actions);
        }
    }

    /// Whether some device may still take it, now or after it was reopened.
    fn has_place(&self, ticket: Ticket) -> bool {
        let Some(entry) = self.entries.get(&ticket) else { return false };
        (self.devices.iter().enumerate()).any(|(at, state)| {
            state.status != Status::Gone && !entry.excluded.contains(&DeviceId(at))
        })
    }

    fn lost(&mut self, device: DeviceId, actions: &mut Vec<Action>) {
        let Some(state) = self.devices.get_mut(device.0) else { return };
        if state.status != Status::Open {
            return;
        }
        state.status = Status::Draining;
        let there = self.entries.iter().filter(|(_, entry)| entry.on == Some(device));
        actions.extend(there.map(|(ticket, _)| Action::Abandon { ticket: *ticket }));
    }

    /// What waits for a device to be empty, or for its memories.
    fn settle_devices(&mut self, actions: &mut Vec<Action>) {
        for at in 0..self.devices.len() {
            let device = DeviceId(at);
            let Some(state) = self.devices.get_mut(at) else { continue };
            if state.status == Status::Draining && state.active == 0 {
                state.status = Status::Reopening;
                state.admission = Admission::new([]);
                actions.push(Action::Reopen { device });
            }
            if state.remaking.is_none()
                && !state.remake.is_empty()
                && state.admission.tickets().next().is_none()
            {
                state.remaking = state.remake.pop_front();
                actions
                    .extend(state.remaking.map(|ticket| Action::MakeMemories { ticket, device }));
            }
            // Who waits for larger memories goes first, or it would wait for ever.
            while let Some(state) = self.devices.get_mut(at)
                && state.remaking.is_none()
                && state.remake.is_empty()
                && let Some((ticket, profile)) = state.planned.pop_front()
            {
                let event = admission::Event::Arrive { ticket, profile };
                self.admission_on(device, event, actions);
            }
        }
    }

    /// Ends what no device will ever take.
    fn strand(&mut self, actions: &mut Vec<Action>) {
        let queued = self.entries.iter().filter(|(_, entry)| entry.on.is_none());
        let tickets: Vec<Ticket> = queued.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            if !self.has_place(ticket) {
                self.end(ticket, End::Failed(Fault::Lost), actions);
            }
        }
    }

    fn dispatch(&mut self, actions: &mut Vec<Action>) {
        let takes =
            |state: &DeviceState| state.status == Status::Open && state.active < state.workers;
        for (ticket, entry) in &mut self.entries {
            if !self.devices.iter().any(takes) {
                return;
            }
            if entry.on.is_some() {
                continue;
            }
            let free = self
                .devices
                .iter_mut()
                .enumerate()
                .filter(|(at, state)| takes(state) && !entry.excluded.contains(&DeviceId(*at)));
            let Some((at, state)) = free.min_by_key(|(_, state)| state.active) else { continue };
            let host_bytes = self.at_work_bytes.saturating_add(entry.host_bytes);
            if self.at_work > 0 && host_bytes > self.host_budget_bytes {
                // The younger wait too, or the oldest might wait for ever.
                return;
            }
            state.active += 1;
            entry.on = Some(DeviceId(at));
            self.at_work += 1;
            self.at_work_bytes = host_bytes;
            actions.push(Action::Dispatch { ticket: *ticket, device: DeviceId(at) });
        }
    }
}

/// What lies in a device's memories, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Taken from the driver for partitions.
    pub reserved_bytes: u64,
    /// Held by partitions, the residents that they read and rounding included.
    pub held_bytes: u64,
    /// The most that was ever held at once.
    pub peak_bytes: u64,
    /// Queries that stay, whether a partition reads them now or not.
    pub resident_bytes: u64,
    /// Buffers of partitions by name, before rounding. Two buffers of one partition that never
    /// live at once may share a place; both are counted.
    pub by_name: BTreeMap<&'static str, u64>,
}

/// A profile as the core takes it.
pub type SharedProfile = Arc<Profile>;
