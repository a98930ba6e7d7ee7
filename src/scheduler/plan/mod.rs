//! Memory plans: what a partition holds in each stage, before it starts.
//!
//! A plan is made from the sizes that a device's layout queries answer and from the list of buffers
//! that the prover leases by, so what is planned is what is used. [`best`] finds the plan with the
//! shortest reckoned time that fits a budget, [`smallest`] the one that needs least.

mod overlap;
mod rates;
mod search;
mod shapes;

use std::time::Duration;

use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES, INDEX_BYTES};
use twinlock_api::{Device, MemoryClass, Result};

pub use self::overlap::Overlap;
pub use self::rates::Rates;
pub use self::search::{Limits, Residents, best, smallest};
pub use self::shapes::{NamedShape, SHAPES, named_shape, parameters_shape};
use crate::groth16::params::Query;
use crate::groth16::prover::layout::{Buffer, ProofLayout, Stage};
use crate::groth16::prover::shape::ProofShape;
use crate::groth16::prover::variant::{AssignmentUpload, NttBuffers, QuerySet, Variant};

/// Staging slots: one in flight, one waiting behind it, two being filled.
const STAGING_SLOTS: usize = 4;
/// A larger slot copies no faster.
const LARGEST_SLOT_BYTES: u64 = 64 << 20;

/// Bytes that a partition holds in a stage, rounding to the arena's alignment included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageBytes {
    /// Which stage.
    pub stage: Stage,
    /// Of what operations write.
    pub work_bytes: u64,
    /// Of streamed bases and index maps.
    pub bases_bytes: u64,
}

impl StageBytes {
    /// Both together.
    pub fn total_bytes(&self) -> u64 {
        self.work_bytes + self.bases_bytes
    }
}

/// Bytes that go from the host to the device for each partition. Evaluations are counted as if
/// they filled the domain; their end is zeros that the device writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovedBytes {
    /// Before the partition computes.
    pub prestage_bytes: u64,
    /// While it computes, and waits for them unless they are sent ahead: c or the assignment if they
    /// go late, index maps.
    pub late_bytes: u64,
    /// Points of streamed queries, behind which the device computes.
    pub bases_bytes: u64,
}

impl MovedBytes {
    /// All of them.
    pub fn total_bytes(&self) -> u64 {
        self.prestage_bytes + self.late_bytes + self.bases_bytes
    }
}

/// What a partition will hold, stage by stage, and what follows from that.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    /// What it was made for.
    pub shape: ProofShape,
    /// What was chosen.
    pub variant: Variant,
    /// Every buffer with its size, its stages and its place.
    pub buffers: Vec<Buffer>,
    /// Queries that stay on the device from partition to partition, and the bytes of each.
    pub residents: Vec<(Query, u64)>,
    /// What each stage holds, without the residents.
    pub stages: Vec<StageBytes>,
    /// The most work memory at once, as the buffers are placed.
    pub work_bytes: u64,
    /// The most memory for streamed bases and index maps at once.
    pub bases_bytes: u64,
    /// Memory of the residents; 0 if they were there before the plan.
    pub resident_bytes: u64,
    /// Uploads of each partition.
    pub moved: MovedBytes,
    /// From when on the next partition can be staged beside this one; `None` when never.
    pub overlap: Option<Overlap>,
    /// Staging slots that keep the link busy.
    pub staging_slots: usize,
    /// Size of each.
    pub staging_slot_bytes: u64,
    /// Reckoned time from one partition's end to the next one's, when they come one after the
    /// other.
    pub period: Duration,
}

impl MemoryPlan {
    /// The plan of a variant, whether it fits or not; `limits` says what is there already and how
    /// much room an overlap may use.
    ///
    /// # Errors
    /// What the device's size queries answer.
    pub fn new(
        device: &dyn Device,
        shape: ProofShape,
        variant: Variant,
        limits: &Limits,
    ) -> Result<Self> {
        let layout = ProofLayout::new(device, shape, variant)?;
        Ok(Self::of_layout(&layout, limits))
    }

    pub(crate) fn of_layout(layout: &ProofLayout, limits: &Limits) -> Self {
        let (shape, variant) = (layout.shape, layout.variant);
        let rates = &limits.rates;
        let residents: Vec<_> = match limits.residents {
            Residents::Loaded(_) => Vec::new(),
            Residents::Choose => {
                let bytes = |query| layout.resident_bytes(query);
                variant.resident.iter().map(|query| (query, bytes(query))).collect()
            }
        };
        let peak = |class| layout.peak_bytes(class);
        let (work_bytes, bases_bytes) = (peak(MemoryClass::Work), peak(MemoryClass::Resident));
        let resident_bytes: u64 = residents.iter().map(|(_, bytes)| bytes).sum();
        let moved = moved_bytes(&shape, &variant);
        let room = limits.budget_bytes.saturating_sub(resident_bytes);
        let overlap = Overlap::find(&layout.buffers, room);
        let from = overlap.as_ref().map(|overlap| overlap.from);
        let period = rates.period(&shape, &variant, &layout.groups, from);
        let uploaded = layout.buffers.iter().filter(|buffer| buffer.is_uploaded());
        let uploaded = uploaded.map(|buffer| buffer.size_bytes);
        let largest = uploaded.chain(residents.iter().map(|(_, bytes)| *bytes));
        let largest = largest.fold(ARENA_ALIGN_BYTES, u64::max);
        Self {
            shape,
            variant,
            stages: stage_bytes(&layout.buffers),
            buffers: layout.buffers.clone(),
            residents,
            work_bytes,
            bases_bytes,
            resident_bytes,
            moved,
            overlap,
            staging_slots: STAGING_SLOTS,
            staging_slot_bytes: largest.next_power_of_two().min(LARGEST_SLOT_BYTES),
            period,
        }
    }

    /// Device memory that one partition takes at its peak, residents included: what is reserved
    /// for it. Memory that operations write and memory for bases are not exchanged for each other,
    /// so this is the sum of both peaks.
    pub fn peak_bytes(&self) -> u64 {
        self.work_bytes + self.bases_bytes + self.resident_bytes
    }

    /// The most that a stage holds, residents included: at most [`Self::peak_bytes`].
    pub fn largest_stage_bytes(&self) -> u64 {
        let largest = self.stages.iter().map(StageBytes::total_bytes).max();
        largest.unwrap_or(0) + self.resident_bytes
    }
}

fn stage_bytes(buffers: &[Buffer]) -> Vec<StageBytes> {
    let held = |stage, class| {
        let live = buffers.iter().filter(|b| b.class == class && b.lives_in(stage));
        live.map(Buffer::taken_bytes).sum()
    };
    let of = |stage| StageBytes {
        stage,
        work_bytes: held(stage, MemoryClass::Work),
        bases_bytes: held(stage, MemoryClass::Resident),
    };
    Stage::ALL.into_iter().map(of).collect()
}

/// Bytes of a query on the device with so many tables, rounding included.
pub(crate) fn resident_bytes(shape: &ProofShape, query: Query, tables: u32) -> u64 {
    let points = (shape.query_len(query) as u64).saturating_mul(tables.into());
    let bytes = points.saturating_mul(query.point_bytes() as u64);
    bytes.max(1).checked_next_multiple_of(ARENA_ALIGN_BYTES).unwrap_or(u64::MAX)
}

fn moved_bytes(shape: &ProofShape, variant: &Variant) -> MovedBytes {
    let fr = |len: usize| len as u64 * FR_BYTES;
    let vector = fr(shape.domain());
    let assignment = fr(shape.variables());
    let index = |len: usize| len as u64 * INDEX_BYTES;
    let mut moved = MovedBytes { prestage_bytes: 2 * vector, ..MovedBytes::default() };
    match variant.ntt_buffers {
        NttBuffers::Three => moved.prestage_bytes += vector,
        NttBuffers::Two => moved.late_bytes += vector,
    }
    match variant.assignment {
        AssignmentUpload::Prestage => moved.prestage_bytes += assignment,
        AssignmentUpload::Late => moved.late_bytes += assignment,
    }
    if !shape.a_is_dense() {
        moved.late_bytes += index(shape.variables());
    }
    moved.late_bytes += index(shape.b);
    let streamed = Query::ALL.into_iter().filter(|query| !variant.resident.contains(*query));
    moved.bases_bytes =
        streamed.map(|query| (shape.query_len(query) * query.point_bytes()) as u64).sum();
    moved
}

/// The queries of a set that have points at all.
pub(crate) fn present(shape: &ProofShape) -> QuerySet {
    Query::ALL.into_iter().filter(|query| shape.query_len(*query) > 0).collect()
}
