//! What the state machine keeps of a partition and of a resident.

use std::sync::Arc;

use super::event::{Placement, ResidentPlacement};
use super::place::{Goal, Layout};
use super::profile::{PoolId, Profile, ResidentKey, Ticket};

/// How far a partition has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Known; may hold what was prestaged.
    Arrived,
    /// Asked for `compute`.
    Waiting,
    /// Has `compute`.
    Computing,
    /// Gave `compute` back and still holds memory.
    Draining,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    pub ticket: Ticket,
    pub profile: Arc<Profile>,
    pub phase: Phase,
    /// The stage that runs now or comes next.
    pub stage: u8,
    /// Where it lies in memory.
    pub held: Layout,
    /// Where the rest could lie once all older partitions are gone, whatever the younger do.
    /// Nothing of it is held.
    pub promised: Layout,
}

impl Partition {
    pub fn new(ticket: Ticket, profile: Arc<Profile>) -> Self {
        let empty = Layout::empty(&profile);
        Self {
            ticket,
            profile,
            phase: Phase::Arrived,
            stage: 0,
            held: empty.clone(),
            promised: empty,
        }
    }

    /// Whether the buffer lives now or later.
    pub fn lives(&self, index: usize) -> bool {
        self.profile.buffers().get(index).is_some_and(|need| need.last >= self.stage)
    }

    /// Whether all of `goal` is held.
    pub fn holds(&self, goal: Goal) -> bool {
        (0..self.held.buffers.len()).all(|index| {
            !goal.wants_buffer(&self.profile, index)
                || !self.lives(index)
                || self.held.buffer(index).is_some()
        }) && (0..self.held.residents.len())
            .all(|index| !goal.wants_resident(index) || self.held.resident(index).is_some())
    }

    /// The resident's index in the profile.
    pub fn resident_index(&self, key: ResidentKey) -> Option<usize> {
        self.profile.residents().iter().position(|need| need.key == key)
    }

    /// Whether the partition has the resident in use.
    pub fn uses(&self, key: ResidentKey) -> bool {
        self.resident_index(key).is_some_and(|index| self.held.resident(index).is_some())
    }

    /// What is held, to tell a worker.
    pub fn placements(&self) -> Vec<Placement> {
        (self.profile.buffers().iter().zip(&self.held.buffers).enumerate())
            .filter_map(|(buffer, (need, offset))| {
                Some(Placement {
                    buffer,
                    name: need.name,
                    pool: need.pool,
                    offset_bytes: (*offset)?,
                    size_bytes: need.size_bytes,
                })
            })
            .collect()
    }
}

/// A query on the device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resident {
    pub key: ResidentKey,
    pub pool: PoolId,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub loaded: bool,
}

impl Resident {
    pub fn placement(&self) -> ResidentPlacement {
        ResidentPlacement {
            key: self.key,
            pool: self.pool,
            offset_bytes: self.offset_bytes,
            size_bytes: self.size_bytes,
            loaded: self.loaded,
        }
    }
}
