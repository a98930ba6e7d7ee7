//! What the core knows of one device.

use std::collections::VecDeque;

use super::SharedProfile;
use crate::scheduler::admission::{Admission, Ticket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Open,
    /// Lost; its workers have not all noticed.
    Draining,
    /// Nobody is there any more and it is being reopened.
    Reopening,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceState {
    pub admission: Admission,
    pub workers: usize,
    pub active: usize,
    pub status: Status,
    /// Who asked for larger memories.
    pub remake: VecDeque<Ticket>,
    /// Who makes them now, or has made them and is not in them yet: for whoever came between would
    /// have them made anew, and so on for ever.
    pub remaking: Option<Ticket>,
    /// Whether those that `remaking` made are there.
    pub made: bool,
    /// Who arrived, but has to wait for that.
    pub planned: VecDeque<(Ticket, SharedProfile)>,
}

impl DeviceState {
    pub fn new(workers: usize) -> Self {
        Self {
            admission: Admission::new([]),
            workers: workers.max(1),
            active: 0,
            status: Status::Open,
            remake: VecDeque::new(),
            remaking: None,
            made: false,
            planned: VecDeque::new(),
        }
    }

    /// Drops what a partition had asked for.
    pub fn forget(&mut self, ticket: Ticket) {
        self.remake.retain(|other| *other != ticket);
        self.planned.retain(|(other, _)| *other != ticket);
        self.release(ticket);
    }

    /// Lets others have the memories made anew.
    pub fn release(&mut self, ticket: Ticket) {
        if self.remaking == Some(ticket) {
            (self.remaking, self.made) = (None, false);
        }
    }
}
