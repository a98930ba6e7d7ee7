//! What goes into the state machine and what comes out.

use std::sync::Arc;

use super::profile::{PoolId, Profile, ResidentKey, Ticket};

/// Something that happened, or that a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A partition was given to this device.
    Arrive {
        /// Its place in the order; no two live partitions share one.
        ticket: Ticket,
        /// What it will hold.
        profile: Arc<Profile>,
    },
    /// A worker could upload a partition's first buffers now. May be asked again.
    WantPrestage {
        /// Whose.
        ticket: Ticket,
    },
    /// A worker could load a resident of its partition now, ahead of the rest.
    WantResident {
        /// For whom.
        ticket: Ticket,
        /// Which.
        key: ResidentKey,
    },
    /// A partition is ready to compute. Asked once; answered by `Reserved` and `GrantCompute`, at
    /// once or from a later step.
    WantCompute {
        /// Whose.
        ticket: Ticket,
    },
    /// A resident's bytes are on the device: from now on it outlives its users.
    ResidentLoaded {
        /// A user of it.
        ticket: Ticket,
        /// Which.
        key: ResidentKey,
    },
    /// A stage ended: buffers that live no longer are released. Stages end in order.
    StageEnded {
        /// Whose.
        ticket: Ticket,
        /// Which.
        stage: u8,
    },
    /// A partition's last kernel ended; it holds memory until `Finished`.
    ComputeEnded {
        /// Whose.
        ticket: Ticket,
    },
    /// A partition is done with the device.
    Finished {
        /// Whose.
        ticket: Ticket,
    },
    /// A partition was stopped, in any state.
    Cancelled {
        /// Whose.
        ticket: Ticket,
    },
    /// A partition failed, in any state.
    Failed {
        /// Whose.
        ticket: Ticket,
    },
    /// The driver wants this much back, or had this much less than planned.
    BudgetShrunk {
        /// From which memory.
        pool: PoolId,
        /// How much; rounded up to the alignment.
        size_bytes: u64,
    },
    /// There is more to use: takes from what is still owed, then adds to the capacity.
    BudgetGrown {
        /// In which memory.
        pool: PoolId,
        /// How much; rounded down to the alignment.
        size_bytes: u64,
    },
}

/// Where a buffer of a partition lies. Two buffers of one partition may overlap if no stage uses
/// both; the one with the later first stage must not be written before that stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Its index in [`Profile::buffers`].
    pub buffer: usize,
    /// The buffer's name.
    pub name: &'static str,
    /// In which memory.
    pub pool: PoolId,
    /// Where it starts.
    pub offset_bytes: u64,
    /// Its size before rounding.
    pub size_bytes: u64,
}

/// Where a resident lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResidentPlacement {
    /// Which.
    pub key: ResidentKey,
    /// In which memory.
    pub pool: PoolId,
    /// Where it starts.
    pub offset_bytes: u64,
    /// Its size before rounding.
    pub size_bytes: u64,
    /// Whether its bytes are there; if not, a user loads them.
    pub loaded: bool,
}

/// Why there was no room, in bytes of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shortage {
    /// Which memory.
    pub pool: PoolId,
    /// What was asked for beyond what the partition holds.
    pub needed_bytes: u64,
    /// What nobody holds, idle residents included.
    pub free_bytes: u64,
    /// What of that the rule leaves to this partition. May be enough and yet in pieces.
    pub usable_bytes: u64,
}

/// What a waiting partition waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parked {
    /// Older partitions to release memory.
    OnMemory(Shortage),
    /// The partition that computes; its own memory is reserved.
    OnCompute,
}

/// How a partition ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As planned.
    Finished,
    /// Stopped from outside.
    Cancelled,
    /// By an error.
    Failed,
}

/// Why a partition was not taken at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It could not run even alone: a smaller plan is needed.
    NeverFits {
        /// The memory that is too small.
        pool: PoolId,
        /// The most it holds at once, rounding included.
        needed_bytes: u64,
        /// All there is, less what is owed.
        capacity_bytes: u64,
    },
    /// A buffer names a memory that the device lacks.
    NoSuchPool(PoolId),
    /// Another partition gives the same resident another size or memory.
    ResidentDiffers(ResidentKey),
    /// A live partition has this ticket.
    TicketTaken,
}

/// Why an event was ignored. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nonsense {
    /// No live partition has this ticket.
    NoSuchTicket(Ticket),
    /// The partition is in a state in which this cannot happen.
    OutOfTurn(Ticket),
    /// The partition's profile does not name this resident, or it does not hold it.
    NotItsResident(Ticket, ResidentKey),
    /// There is no such memory.
    NoSuchPool(PoolId),
}

/// What the executor does next, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The partition is in the order.
    Admitted {
        /// Which.
        ticket: Ticket,
    },
    /// The partition was not taken.
    Refused {
        /// Which.
        ticket: Ticket,
        /// Why.
        why: Refusal,
    },
    /// All buffers of the current stage are placed (those placed before are listed again).
    PrestageReady {
        /// Whose.
        ticket: Ticket,
        /// Where.
        placements: Vec<Placement>,
    },
    /// Some are placed; the rest had no room.
    PrestagePartial {
        /// Whose.
        ticket: Ticket,
        /// Where those are that have a place.
        placements: Vec<Placement>,
        /// What the rest lacked.
        shortage: Shortage,
    },
    /// No room, for a prestage or a resident. An answer, not an error: ask for `compute`.
    Deferred {
        /// Whose.
        ticket: Ticket,
        /// What was lacking.
        shortage: Shortage,
    },
    /// A resident has a place ahead of the rest.
    ResidentReady {
        /// Whose.
        ticket: Ticket,
        /// Where.
        resident: ResidentPlacement,
    },
    /// The partition waits, holding neither lock.
    Waits {
        /// Which.
        ticket: Ticket,
        /// For what.
        parked: Parked,
    },
    /// The whole remaining profile is placed: staging may go on before `compute` comes.
    Reserved {
        /// Whose.
        ticket: Ticket,
        /// Where every remaining buffer lies.
        placements: Vec<Placement>,
        /// Where its residents lie.
        residents: Vec<ResidentPlacement>,
    },
    /// The partition may compute to its end without asking for anything.
    GrantCompute {
        /// Which.
        ticket: Ticket,
        /// Where every remaining buffer lies.
        placements: Vec<Placement>,
        /// Where its residents lie.
        residents: Vec<ResidentPlacement>,
    },
    /// A resident's place is given up: before the action that reuses the place, or after the
    /// end of the only partition that was to load it.
    Evict {
        /// Which.
        key: ResidentKey,
    },
    /// Memory went back.
    Released {
        /// Who held it.
        ticket: Ticket,
        /// In which memory.
        pool: PoolId,
        /// How much, rounding included.
        size_bytes: u64,
    },
    /// The partition is gone. Said once for every one admitted.
    Ended {
        /// Which.
        ticket: Ticket,
        /// How.
        outcome: Outcome,
    },
    /// The memory is smaller: nothing lies at or above its new capacity.
    Shrunk {
        /// Which.
        pool: PoolId,
        /// By how much this time.
        size_bytes: u64,
        /// What remains.
        capacity_bytes: u64,
        /// What the rule could not spare yet; it follows as partitions end.
        owed_bytes: u64,
    },
    /// The event made no sense.
    Ignored {
        /// Why.
        why: Nonsense,
    },
}
