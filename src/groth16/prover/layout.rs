//! Every buffer of a proof: how large it is and in which stages it lives. The planner adds the
//! sizes up and the prover leases by the same list, so what was planned is what is used.

use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES, Group, INDEX_BYTES};
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{Device, MemoryClass, Result};

use super::shape::ProofShape;
use crate::groth16::params::Query;

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
    /// Whether the two are ever in use at once in the same memory.
    fn meets(&self, other: &Self) -> bool {
        self.class == other.class && self.first <= other.last && other.first <= self.last
    }

    /// Where the next buffer may start.
    fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.size_bytes.next_multiple_of(ARENA_ALIGN_BYTES)
    }
}

/// Gives every buffer its place: those that live longest first, then the largest, each at the
/// lowest offset that is free in all its stages.
fn place(buffers: &mut [Buffer]) {
    buffers.sort_by_key(|b| {
        (std::cmp::Reverse(b.last as u8 - b.first as u8), std::cmp::Reverse(b.size_bytes))
    });
    for at in 0..buffers.len() {
        let (placed, rest) = buffers.split_at_mut(at);
        let Some(buffer) = rest.first_mut() else { continue };
        let mut others: Vec<&Buffer> = placed.iter().filter(|p| p.meets(buffer)).collect();
        others.sort_by_key(|other| other.offset_bytes);
        buffer.offset_bytes = 0;
        for other in others {
            if buffer.end_bytes() <= other.offset_bytes {
                break;
            }
            buffer.offset_bytes = buffer.offset_bytes.max(other.end_bytes());
        }
    }
}

/// MSMs over one vector of scalars, by one digit sort.
#[derive(Debug, Clone)]
pub(super) struct MsmGroup {
    pub stage: Stage,
    /// Scalars in all.
    pub len: usize,
    /// Scalars of one plan; the last chunk may hold fewer.
    pub chunk: usize,
    pub digits: DigitsLayout,
    /// The queries, their MSM layouts and the names of their buffers.
    pub queries: Vec<MsmQuery>,
}

#[derive(Debug, Clone)]
pub(super) struct MsmQuery {
    pub query: Query,
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
}

/// What a caller may choose about a proof's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayoutOptions {
    /// Scalars of one digit plan at most.
    pub chunk: usize,
    /// A fixed window width instead of the device's choice.
    pub window_bits: Option<u32>,
    /// Whether bases come from the key's source chunk by chunk.
    pub streamed: bool,
}

/// All buffers of one proof on one device.
#[derive(Debug, Clone)]
pub(crate) struct ProofLayout {
    pub shape: ProofShape,
    pub(super) ntt: NttLayout,
    pub(super) groups: Vec<MsmGroup>,
    pub buffers: Vec<Buffer>,
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
pub(super) const BASES: [&str; 2] = ["bases_0", "bases_1"];
pub(super) const A_INDICES: &str = "a_indices";
pub(super) const B_VARIABLES: &str = "b_variables";
pub(super) const B_SCALARS: &str = "b_scalars";

impl ProofLayout {
    /// Sizes all buffers of a proof of `shape` on `device`.
    ///
    /// # Errors
    /// What the device's size queries answer: `ExceedsLimit` or `Unsupported`.
    pub fn new(device: &dyn Device, shape: ProofShape, options: LayoutOptions) -> Result<Self> {
        use MemoryClass::{Resident, Work};
        let ntt = device.ntt_layout(shape.lg_domain)?;
        let groups = [
            (Stage::H, shape.query_len(Query::H), &[Query::H][..]),
            (Stage::La, shape.variables(), &[Query::L, Query::A][..]),
            (Stage::B, shape.b, &[Query::BG1, Query::BG2][..]),
        ]
        .into_iter()
        .filter(|(_, len, _)| *len > 0)
        .map(|(stage, len, queries)| msm_group(device, stage, len, queries, options))
        .collect::<Result<Vec<_>>>()?;

        let mut buffers = Vec::new();
        let mut add = |name, class, size_bytes: u64, first, last| {
            if size_bytes > 0 {
                buffers.push(Buffer { name, class, offset_bytes: 0, size_bytes, first, last });
            }
        };
        let fr = |len: usize| len as u64 * FR_BYTES;
        let index = |len: usize| len as u64 * INDEX_BYTES;
        add(ASSIGNMENT, Work, fr(shape.variables()), Stage::Prestage, Stage::B);
        add(A, Work, fr(shape.domain()), Stage::Prestage, Stage::H);
        add(B, Work, fr(shape.domain()), Stage::Prestage, Stage::Quotient);
        add(C, Work, fr(shape.domain()), Stage::Prestage, Stage::Quotient);
        // Offered even where none is needed: every operation takes a workspace view.
        let ntt_bytes = ntt.workspace_bytes.max(ARENA_ALIGN_BYTES);
        add(NTT_WORKSPACE, Work, ntt_bytes, Stage::Quotient, Stage::Quotient);
        if !shape.a_is_dense() {
            add(A_INDICES, Resident, index(shape.variables()), Stage::La, Stage::La);
        }
        add(B_VARIABLES, Resident, index(shape.b), Stage::B, Stage::B);
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
            if options.streamed {
                let point_bytes = layouts().map(|msm| msm.group.affine_bytes()).fold(0, u64::max);
                for name in BASES {
                    add(name, Resident, group.chunk as u64 * point_bytes, stage, stage);
                }
                statuses += group.chunks().count() * group.queries.len();
            }
        }
        add(STATUS, Work, index(statuses), Stage::Prestage, Stage::Drain);
        place(&mut buffers);
        Ok(Self { shape, ntt, groups, buffers })
    }

    /// Bytes of `class` that the proof takes: the end of the last buffer. Placement can lose a
    /// little to holes over the largest stage. At least one unit, so that there is a lease.
    pub fn peak_bytes(&self, class: MemoryClass) -> u64 {
        (self.buffers.iter())
            .filter(|buffer| buffer.class == class)
            .map(Buffer::end_bytes)
            .max()
            .unwrap_or(ARENA_ALIGN_BYTES)
    }

    /// The buffer that has this name in `stage`.
    pub(super) fn buffer(&self, name: &str, stage: Stage) -> Option<&Buffer> {
        (self.buffers.iter())
            .find(|buffer| buffer.name == name && buffer.first <= stage && stage <= buffer.last)
    }
}

fn msm_group(
    device: &dyn Device,
    stage: Stage,
    len: usize,
    queries: &[Query],
    options: LayoutOptions,
) -> Result<MsmGroup> {
    let most = options.chunk.clamp(1, len);
    let chunk = len.div_ceil(len.div_ceil(most));
    // The plan is shared, so the costlier group decides.
    let group_of = |query: Query| if query.is_g2() { Group::G2 } else { Group::G1 };
    let costliest = if queries.iter().any(|query| query.is_g2()) { Group::G2 } else { Group::G1 };
    // Streaming is for little memory, and buckets are the largest part of it: a window that suits
    // a chunk takes fewer of them for a tenth more additions.
    let suited = if options.streamed { chunk } else { len };
    let window_bits =
        options.window_bits.unwrap_or_else(|| device.window_bits(costliest, suited as u64));
    let shape = DigitsShape { max_len: chunk as u64, window_bits };
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
            Ok(MsmQuery { query, layout, accumulator, windows })
        })
        .collect::<Result<_>>()?;
    Ok(MsmGroup { stage, len, chunk, digits: device.digits_layout(shape)?, queries })
}
