//! Whether the next partition can be staged while this one computes.

use twinlock_api::MemoryClass;

use crate::groth16::prover::layout::{Buffer, Stage};
use crate::groth16::prover::placement::{Step, carve};

/// More partitions waiting on the device than this shorten nothing.
const MOST_PARTITIONS: usize = 4;

/// Room for other partitions' prestage beside one that computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The first stage of the computing partition beside which the next one's prestage fits.
    pub from: Stage,
    /// Partitions on the device at once, the computing one included.
    pub partitions: usize,
    /// Work memory that they take.
    pub work_bytes: u64,
    /// Memory that they take for streamed bases and index maps.
    pub bases_bytes: u64,
}

impl Overlap {
    /// The earliest overlap of partitions with these buffers that fits `room_bytes`.
    pub(super) fn find(buffers: &[Buffer], room_bytes: u64) -> Option<Self> {
        let fits = |from, partitions| {
            let found = Self::place(buffers, from, partitions);
            (found.work_bytes + found.bases_bytes <= room_bytes).then_some(found)
        };
        let first = Stage::ALL.into_iter().skip(1).find_map(|from| fits(from, 2))?;
        if first.from != Stage::Quotient {
            return Some(first);
        }
        let more = (3..=MOST_PARTITIONS).map_while(|partitions| fits(first.from, partitions));
        more.last().or(Some(first))
    }

    /// Memory in which one partition runs while the prestages of the others come in stage `from`,
    /// and in which the next one then runs to its end.
    fn place(buffers: &[Buffer], from: Stage, partitions: usize) -> Self {
        let mut steps = Vec::new();
        for stage in Stage::ALL {
            steps.push(Step::Enter(0, stage));
            if stage == from {
                steps.extend((1..partitions).map(|next| Step::Enter(next, Stage::Prestage)));
            }
            steps.push(Step::Leave(0, stage));
        }
        for stage in Stage::ALL {
            if stage != Stage::Prestage {
                steps.push(Step::Enter(1, stage));
            }
            steps.push(Step::Leave(1, stage));
        }
        let bytes = |class| carve(buffers, class, &steps).capacity_bytes;
        Self {
            from,
            partitions,
            work_bytes: bytes(MemoryClass::Work),
            bases_bytes: bytes(MemoryClass::Resident),
        }
    }
}
