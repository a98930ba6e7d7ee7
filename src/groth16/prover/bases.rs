//! The key's points on their way to the device, and those that stay there.

use std::collections::BTreeMap;

use twinlock_api::layout::INDEX_BYTES;
use twinlock_api::op::{DecodePoints, Fill, PointCheck};
use twinlock_api::{
    Error as DeviceError, Group, IndexView, MemoryClass, Op, PointView, Result as DeviceResult,
};

use super::lane::Lane;
use super::partition::{StageError, StageResult};
use crate::Error;
use crate::groth16::params::{ParameterSource, PointEncoding, Query};
use crate::scheduler::arena::{Arena, Lease};
use crate::scheduler::staging::{Readback, StagingRing};

/// The group of a query's points.
pub(super) fn group_of(query: Query) -> Group {
    if query.is_g2() { Group::G2 } else { Group::G1 }
}

/// Fills `target` with the points of a query from the `first` on, on the copy stream. `status`
/// (filled with `u32::MAX` before) tells of malformed ones: see [`check_status`].
pub(super) fn load_points(
    lane: &Lane,
    source: &dyn ParameterSource,
    (query, first): (Query, usize),
    target: PointView,
    status: IndexView,
    staging: &mut StagingRing,
) -> StageResult {
    let device = &*lane.device;
    let point_bytes = query.point_bytes();
    staging.upload(
        device,
        lane.copy,
        target.view(),
        point_bytes as u64,
        |offset, out| -> Result<(), StageError> {
            Ok(source.read_points(query, first + offset as usize / point_bytes, out)?)
        },
    )?;
    if source.encoding() == PointEncoding::Uncompressed {
        let decode = DecodePoints::new(target, target, PointCheck::OnCurve, status)?;
        device.enqueue(lane.copy, &Op::DecodePoints(decode))?;
    }
    Ok(())
}

/// Refuses points that did not decode: `word` is the status of those from `first` on.
pub(super) fn check_status(
    source: &dyn ParameterSource,
    (query, first): (Query, usize),
    word: &[u8],
) -> Result<(), Error> {
    let word = <[u8; INDEX_BYTES as usize]>::try_from(word).map_or(0, u32::from_le_bytes);
    if word == u32::MAX {
        return Ok(());
    }
    let index = first + word as usize;
    Err(Error::Parameters {
        file: source.name().into(),
        section: query.name(),
        offset: source.point_offset(query, index),
        problem: format!("point {index} is malformed or not on the curve"),
    })
}

/// All queries of a key, kept on a device from proof to proof.
#[derive(Debug)]
pub(super) struct ResidentQueries {
    queries: BTreeMap<Query, (Lease, usize)>,
}

impl ResidentQueries {
    /// Bytes of resident memory that the key takes.
    pub fn size_bytes(source: &dyn ParameterSource) -> u64 {
        Query::ALL
            .iter()
            .map(|query| (source.query_len(*query) * query.point_bytes()) as u64)
            .map(|bytes| bytes.max(1).next_multiple_of(twinlock_api::layout::ARENA_ALIGN_BYTES))
            .sum()
    }

    /// Loads every query of `source` whole.
    pub fn load(
        lane: &Lane,
        arena: &Arena,
        source: &dyn ParameterSource,
        staging: &mut StagingRing,
        readback: &mut Readback,
    ) -> StageResult<Self> {
        let mut queries = BTreeMap::new();
        for query in Query::ALL {
            let len = source.query_len(query);
            let bytes = (len * query.point_bytes()) as u64;
            let lease = arena.lease(query.name(), MemoryClass::Resident, bytes)?;
            let status = arena.lease("decode_status", MemoryClass::Work, INDEX_BYTES)?;
            let target = PointView::new(lease.view(), group_of(query))?;
            let fill = Op::Fill(Fill::new(status.view(), u32::MAX));
            lane.device.enqueue(lane.copy, &fill)?;
            if len > 0 {
                let status = IndexView::new(status.view())?;
                load_points(lane, source, (query, 0), target, status, staging)?;
            }
            let word = readback.read(&*lane.device, lane.copy, status.view())?;
            check_status(source, (query, 0), &word)?;
            queries.insert(query, (lease, len));
        }
        Ok(Self { queries })
    }

    /// The points of a query.
    pub fn query(&self, query: Query) -> DeviceResult<PointView> {
        match self.queries.get(&query) {
            Some((lease, len)) => {
                PointView::new(lease.view(), group_of(query))?.slice(0, *len as u64)
            }
            None => Err(DeviceError::invalid(format!("query {} is not loaded", query.name()))),
        }
    }
}
