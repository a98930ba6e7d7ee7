//! Every buffer of a proof: how large it is, in which stages it lives and where it lies. The end of
//! the list is what a proof reserves and leases, so what was planned is what is used.

use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES, INDEX_BYTES};
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{Device, Error as DeviceError, Group, MemoryClass, Result};

use super::bases::group_of;
use super::placement::{alone, carve};
use super::plan::MOST_TABLES;
use super::shape::ProofShape;
use super::variant::{AssignmentUpload, NttBuffers, QuerySet, Variant, Windows};
use crate::groth16::params::Query;
use crate::scheduler::plan::resident_bytes;

/// The stages of a proof, in order. A scheduler may pause, cancel or free between any two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The assignment, a, b and c go to the device.
    Prestage,
    /// h = (a * b - c) / Z.
    Quotient,
    /// The H query.
    H,
    /// The L and A queries, by one digit sort.
    La,
    /// The B queries of both groups, by one digit sort.
    B,
    /// Window sums go to the host.
    Drain,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 6] =
        [Self::Prestage, Self::Quotient, Self::H, Self::La, Self::B, Self::Drain];

    /// The stage's name, for logs and timelines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prestage => "prestage",
            Self::Quotient => "quotient",
            Self::H => "h",
            Self::La => "la",
            Self::B => "b",
            Self::Drain => "drain",
        }
    }

    /// The stage beside which this one's uploads run when they are sent ahead.
    fn sent_beside(self) -> Self {
        match self {
            Self::Prestage => Self::Prestage,
            Self::Quotient | Self::H => Self::Quotient,
            Self::La => Self::H,
            Self::B => Self::La,
            Self::Drain => Self::B,
        }
    }
}

/// A buffer and the stages it lives in, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its name; no two of one stage share it.
    pub name: &'static str,
    /// Which memory it is carved from.
    pub class: MemoryClass,
    /// Where it starts in the proof's memory of that class.
    pub offset_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
    /// In use from the start of this stage.
    pub first: Stage,
    /// In use to the end of this stage.
    pub last: Stage,
}

impl Buffer {
    /// What the allocator takes for it: its size rounded up to the alignment.
    pub fn taken_bytes(&self) -> u64 {
        self.size_bytes.next_multiple_of(ARENA_ALIGN_BYTES)
    }

    /// Where it ends.
    #[cfg(test)]
    pub(crate) fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.taken_bytes()
    }

    /// Whether the host fills it through staging slots.
    pub fn is_uploaded(&self) -> bool {
        self.class == MemoryClass::Resident || [ASSIGNMENT, A, B, C].contains(&self.name)
    }

    /// Whether it is in use in `stage`.
    pub fn lives_in(&self, stage: Stage) -> bool {
        self.first <= stage && stage <= self.last
    }
}

/// MSMs over one vector of scalars, by one digit sort.
#[derive(Debug, Clone)]
pub(crate) struct MsmGroup {
    pub stage: Stage,
    /// Scalars in all.
    pub len: usize,
    /// Scalars of one plan; the last chunk may hold fewer.
    pub chunk: usize,
    /// Streamed points that are on the device at once, in each of two buffers.
    pub bases_chunk: usize,
    pub digits: DigitsLayout,
    /// Two buffers for streamed points, filled in turn.
    pub bases: [&'static str; 2],
    /// 0, 1, 2, ...: base i for scalar i, where a plan's bases come in several pieces.
    pub base_map: &'static str,
    /// The queries, their MSM layouts and the names of their buffers.
    pub queries: Vec<MsmQuery>,
}

#[derive(Debug, Clone)]
pub(crate) struct MsmQuery {
    pub query: Query,
    /// Whether its points come from the key's source piece by piece.
    pub streamed: bool,
    pub layout: MsmLayout,
    pub accumulator: &'static str,
    pub windows: &'static str,
}

impl MsmGroup {
    /// First scalar and number of scalars of each chunk.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (len, chunk) = (self.len, self.chunk);
        (0..len.div_ceil(chunk)).map(move |i| (i * chunk, chunk.min(len - i * chunk)))
    }

    fn streamed(&self) -> impl Iterator<Item = &MsmQuery> {
        self.queries.iter().filter(|query| query.streamed)
    }

    /// Whether a plan's scalars find their bases in several pieces by a map that is not the key's.
    fn has_base_map(&self, shape: &ProofShape) -> bool {
        let mapped = |query: Query| query == Query::A && !shape.a_is_dense();
        self.bases_chunk < self.chunk && self.streamed().any(|query| !mapped(query.query))
    }
}

/// All buffers of one proof on one device.
#[derive(Debug, Clone)]
pub(crate) struct ProofLayout {
    pub shape: ProofShape,
    pub variant: Variant,
    pub(super) ntt: NttLayout,
    pub groups: Vec<MsmGroup>,
    pub buffers: Vec<Buffer>,
    /// Work and resident memory, in bytes.
    peaks: [u64; 2],
}

/// One status word a chunk and query of streamed bases.
pub(super) const STATUS: &str = "decode_status";
pub(super) const ASSIGNMENT: &str = "assignment";
pub(super) const A: &str = "a";
pub(super) const B: &str = "b";
pub(super) const C: &str = "c";
pub(super) const NTT_WORKSPACE: &str = "ntt_workspace";
pub(super) const PLAN: &str = "digit_plan";
pub(super) const MSM_WORKSPACE: &str = "msm_workspace";
pub(super) const A_INDICES: &str = "a_indices";
pub(super) const B_VARIABLES: &str = "b_variables";
pub(super) const B_SCALARS: &str = "b_scalars";

impl ProofLayout {
    /// Sizes all buffers of a proof of `shape` on `device`.
    ///
    /// # Errors
    /// What the device's size queries answer: `ExceedsLimit` or `Unsupported`.
    pub fn new(device: &dyn Device, shape: ProofShape, variant: Variant) -> Result<Self> {
        use MemoryClass::{Resident, Work};
        let ntt = device.ntt_layout(shape.lg_domain)?;
        let groups = Self::groups(device, shape, variant)?;

        let mut buffers = Vec::new();
        let mut add = |name, class, size_bytes: u64, first, last| {
            if size_bytes > 0 {
                buffers.push(Buffer { name, class, offset_bytes: 0, size_bytes, first, last });
            }
        };
        let fr = |len: usize| len as u64 * FR_BYTES;
        let index = |len: usize| len as u64 * INDEX_BYTES;
        // From when on a stage's uploads have a place.
        let sent = |stage: Stage| if variant.ahead { stage.sent_beside() } else { stage };
        let uploaded = match variant.assignment {
            AssignmentUpload::Prestage => Stage::Prestage,
            AssignmentUpload::Late => sent(Stage::La),
        };
        add(ASSIGNMENT, Work, fr(shape.variables()), uploaded, Stage::B);
        add(A, Work, fr(shape.domain()), Stage::Prestage, Stage::H);
        add(B, Work, fr(shape.domain()), Stage::Prestage, Stage::Quotient);
        if variant.ntt_buffers == NttBuffers::Three {
            add(C, Work, fr(shape.domain()), Stage::Prestage, Stage::Quotient);
        }
        // Offered even where none is needed: every operation takes a workspace view.
        let ntt_bytes = ntt.workspace_bytes.max(ARENA_ALIGN_BYTES);
        add(NTT_WORKSPACE, Work, ntt_bytes, Stage::Quotient, Stage::Quotient);
        if !shape.a_is_dense() {
            add(A_INDICES, Resident, index(shape.variables()), sent(Stage::La), Stage::La);
        }
        add(B_VARIABLES, Resident, index(shape.b), sent(Stage::B), Stage::B);
        add(B_SCALARS, Work, fr(shape.b), Stage::B, Stage::B);
        let mut statuses = 0;
        for group in &groups {
            let stage = group.stage;
            let layouts = || group.queries.iter().map(|query| &query.layout);
            let workspace_bytes = layouts()
                .flat_map(|msm| [msm.accumulate_workspace_bytes, msm.reduce_workspace_bytes])
                .fold(group.digits.workspace_bytes, u64::max);
            add(PLAN, Work, group.digits.plan_bytes, stage, stage);
            add(MSM_WORKSPACE, Work, workspace_bytes.max(ARENA_ALIGN_BYTES), stage, stage);
            for query in &group.queries {
                let windows_bytes =
                    u64::from(query.layout.num_windows) * query.layout.group.jacobian_bytes();
                add(query.accumulator, Work, query.layout.accumulator_bytes, stage, stage);
                add(query.windows, Work, windows_bytes, stage, Stage::Drain);
            }
            let point_bytes = group.streamed().map(|query| query.layout.group.affine_bytes()).max();
            if let Some(point_bytes) = point_bytes {
                let size_bytes = group.bases_chunk as u64 * point_bytes;
                for name in group.bases {
                    add(name, Resident, size_bytes, sent(stage), stage);
                }
                let pieces = group.chunk.div_ceil(group.bases_chunk);
                statuses += group.chunks().count() * pieces * group.streamed().count();
            }
            if group.has_base_map(&shape) {
                add(group.base_map, Resident, index(group.chunk), sent(stage), stage);
            }
        }
        add(STATUS, Work, index(statuses), Stage::Prestage, Stage::Drain);
        let mut peaks = [ARENA_ALIGN_BYTES; 2];
        for (class, peak) in [Work, Resident].into_iter().zip(&mut peaks) {
            let carved = carve(&buffers, class, &alone());
            *peak = carved.capacity_bytes.max(ARENA_ALIGN_BYTES);
            let placed = buffers.iter_mut().zip(carved.offsets_bytes);
            for (buffer, offset_bytes) in placed.filter(|(buffer, _)| buffer.class == class) {
                buffer.offset_bytes = offset_bytes;
            }
        }
        Ok(Self { shape, variant, ntt, groups, buffers, peaks })
    }

    /// The MSMs of a proof, of which there is one at least.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn groups(
        device: &dyn Device,
        shape: ProofShape,
        variant: Variant,
    ) -> Result<Vec<MsmGroup>> {
        [
            (Stage::H, shape.query_len(Query::H), &[Query::H][..]),
            (Stage::La, shape.variables(), &[Query::L, Query::A][..]),
            (Stage::B, shape.b, &[Query::BG1, Query::BG2][..]),
        ]
        .into_iter()
        .filter(|(_, len, _)| *len > 0)
        .map(|(stage, len, queries)| msm_group(device, stage, len, queries, variant))
        .collect()
    }

    /// Bytes of `class` in which every buffer finds its place. Holes can make it a little more than
    /// what the largest stage holds. At least one unit, so that there is a lease.
    pub fn peak_bytes(&self, class: MemoryClass) -> u64 {
        let [work, resident] = self.peaks;
        match class {
            MemoryClass::Work => work,
            MemoryClass::Resident => resident,
        }
    }

    /// Tables of a query that stays, and doublings from one to the next; (1, 0) for its points alone.
    pub fn tables(&self, query: Query) -> (u32, u32) {
        let mut queries = self.groups.iter().flat_map(|group| &group.queries);
        let found = queries.find(|each| each.query == query).map(|each| &each.layout);
        match found {
            Some(layout) if layout.shape.tables != 1 => (layout.shape.tables, layout.shift_bits()),
            _ => (1, 0),
        }
    }

    /// Bytes of a query that stays, rounding included.
    pub fn resident_bytes(&self, query: Query) -> u64 {
        resident_bytes(&self.shape, query, self.tables(query).0)
    }

    /// The buffer that has this name in `stage`.
    pub(super) fn buffer(&self, name: &str, stage: Stage) -> Option<&Buffer> {
        (self.buffers.iter()).find(|buffer| buffer.name == name && buffer.lives_in(stage))
    }
}

fn msm_group(
    device: &dyn Device,
    stage: Stage,
    len: usize,
    queries: &[Query],
    variant: Variant,
) -> Result<MsmGroup> {
    let equal = |len: usize, most: usize| len.div_ceil(len.div_ceil(most.clamp(1, len)));
    let chunk = equal(len, variant.chunk);
    if variant.tables != 1 && (chunk < len || variant.resident != QuerySet::ALL) {
        return Err(DeviceError::Unsupported(format!(
            "{} tables of bases that are streamed or used in chunks",
            variant.tables
        )));
    }
    let bases_chunk = equal(chunk, variant.bases_chunk);
    // The plan is shared, so the costlier group decides.
    let costliest = if queries.iter().any(|query| query.is_g2()) { Group::G2 } else { Group::G1 };
    let most = variant.tables.min(MOST_TABLES);
    let shape = match variant.windows {
        Windows::Fixed(window_bits) => {
            let alone = DigitsShape::new(chunk as u64, window_bits);
            alone.with_tables(useful_tables(device, costliest, alone, most)?)
        }
        Windows::OfChunk => shape_for_tables(device, costliest, full_len(stage, chunk), most)?,
        Windows::OfQuery => shape_for_tables(device, costliest, full_len(stage, len), most)?,
    };
    let shape = DigitsShape { max_len: chunk as u64, ..shape };
    let queries = queries
        .iter()
        .map(|&query| {
            let (accumulator, windows) = match query {
                Query::H => ("h_buckets", "h_windows"),
                Query::L => ("l_buckets", "l_windows"),
                Query::A => ("a_buckets", "a_windows"),
                Query::BG1 => ("b_g1_buckets", "b_g1_windows"),
                Query::BG2 => ("b_g2_buckets", "b_g2_windows"),
            };
            let layout = device.msm_layout(group_of(query), shape)?;
            let streamed = !variant.resident.contains(query);
            Ok(MsmQuery { query, streamed, layout, accumulator, windows })
        })
        .collect::<Result<_>>()?;
    let digits = device.digits_layout(shape)?;
    // Buffers of two stages meet when they are filled ahead, so each stage has its own names.
    let (bases, base_map) = match stage {
        Stage::La => (["la_bases_0", "la_bases_1"], "la_base_map"),
        Stage::B => (["b_bases_0", "b_bases_1"], "b_base_map"),
        _ => (["h_bases_0", "h_bases_1"], "h_base_map"),
    };
    Ok(MsmGroup { stage, len, chunk, bases_chunk, digits, bases, base_map, queries })
}

/// How many of `len` scalars a stage should expect to be of full size.
fn full_len(stage: Stage, len: usize) -> u64 {
    match stage {
        Stage::La | Stage::B => full_len_of_witness(len as u64),
        _ => len as u64,
    }
}

/// The same of a witness: most of it is bits. Of full size are 2% in Filecoin's PoRep and 29% in
/// Sapling's Spend; an eighth is between them.
pub(crate) const fn full_len_of_witness(len: u64) -> u64 {
    len.div_ceil(8)
}

/// Plans for `len` scalars of full size and bases of at most so many tables, of the width that suits
/// them.
///
/// # Errors
/// As [`Device::msm_layout`].
pub(crate) fn shape_for_tables(
    device: &dyn Device,
    group: Group,
    len: u64,
    most: u32,
) -> Result<DigitsShape> {
    let alone = DigitsShape::new(len, device.window_bits(group, len));
    let most = useful_tables(device, group, alone, most)?;
    // Work is windows * (additions of scalars + those of a window's buckets); of T tables it is
    // windows / T * (T * the former + the latter), least for the width that suits T times as many.
    let wide = device.window_bits(group, len.saturating_mul(most.into()));
    let alone = DigitsShape::new(len, wide);
    Ok(alone.with_tables(useful_tables(device, group, alone, most)?))
}

/// No more tables than take all digits with as few windows as `most` would.
fn useful_tables(device: &dyn Device, group: Group, alone: DigitsShape, most: u32) -> Result<u32> {
    if most <= 1 {
        return Ok(most.max(1));
    }
    let digits = device.msm_layout(group, alone)?.num_windows.max(1);
    Ok(digits.div_ceil(digits.div_ceil(most)))
}
