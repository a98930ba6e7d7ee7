//! Tables of bases' multiples, by which an MSM's windows share buckets.

use super::msm::table_len;
use super::{Access, Map, apply};
use crate::error::{Error, Result};
use crate::layout::Group;
use crate::memory::{PointView, View};

/// Fills all tables but the first, which holds the bases: each point is 2^`shift_bits` times the one
/// at its place in the table before. The bases have the group's prime order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseTables {
    group: Group,
    tables: u32,
    shift_bits: u32,
    points: View,
}

impl BaseTables {
    /// The most doublings from a table to the next: more than a scalar has bits, rounded up to windows.
    pub const MAX_SHIFT_BITS: u32 = 512;

    /// `points` are all tables, one behind the other. [`super::MsmLayout::shift_bits`] knows the
    /// shift.
    ///
    /// # Errors
    /// `InvalidArgument` for tables of unequal length, or a shift of more than
    /// [`BaseTables::MAX_SHIFT_BITS`].
    pub fn new(points: PointView, tables: u32, shift_bits: u32) -> Result<Self> {
        const OP: &str = "base_tables";
        table_len(OP, points, tables)?;
        if shift_bits > Self::MAX_SHIFT_BITS {
            let most = Self::MAX_SHIFT_BITS;
            return Err(Error::invalid(format!(
                "{OP}: a shift of {shift_bits} bits, {most} at most"
            )));
        }
        // Nothing, however often.
        let tables = if points.is_empty() { 1 } else { tables };
        Ok(Self { group: points.group(), tables, shift_bits, points: points.view() })
    }

    /// The group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Number of tables, the first included.
    pub const fn tables(&self) -> u32 {
        self.tables
    }

    /// Doublings from a table to the next.
    pub const fn shift_bits(&self) -> u32 {
        self.shift_bits
    }

    /// Affine points, table by table.
    pub const fn points(&self) -> View {
        self.points
    }

    /// Points of one table.
    pub fn len(&self) -> u64 {
        self.points.len_bytes() / self.group.affine_bytes() / u64::from(self.tables)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A table.
    ///
    /// # Errors
    /// `InvalidArgument` for one that there is not.
    pub fn table(&self, number: u32) -> Result<View> {
        let size_bytes = self.len() * self.group.affine_bytes();
        self.points.slice(u64::from(number).saturating_mul(size_bytes), size_bytes)
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.points, Access::ReadWrite, map)
    }
}
