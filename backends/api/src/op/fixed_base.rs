//! Many multiples of one point, for making keys.

use super::{Access, Map, apply, check_disjoint, check_len};
use crate::error::{Error, Result};
use crate::layout::Group;
use crate::memory::{FrView, PointView, View};

/// `target[i] = scalars[i] * P`, by a table of P's multiples.
///
/// The table holds `d * 2^(window_bits * j) * P` at `j * 2^(window_bits - 1) + d - 1`, for each of
/// the [`FixedBase::num_windows`] windows j and each d in 1..=2^(window_bits - 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedBase {
    group: Group,
    window_bits: u32,
    table: View,
    scalars: View,
    target: View,
}

impl FixedBase {
    /// The widest window.
    pub const MAX_WINDOW_BITS: u32 = 16;

    /// Windows of a table: one bit more than a scalar has, so that the top digit needs no carry.
    pub const fn num_windows(window_bits: u32) -> u32 {
        256u32.div_ceil(window_bits)
    }

    /// Points of a table.
    pub const fn table_len(window_bits: u32) -> u64 {
        (Self::num_windows(window_bits) as u64) << (window_bits - 1)
    }

    /// # Errors
    /// `InvalidArgument` unless `window_bits` is 1 to 16, the table has [`FixedBase::table_len`]
    /// points of the target's group, there is one target point a scalar, and nothing overlaps.
    pub fn new(
        window_bits: u32,
        table: PointView,
        scalars: FrView,
        target: PointView,
    ) -> Result<Self> {
        const OP: &str = "fixed_base";
        if !(1..=Self::MAX_WINDOW_BITS).contains(&window_bits) {
            let most = Self::MAX_WINDOW_BITS;
            return Err(Error::invalid(format!(
                "{OP}: windows of {window_bits} bits, 1 to {most}"
            )));
        }
        let group = target.group();
        if table.group() != group {
            return Err(Error::invalid(format!(
                "{OP}: a table over {} for multiples in {}",
                table.group().name(),
                group.name()
            )));
        }
        check_len(OP, table.view().name(), table.len(), Self::table_len(window_bits))?;
        check_len(OP, target.view().name(), target.len(), scalars.len())?;
        let (table, scalars, target) = (table.view(), scalars.view(), target.view());
        check_disjoint(OP, &[table, target])?;
        check_disjoint(OP, &[scalars, target])?;
        Ok(Self { group, window_bits, table, scalars, target })
    }

    /// The group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// The width of the table's windows.
    pub const fn window_bits(&self) -> u32 {
        self.window_bits
    }

    /// Affine points, read.
    pub const fn table(&self) -> View {
        self.table
    }

    /// Fr elements in Montgomery form.
    pub const fn scalars(&self) -> View {
        self.scalars
    }

    /// Affine points, written.
    pub const fn target(&self) -> View {
        self.target
    }

    /// Number of multiples.
    pub const fn len(&self) -> u64 {
        self.target.len_bytes() / self.group.affine_bytes()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.target.len_bytes() == 0
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.table, Access::Read, map)?;
        apply(&mut self.scalars, Access::Read, map)?;
        apply(&mut self.target, Access::Write, map)
    }
}
