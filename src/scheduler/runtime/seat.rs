//! A worker at a partition.

use super::Runtime;
use super::desk::{Desk, Halt, Halted, Memories, Reserved};
use crate::scheduler::admission::{Placement, PoolSpec, Refusal, ResidentKey, Ticket};
use crate::scheduler::core::{DeviceId, Event, Fault, SharedProfile};
use crate::scheduler::events::{EventKind, Life, TimedEvent};
use crate::scheduler::locks::{ComputeGrant, LockToken};

/// What a partition asks for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// More of its prestage: [`Seat::prestage`].
    Prestage,
    /// `compute`: [`Seat::reserve`].
    Compute,
}

/// What a partition has to do about a resident that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Nothing: its bytes are there.
    Nothing,
    /// Bring its bytes, and say so with [`Seat::resident_loaded`].
    Load,
}

/// A worker's place at one partition, for one attempt.
pub struct Seat<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) ticket: Ticket,
    pub(super) device: DeviceId,
    pub(super) worker: usize,
    pub(super) halted: Halted,
}

impl Seat<'_> {
    /// The partition.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Where the attempt runs.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Whether the partition is to be given up.
    pub fn halted(&self) -> Option<Halt> {
        self.halted.get()
    }

    /// The same, for who does the work of this partition.
    pub fn halting(&self) -> Halted {
        self.halted.clone()
    }

    /// Tells the sinks.
    pub fn tell(&self, life: Life) {
        let device = Some(self.runtime.name(self.device));
        let at = self.runtime.started.elapsed();
        let kind = EventKind::Partition(self.ticket, life);
        self.runtime.tell(&TimedEvent { at, device, worker: self.worker, kind });
    }

    /// Says what happened to the partition.
    pub fn post(&self, event: Event) {
        self.runtime.post(event);
    }

    /// Says that the attempt failed; what it held is wiped.
    pub fn fail(&self, fault: Fault, reason: String) {
        self.runtime.post_because(Event::Failed { ticket: self.ticket, fault }, reason);
    }

    /// Partitions in the queue or at work.
    pub fn crowd(&self, token: &mut LockToken) -> usize {
        self.runtime.look(token, |state| Some(state.core.len())).unwrap_or(1)
    }

    /// Waits until the device's memories are empty and this worker may make them anew, or another
    /// has.
    ///
    /// # Errors
    /// To be given up.
    pub fn await_memories(&self, token: &mut LockToken) -> Result<Memories, Halt> {
        self.runtime.post(Event::WantMemories { ticket: self.ticket });
        self.answer(token, |desk| desk.memories.take())
    }

    /// Says which memories there are now.
    pub fn memories_made(&self, pools: Vec<PoolSpec>) {
        self.runtime.post(Event::MemoriesMade { ticket: self.ticket, pools });
    }

    /// Gives the device's admission the partition's profile.
    ///
    /// # Errors
    /// To be given up. A refusal is an answer.
    pub fn arrive(
        &self,
        profile: SharedProfile,
        token: &mut LockToken,
    ) -> Result<Result<(), Refusal>, Halt> {
        self.runtime.post(Event::Planned { ticket: self.ticket, profile });
        self.answer(token, |desk| desk.admitted.take())
    }

    /// Waits until it is time to ask for more of the prestage, or for `compute`. `asked` says when
    /// the prestage was asked for last; `staged`, whether all of it is on its way.
    ///
    /// Who asks for `compute` gets the rest of its memory at once or not at all, and holds up the
    /// younger. So a partition asks for the prestage, and again as memory goes back, until it is
    /// next. Only one is staged beside the one that computes: more shorten nothing, for the link
    /// is one, and take room that the next could use.
    ///
    /// # Errors
    /// To be given up.
    pub fn await_turn(
        &self,
        asked: &mut Option<u64>,
        staged: bool,
        token: &mut LockToken,
    ) -> Result<Turn, Halt> {
        self.runtime.wait(token, |state| {
            if let Some(halt) = self.halted.get() {
                return Some(Err(halt));
            }
            let (to_compute, there) = state.core.admission_of(self.device)?.older(self.ticket);
            if staged || (asked.is_some() && to_compute == 0) {
                return Some(Ok(Turn::Compute));
            }
            let releases = state.releases.get(self.device.0).copied();
            let is_new = asked.is_none() || *asked != releases;
            (is_new && there <= 1).then(|| {
                *asked = Some(releases.unwrap_or(0));
                Ok(Turn::Prestage)
            })
        })
    }

    /// Whether nobody computes, or this partition does, and no older one is to compute before it.
    pub fn may_compute(&self, token: &mut LockToken) -> bool {
        let found = self.runtime.look(token, |state| {
            let admission = state.core.admission_of(self.device)?;
            let is_free = admission.computing().is_none_or(|by| by == self.ticket);
            (is_free && admission.older(self.ticket).0 == 0).then_some(())
        });
        found.is_some()
    }

    /// Asks which buffers of the prestage have a place now; perhaps none.
    ///
    /// # Errors
    /// To be given up.
    pub fn prestage(&self, token: &mut LockToken) -> Result<Vec<Placement>, Halt> {
        self.runtime.post(Event::WantPrestage { ticket: self.ticket });
        self.answer(token, |desk| desk.prestage.take())
    }

    /// Asks for `compute`, and waits until the whole remaining profile has its place.
    ///
    /// # Errors
    /// To be given up.
    pub fn reserve(&self, token: &mut LockToken) -> Result<Reserved, Halt> {
        self.runtime.post(Event::WantCompute { ticket: self.ticket });
        self.answer(token, |desk| desk.reserved.take())
    }

    /// Waits until a resident's bytes are on the device, or nobody is about to bring them.
    ///
    /// # Errors
    /// To be given up.
    pub fn await_resident(&self, key: ResidentKey, token: &mut LockToken) -> Result<Duty, Halt> {
        self.runtime.wait(token, |state| {
            if let Some(halt) = self.halted.get() {
                return Some(Err(halt));
            }
            let admission = state.core.admission_of(self.device)?;
            if admission.residents().any(|resident| resident.key == key && resident.loaded) {
                return Some(Ok(Duty::Nothing));
            }
            let place = (self.device, key);
            let by = *state.loading.entry(place).or_insert(self.ticket);
            (by == self.ticket).then_some(Ok(Duty::Load))
        })
    }

    /// Says that the resident's bytes are there.
    pub fn resident_loaded(&self, key: ResidentKey, token: &mut LockToken) {
        let ticket = self.ticket;
        self.runtime.post(Event::ResidentLoaded { ticket, key });
        self.runtime.look(token, |state| state.loading.remove(&(self.device, key)));
    }

    /// Waits for `compute`.
    ///
    /// # Errors
    /// To be given up.
    pub fn await_compute(&self, token: &mut LockToken) -> Result<ComputeGrant, Halt> {
        self.answer(token, |desk| desk.grant.take())
    }

    fn answer<R>(
        &self,
        token: &mut LockToken,
        mut ready: impl FnMut(&mut Desk) -> Option<R>,
    ) -> Result<R, Halt> {
        self.runtime.wait(token, |state| {
            if let Some(halt) = self.halted.get() {
                return Some(Err(halt));
            }
            state.desks.get_mut(&self.ticket).and_then(&mut ready).map(Ok)
        })
    }
}
