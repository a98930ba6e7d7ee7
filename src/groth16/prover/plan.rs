//! A layout as the scheduler sees it: a profile of buffers, and the way back.

use std::sync::Arc;

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Device, Error as DeviceError, MemoryClass, Result as DeviceResult};

use super::layout::{ProofLayout, Stage};
use super::shape::ProofShape;
use super::variant::{AssignmentUpload, NttBuffers, QuerySet, Variant, Windows};
use crate::Result;
use crate::config::ProverOptions;
use crate::groth16::params::Query;
use crate::scheduler::admission::{
    BufferNeed, Placement, PoolId, Profile, ResidentKey, ResidentNeed,
};
use crate::scheduler::plan::{self, Limits, Residents};

/// Scalars of one digit plan where there is no room for whole queries, or they are streamed, unless the
/// options or a small device say otherwise.
const DEFAULT_CHUNK: usize = 1 << 20;
/// A streamed query is cut into about this many chunks, so that its buffers stay small beside it.
const STREAMED_CHUNKS: usize = 8;
/// Streamed chunks below this only add work.
const SMALLEST_STREAMED_CHUNK: usize = 1 << 13;

/// Tables of multiples: a scalar has no more digits than this.
pub(super) const MOST_TABLES: u32 = 128;

/// The memories of a device in the order of their [`PoolId`].
pub(super) const POOLS: [MemoryClass; 2] = [MemoryClass::Work, MemoryClass::Resident];

pub(super) fn pool_of(class: MemoryClass) -> PoolId {
    match class {
        MemoryClass::Work => PoolId(0),
        MemoryClass::Resident => PoolId(1),
    }
}

/// A key whose queries may stay on devices; every key has its own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyId(pub u64);

/// Bits that a [`ResidentKey`] has for the doublings between tables, which are no more than a scalar
/// has bits and a window, and for the query.
const SHIFT_FIELD_BITS: u32 = 10;
const QUERY_FIELD_BITS: u32 = 3;

impl KeyId {
    /// A query's points, or its tables: those of another number or shift are another resident.
    fn resident(self, query: Query, (tables, shift_bits): (u32, u32)) -> ResidentKey {
        let kind = self.0 * u64::from(MOST_TABLES + 1) + u64::from(tables.min(MOST_TABLES));
        let kind = kind << SHIFT_FIELD_BITS | u64::from(shift_bits);
        ResidentKey(kind << QUERY_FIELD_BITS | query as u64)
    }
}

/// The query of the key that a resident belongs to.
pub(super) fn query_of(key: ResidentKey) -> Option<Query> {
    Query::ALL.into_iter().find(|query| *query as u64 == key.0 & ((1 << QUERY_FIELD_BITS) - 1))
}

/// A layout with its profile.
pub(super) struct Plan {
    pub layout: ProofLayout,
    pub profile: Arc<Profile>,
    /// Whether each memory is asked for as one buffer, in which the layout has its own places.
    /// Holds more for longer, and fits where the buffers one by one leave holes.
    whole: bool,
}

impl Plan {
    /// Asks for each buffer, in the stages it lives in, and for the queries of `key` that stay.
    pub fn by_buffer(layout: ProofLayout, key: Option<KeyId>) -> Result<Self> {
        let needs = layout.buffers.iter().map(|buffer| BufferNeed {
            name: buffer.name,
            pool: pool_of(buffer.class),
            size_bytes: buffer.size_bytes,
            first: buffer.first as u8,
            last: buffer.last as u8,
        });
        let profile = Arc::new(Profile::new(needs.collect(), residents(&layout, key))?);
        Ok(Self { layout, profile, whole: false })
    }

    /// Asks for each memory at once, and for the queries of `key` that stay.
    pub fn whole(layout: ProofLayout, key: Option<KeyId>) -> Result<Self> {
        let needs = POOLS.map(|class| BufferNeed {
            name: "partition",
            pool: pool_of(class),
            size_bytes: layout.peak_bytes(class),
            first: Stage::Prestage as u8,
            last: Stage::Drain as u8,
        });
        let profile = Arc::new(Profile::new(needs.to_vec(), residents(&layout, key))?);
        Ok(Self { layout, profile, whole: true })
    }

    /// Asks for the queries of `key` that stay and for nothing else.
    pub fn residents_only(&self) -> Result<Arc<Profile>> {
        Ok(Arc::new(Profile::new(Vec::new(), self.profile.residents().to_vec())?))
    }

    /// Bytes of each memory, in the order of [`POOLS`], without the residents.
    pub fn peaks_bytes(&self) -> [u64; 2] {
        POOLS.map(|class| self.layout.peak_bytes(class))
    }

    /// Bytes of the residents.
    pub fn resident_bytes(&self) -> u64 {
        let needs = self.profile.residents().iter();
        needs.map(|need| need.size_bytes.next_multiple_of(ARENA_ALIGN_BYTES)).sum()
    }

    /// Bytes of all that a layout takes, with the queries of `key` that stay.
    pub fn bytes_of(layout: &ProofLayout, key: Option<KeyId>) -> u64 {
        let kept: u64 = residents(layout, key).iter().map(|need| need.size_bytes).sum();
        POOLS.iter().fold(kept, |sum, class| sum + layout.peak_bytes(*class))
    }

    /// The layout's buffers that lie in a placement, by their index, and where.
    pub fn buffers_of(&self, placement: &Placement) -> Vec<(usize, u64)> {
        if !self.whole {
            return vec![(placement.buffer, placement.offset_bytes)];
        }
        let buffers = self.layout.buffers.iter().enumerate();
        let there = buffers.filter(|(_, buffer)| pool_of(buffer.class) == placement.pool);
        there.map(|(at, buffer)| (at, placement.offset_bytes + buffer.offset_bytes)).collect()
    }
}

fn residents(layout: &ProofLayout, key: Option<KeyId>) -> Vec<ResidentNeed> {
    let Some(key) = key else { return Vec::new() };
    let staying = layout.variant.resident.iter().filter(|q| layout.shape.query_len(*q) > 0);
    let need = |query| ResidentNeed {
        key: key.resident(query, layout.tables(query)),
        pool: pool_of(MemoryClass::Resident),
        size_bytes: layout.resident_bytes(query),
    };
    staying.map(need).collect()
}

/// A roomy layout for queries that stay, where there is room for one; the usual layout if it and the
/// queries that stay fit `budget_bytes`, else the best that does.
pub(super) fn fitting_layout(
    device: &dyn Device,
    shape: ProofShape,
    stays: bool,
    most_chunk: Option<usize>,
    budget_bytes: u64,
    options: &ProverOptions,
) -> DeviceResult<ProofLayout> {
    let resident = if stays { QuerySet::ALL } else { QuerySet::NONE };
    if let Some(variant) = options.variant {
        let resident = variant.resident.and(resident);
        let tables = if stays { variant.tables } else { 1 };
        return ProofLayout::new(device, shape, Variant { resident, tables, ..variant });
    }
    let (chunk, windows) = match stays {
        true => (DEFAULT_CHUNK, Windows::OfQuery),
        // Streaming is for little memory, and buckets are the largest part of it.
        false => (
            (shape.domain() / STREAMED_CHUNKS).clamp(SMALLEST_STREAMED_CHUNK, DEFAULT_CHUNK),
            Windows::OfChunk,
        ),
    };
    let chunk = options.msm_chunk.unwrap_or(chunk).min(most_chunk.unwrap_or(usize::MAX)).max(1);
    let usual = Variant {
        chunk,
        bases_chunk: chunk,
        windows: options.window_bits.map_or(windows, Windows::Fixed),
        resident,
        tables: 1,
        ntt_buffers: NttBuffers::Three,
        assignment: AssignmentUpload::Prestage,
        // Takes memory for two stages of bases where they are streamed, and for index maps where not.
        ahead: stays,
    };
    if stays
        && most_chunk.is_none()
        && let Some(layout) = roomy_layout(device, shape, usual, budget_bytes, options)
    {
        return Ok(layout);
    }
    let layout = ProofLayout::new(device, shape, usual)?;
    if needed_bytes(&layout, 1) <= budget_bytes {
        return Ok(layout);
    }
    let limits = Limits {
        residents: if stays { Residents::Choose } else { Residents::Loaded(QuerySet::NONE) },
        most_chunk: Some(chunk),
        window_bits: options.window_bits,
        ..Limits::new(budget_bytes)
    };
    let variant = plan::best(device, shape, &limits)?.variant;
    tracing::debug!(?variant, budget_bytes, "not the usual layout, for want of memory");
    ProofLayout::new(device, shape, variant)
}

/// A layout whose MSMs are cut into no more chunks than the device likes, with the most tables of
/// multiples that were asked for, if all workers have room for such at once.
fn roomy_layout(
    device: &dyn Device,
    shape: ProofShape,
    usual: Variant,
    budget_bytes: u64,
    options: &ProverOptions,
) -> Option<ProofLayout> {
    let whole = shape.domain().max(shape.variables());
    let good = usize::try_from(device.good_plan_len()).unwrap_or(usize::MAX);
    let chunk = options.msm_chunk.unwrap_or(good.min(whole)).max(1);
    // Tables are used whole.
    let most = if options.msm_chunk.is_some_and(|chunk| chunk < whole) { 1 } else { MOST_TABLES };
    let mut tables = options.base_tables.clamp(1, most);
    loop {
        let chunk = if tables == 1 { chunk } else { whole };
        let variant = Variant { tables, chunk, bases_chunk: chunk, ..usual };
        match ProofLayout::new(device, shape, variant) {
            Ok(layout) if needed_bytes(&layout, options.workers as u64) <= budget_bytes => {
                return Some(layout);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(tables, %error, "no layout of whole queries"),
        }
        if tables == 1 {
            return None;
        }
        // By a quarter: for many tables each number costs a plan, and neighbours hardly differ.
        tables -= tables.div_ceil(4);
    }
}

/// Bytes of the queries that stay and of so many partitions at once.
fn needed_bytes(layout: &ProofLayout, partitions: u64) -> u64 {
    let kept = layout.variant.resident.iter().map(|query| layout.resident_bytes(query));
    let one: u64 = POOLS.iter().map(|class| layout.peak_bytes(*class)).sum();
    kept.fold(one.saturating_mul(partitions.max(1)), u64::saturating_add)
}

/// Chunks are not made smaller than this because holes are in the way.
const SMALLEST_CHUNK: usize = 1 << 10;

/// The chunk to try after one that fits the memories by its bytes and yet has no place in them.
pub(super) fn smaller_chunk(layout: &ProofLayout) -> Option<usize> {
    let chunk = layout.variant.chunk.min(layout.shape.domain());
    (chunk > SMALLEST_CHUNK).then_some(chunk / 2)
}

/// Why a partition was not admitted though it was planned to fit.
pub(super) fn no_place(needed_bytes: u64, capacity_bytes: u64) -> DeviceError {
    DeviceError::ExceedsLimit {
        what: "bytes of device memory for a proof".into(),
        requested: needed_bytes,
        limit: capacity_bytes,
    }
}
