//! What the dispatcher has said about each partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::scheduler::admission::{self, Placement, Refusal, ResidentPlacement, Ticket};
use crate::scheduler::core::{DeviceId, End};
use crate::scheduler::events::Life;
use crate::scheduler::locks::ComputeGrant;

/// What a partition that asked for memories does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memories {
    /// Makes them: they are empty.
    Make,
    /// Looks at those that another made.
    LookAgain,
}

/// Where all that a partition still needs lies.
pub type Reserved = (Vec<Placement>, Vec<ResidentPlacement>);

/// What the dispatcher has said about one partition.
#[derive(Default)]
pub(super) struct Desk {
    pub session: u64,
    /// Whether it brings a key to the device and proves nothing.
    pub loads: bool,
    pub worker: usize,
    pub device: Option<DeviceId>,
    pub claimed: bool,
    pub admitted: Option<Result<(), Refusal>>,
    pub memories: Option<Memories>,
    pub prestage: Option<Vec<Placement>>,
    pub reserved: Option<Reserved>,
    pub grant: Option<ComputeGrant>,
    pub reason: String,
    pub ended: Option<End>,
    /// Whether nobody waits for its end.
    pub detached: bool,
    pub signal: Arc<Signal>,
    /// Of the partition that this one does the work of.
    pub outer: Option<Halted>,
}

impl Desk {
    /// Forgets what concerned the last attempt.
    pub fn clear(&mut self) {
        self.device = None;
        self.claimed = false;
        self.admitted = None;
        self.memories = None;
        self.prestage = None;
        self.reserved = None;
        self.grant = None;
        self.signal = Arc::default();
    }
}

/// Why a worker gives its partition up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// Somebody cancelled it.
    Stop,
    /// Its device is lost.
    Abandon,
}

/// Whether a partition is to be given up.
#[derive(Debug, Clone)]
pub struct Halted {
    pub(super) signal: Arc<Signal>,
    pub(super) outer: Option<Box<Halted>>,
}

impl Halted {
    /// Whether, and why.
    pub fn get(&self) -> Option<Halt> {
        self.signal.get().or_else(|| self.outer.as_ref().and_then(|outer| outer.get()))
    }
}

#[derive(Debug, Default)]
pub(super) struct Signal(AtomicU8);

impl Signal {
    pub fn set(&self, halt: Halt) {
        let value = if halt == Halt::Stop { 1 } else { 2 };
        self.0.store(value, Ordering::Release);
    }

    pub fn get(&self) -> Option<Halt> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Halt::Stop),
            _ => Some(Halt::Abandon),
        }
    }
}

/// Puts an answer of a device's admission on its partition's desk.
pub(super) fn on_device(
    desks: &mut BTreeMap<Ticket, Desk>,
    action: admission::Action,
) -> Option<(Ticket, Option<Life>)> {
    use admission::Action as Said;
    let (ticket, life) = match &action {
        Said::Admitted { ticket } => (*ticket, Some(Life::Admitted)),
        Said::PrestageReady { ticket, .. } => (*ticket, Some(Life::PrestageReady)),
        Said::PrestagePartial { ticket, shortage, .. } => {
            (*ticket, Some(Life::PrestagePartial(*shortage)))
        }
        Said::Deferred { ticket, shortage } => (*ticket, Some(Life::PrestageDeferred(*shortage))),
        Said::Released { ticket, size_bytes, .. } => {
            (*ticket, Some(Life::Freed { size_bytes: *size_bytes }))
        }
        Said::Refused { ticket, .. }
        | Said::Reserved { ticket, .. }
        | Said::GrantCompute { ticket, .. } => (*ticket, None),
        Said::Ignored { why } => {
            tracing::debug!(?why, "an event was ignored");
            return None;
        }
        _ => return None,
    };
    if let Some(desk) = desks.get_mut(&ticket) {
        match action {
            Said::Admitted { .. } => desk.admitted = Some(Ok(())),
            Said::Refused { why, .. } => desk.admitted = Some(Err(why)),
            Said::PrestageReady { placements, .. } | Said::PrestagePartial { placements, .. } => {
                desk.prestage = Some(placements);
            }
            Said::Deferred { .. } => desk.prestage = Some(Vec::new()),
            Said::Reserved { placements, residents, .. } => {
                desk.reserved = Some((placements, residents));
            }
            Said::GrantCompute { placements, residents, .. } => {
                desk.reserved = Some((placements, residents));
                desk.grant = Some(ComputeGrant::new());
            }
            _ => {}
        }
    }
    Some((ticket, life))
}
