//! The key's points on their way to the device, and those that stay there.

use std::collections::BTreeMap;

use twinlock_api::layout::INDEX_BYTES;
use twinlock_api::op::{BaseTables, DecodePoints, Fill, PointCheck};
use twinlock_api::{
    Error as DeviceError, Group, IndexView, Op, PointView, Result as DeviceResult, View,
};

use super::lane::Lane;
use super::partition::{StageError, StageResult};
use crate::Error;
use crate::groth16::params::{ParameterSource, PointEncoding, Query};
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
    staging.upload_on(
        staging.readers(),
        device,
        lane.copy,
        (target.view(), point_bytes as u64),
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

/// Where a query is to stay.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub query: Query,
    /// Its tables, one behind the other.
    pub points: View,
    pub tables: u32,
    /// Doublings from a table to the next.
    pub shift_bits: u32,
}

/// Loads a query of `source` whole, and makes its tables.
pub(super) fn load_query(
    lane: &Lane,
    source: &dyn ParameterSource,
    kept: Kept,
    status: View,
    staging: &mut StagingRing,
    readback: &mut Readback,
) -> StageResult {
    let Kept { query, points, tables, shift_bits } = kept;
    let points = PointView::new(points, group_of(query))?;
    let loaded = points.slice(0, points.len() / u64::from(tables.max(1)))?;
    lane.device.enqueue(lane.copy, &Op::Fill(Fill::new(status, u32::MAX)))?;
    load_points(lane, source, (query, 0), loaded, IndexView::new(status)?, staging)?;
    if tables > 1 {
        let tables = BaseTables::new(points, tables, shift_bits)?;
        lane.device.enqueue(lane.copy, &Op::BaseTables(tables))?;
    }
    let word = readback.read(&*lane.device, lane.copy, status)?;
    check_status(source, (query, 0), &word).map_err(StageError::from)
}

/// The queries that stay on the device and that a partition reads.
#[derive(Debug, Default)]
pub(super) struct ResidentQueries {
    queries: BTreeMap<Query, View>,
}

impl ResidentQueries {
    /// Says where a query lies.
    pub fn insert(&mut self, query: Query, points: View) {
        self.queries.insert(query, points);
    }

    /// The points of a query.
    pub fn query(&self, query: Query) -> DeviceResult<PointView> {
        match self.queries.get(&query) {
            Some(view) => PointView::new(*view, group_of(query)),
            None => Err(DeviceError::invalid(format!("query {} is not loaded", query.name()))),
        }
    }
}
