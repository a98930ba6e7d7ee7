//! What goes into the dispatcher and what comes out.

use std::fmt;

use super::SharedProfile;
use crate::scheduler::admission::{self, PoolId, PoolSpec, ResidentKey, Ticket};

/// A device, by its position in the list that the core was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub usize);

/// A partition's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// The higher, the sooner.
    pub priority: u8,
    /// Numbers the jobs as they come.
    pub job: u32,
    /// Numbers the partitions of a job; below 2^24.
    pub index: u32,
}

impl Order {
    /// The order as one number.
    pub const fn ticket(self) -> Ticket {
        let priority = (u8::MAX - self.priority) as u64;
        Ticket(priority << 56 | (self.job as u64) << 24 | (self.index as u64 & 0xff_ffff))
    }
}

impl From<Ticket> for Order {
    fn from(Ticket(number): Ticket) -> Self {
        let [priority, ..] = number.to_be_bytes();
        let (job, index) = ((number >> 24) as u32, (number & 0xff_ffff) as u32);
        Self { priority: u8::MAX - priority, job, index }
    }
}

impl fmt::Display for Order {
    /// The job and the partition's number in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.index)
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The device computed wrongly.
    Wrong,
    /// The device is gone, or nobody is left to take the partition.
    Lost,
    /// The partition can't fit the device.
    NoRoom,
    /// The fault is not the device's: another would fail too.
    Final,
}

/// How a partition ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// With a proof.
    Finished,
    /// It was stopped.
    Cancelled,
    /// Its last attempt failed so.
    Failed(Fault),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new partition, whose assignment takes so many bytes of host memory.
    Submit {
        /// Its place in the queue, which no other has.
        ticket: Ticket,
        /// Bytes of its assignment.
        host_bytes: u64,
        /// The one device that may take it; `None` for any.
        only: Option<DeviceId>,
    },
    /// A partition's plan is larger than its device's memories, which may grow.
    WantMemories {
        /// Whose plan.
        ticket: Ticket,
    },
    /// Memories were made as `Action::MakeMemories` asked.
    MemoriesMade {
        /// By whom.
        ticket: Ticket,
        /// Their sizes.
        pools: Vec<PoolSpec>,
    },
    /// What a partition will hold on its device.
    Planned {
        /// Which.
        ticket: Ticket,
        /// Its profile.
        profile: SharedProfile,
    },
    /// As [`admission::Event::WantPrestage`].
    WantPrestage {
        /// Whose.
        ticket: Ticket,
    },
    /// As [`admission::Event::WantCompute`].
    WantCompute {
        /// Whose.
        ticket: Ticket,
    },
    /// As [`admission::Event::ResidentLoaded`].
    ResidentLoaded {
        /// A user of it.
        ticket: Ticket,
        /// Which.
        key: ResidentKey,
    },
    /// As [`admission::Event::StageEnded`].
    StageEnded {
        /// Whose.
        ticket: Ticket,
        /// Which.
        stage: u8,
    },
    /// As [`admission::Event::ComputeEnded`].
    ComputeEnded {
        /// Whose.
        ticket: Ticket,
    },
    /// A partition is done with its device's memory.
    Drained {
        /// Which.
        ticket: Ticket,
    },
    /// A partition gives up its device's memory and `compute`, whatever it held, and goes on
    /// without; what it held is wiped.
    GaveUp {
        /// Which.
        ticket: Ticket,
    },
    /// A partition has its proof.
    Finished {
        /// Which.
        ticket: Ticket,
    },
    /// An attempt failed; what it held is wiped.
    Failed {
        /// Whose.
        ticket: Ticket,
        /// Why.
        fault: Fault,
    },
    /// Somebody wants a partition stopped.
    Cancel {
        /// Which.
        ticket: Ticket,
    },
    /// A partition stopped as `Action::Stop` asked; what it held is wiped.
    Stopped {
        /// Which.
        ticket: Ticket,
    },
    /// As [`admission::Event::BudgetShrunk`].
    BudgetShrunk {
        /// Of which device.
        device: DeviceId,
        /// Of which memory.
        pool: PoolId,
        /// How much.
        size_bytes: u64,
    },
    /// As [`admission::Event::BudgetGrown`].
    BudgetGrown {
        /// Of which device.
        device: DeviceId,
        /// Of which memory.
        pool: PoolId,
        /// How much.
        size_bytes: u64,
    },
    /// A device was found to be lost.
    Lost {
        /// Which.
        device: DeviceId,
    },
    /// A lost device works again.
    Reopened {
        /// Which.
        device: DeviceId,
    },
    /// A lost device stays lost.
    Gone {
        /// Which.
        device: DeviceId,
    },
}

/// What the runtime does next, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The partition is in the queue.
    Queued {
        /// Which.
        ticket: Ticket,
    },
    /// A worker of this device takes the partition.
    Dispatch {
        /// Which.
        ticket: Ticket,
        /// Where.
        device: DeviceId,
    },
    /// The device's memories are empty: this partition's worker makes them anew.
    MakeMemories {
        /// Whose worker.
        ticket: Ticket,
        /// Of which device.
        device: DeviceId,
    },
    /// Another made the memories that this partition asked for: it looks at them, and asks again if
    /// they do not suit.
    LookAgain {
        /// Which.
        ticket: Ticket,
    },
    /// What the device's admission says.
    On {
        /// Which device.
        device: DeviceId,
        /// What.
        action: admission::Action,
    },
    /// Its worker stops the partition between stages.
    Stop {
        /// Which.
        ticket: Ticket,
    },
    /// The partition's device is lost; its worker gives up and says `Failed`.
    Abandon {
        /// Which.
        ticket: Ticket,
    },
    /// The partition is back in the queue.
    Requeued {
        /// Which.
        ticket: Ticket,
        /// What went wrong.
        fault: Fault,
    },
    /// The partition is gone. Said once for every one submitted.
    Ended {
        /// Which.
        ticket: Ticket,
        /// How.
        end: End,
    },
    /// Nobody uses the lost device any more: destroy it, open it anew, try it.
    Reopen {
        /// Which.
        device: DeviceId,
    },
}
