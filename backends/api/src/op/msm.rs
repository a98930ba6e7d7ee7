//! Multi-scalar multiplication by Pippenger's buckets, in three operations:
//!
//! 1. [`Digits`] cuts scalars into signed digits of `window_bits` bits and sorts them by window
//!    and bucket: a plan, which every MSM over the same scalars reuses, in either group.
//! 2. [`MsmAccumulate`] adds the bases into an accumulator's buckets by such a plan. Chunks of
//!    bases, each with the plan of its scalars, accumulate one after the other.
//! 3. [`MsmReduce`] sums each window's buckets. The host combines the few window sums:
//!    sum over i of 2^(window_bits * i) * windows\[i\].

use super::{Access, Map, apply, check_arena_aligned, check_at_least, check_disjoint, check_len};
use crate::error::{Error, Result};
use crate::layout::Group;
use crate::memory::{FrView, IndexView, PointView, View};

/// What a digit plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DigitsShape {
    /// The most scalars a plan holds. Plans of fewer fit the same buffers.
    pub max_len: u64,
    /// Bits of a window; [`crate::Device::window_bits`] knows a good value.
    pub window_bits: u32,
    /// Tables of bases, 1 for the bases alone. Table t holds 2^(t * [`MsmLayout::shift_bits`]) times
    /// each base and takes the digits of that weight and above, so that windows share buckets:
    /// fewer to sum, and wider ones pay. [`super::BaseTables`] makes them. A device may know of one
    /// only (`Unsupported`).
    pub tables: u32,
}

impl DigitsShape {
    /// For bases alone.
    pub const fn new(max_len: u64, window_bits: u32) -> Self {
        Self { max_len, window_bits, tables: 1 }
    }

    /// The same for so many tables of bases.
    #[must_use]
    pub const fn with_tables(self, tables: u32) -> Self {
        Self { tables, ..self }
    }
}

/// Sizes of a digit plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigitsLayout {
    /// What the sizes are for.
    pub shape: DigitsShape,
    /// Size of the plan in bytes.
    pub plan_bytes: u64,
    /// Scratch of [`Digits`] in bytes.
    pub workspace_bytes: u64,
}

/// Sizes of an MSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmLayout {
    /// The plans it takes.
    pub shape: DigitsShape,
    /// The group of its bases.
    pub group: Group,
    /// Size of the bucket accumulator in bytes; all zeros is empty.
    pub accumulator_bytes: u64,
    /// Scratch of [`MsmAccumulate`] in bytes.
    pub accumulate_workspace_bytes: u64,
    /// Scratch of [`MsmReduce`] in bytes.
    pub reduce_workspace_bytes: u64,
    /// Points that [`MsmReduce`] writes: windows with buckets of their own.
    pub num_windows: u32,
}

impl MsmLayout {
    /// Doublings that lead from a table of bases to the next.
    pub const fn shift_bits(&self) -> u32 {
        self.shape.window_bits.saturating_mul(self.num_windows)
    }
}

/// Makes a digit plan of `scalars` (Fr in Montgomery form).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digits {
    shape: DigitsShape,
    scalars: View,
    plan: View,
    workspace: View,
}

impl Digits {
    /// # Errors
    /// `InvalidArgument` when there are more scalars than the layout allows, a buffer is too small
    /// or misaligned, or views overlap.
    pub fn new(
        layout: &DigitsLayout,
        scalars: FrView,
        plan: View,
        workspace: View,
    ) -> Result<Self> {
        const OP: &str = "digits";
        if scalars.len() > layout.shape.max_len {
            return Err(Error::invalid(format!(
                "{OP}: {} scalars in a plan for {}",
                scalars.len(),
                layout.shape.max_len
            )));
        }
        check_at_least(OP, plan, layout.plan_bytes)?;
        check_at_least(OP, workspace, layout.workspace_bytes)?;
        check_arena_aligned(OP, plan)?;
        check_arena_aligned(OP, workspace)?;
        check_disjoint(OP, &[scalars.view(), plan, workspace])?;
        Ok(Self { shape: layout.shape, scalars: scalars.view(), plan, workspace })
    }

    /// What the plan is made for.
    pub const fn shape(&self) -> DigitsShape {
        self.shape
    }

    /// Fr elements.
    pub const fn scalars(&self) -> View {
        self.scalars
    }

    /// The plan, written.
    pub const fn plan(&self) -> View {
        self.plan
    }

    /// Scratch.
    pub const fn workspace(&self) -> View {
        self.workspace
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.scalars, Access::Read, map)?;
        apply(&mut self.plan, Access::Write, map)?;
        apply(&mut self.workspace, Access::Scratch, map)
    }
}

/// Which base belongs to scalar i of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseOf {
    /// Base i - `leading`; the first `leading` scalars have none.
    Offset {
        /// Scalars without a base.
        leading: u64,
    },
    /// Base `indices[i] - first`; none where `indices[i]` is [`crate::layout::NO_BASE`] or the
    /// difference is no index of the bases. So one map serves all chunks of a streamed query.
    Indexed {
        /// One index a scalar.
        indices: View,
        /// The index of the first base at hand.
        first: u32,
    },
}

impl BaseOf {
    /// Base i for scalar i.
    pub const fn same() -> Self {
        Self::Offset { leading: 0 }
    }

    /// Base `indices[i] - first`.
    pub const fn indexed(indices: IndexView, first: u32) -> Self {
        Self::Indexed { indices: indices.view(), first }
    }
}

/// Points of each of so many tables.
pub(super) fn table_len(op: &str, points: PointView, tables: u32) -> Result<u64> {
    let len = points.len();
    match len.checked_rem(tables.into()) {
        Some(0) => Ok(len / u64::from(tables)),
        _ => Err(Error::invalid(format!(
            "{op}: {} has {len} points for {tables} tables",
            points.view().name()
        ))),
    }
}

/// Adds `bases` into the buckets of `accumulator` as `plan` says.
///
/// A plan that no [`Digits`] made for an equal shape and as many scalars is the caller's mistake,
/// which shows on the device only: a backend that can tell fails with `KernelFailed`, any other
/// gives an undefined sum. None touches memory outside the operation's views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmAccumulate {
    shape: DigitsShape,
    group: Group,
    len: u64,
    plan: View,
    bases: View,
    base_of: BaseOf,
    accumulator: View,
    workspace: View,
}

impl MsmAccumulate {
    /// `len` is the number of scalars that `plan` was made of. `bases` are all tables, one behind the
    /// other; `base_of` says which base of each.
    ///
    /// # Errors
    /// `InvalidArgument` when the tables are of unequal length, the numbers of scalars and bases do
    /// not agree (with an offset), the map's length differs from `len`, a buffer is too small or misaligned, or views overlap.
    pub fn new(
        layout: &MsmLayout,
        (plan, len): (View, u64),
        bases: PointView,
        base_of: BaseOf,
        accumulator: View,
        workspace: View,
    ) -> Result<Self> {
        const OP: &str = "msm_accumulate";
        if len > layout.shape.max_len {
            return Err(Error::invalid(format!(
                "{OP}: {len} scalars in a plan for {}",
                layout.shape.max_len
            )));
        }
        if bases.group() != layout.group {
            return Err(Error::invalid(format!(
                "{OP}: bases in {}, layout for {}",
                bases.group().name(),
                layout.group.name()
            )));
        }
        let num_bases = table_len(OP, bases, layout.shape.tables)?;
        let mut views = vec![plan, bases.view(), accumulator, workspace];
        match base_of {
            BaseOf::Offset { leading } => {
                check_len(OP, bases.view().name(), num_bases, len.saturating_sub(leading))?;
            }
            BaseOf::Indexed { indices, .. } => {
                check_len(OP, indices.name(), IndexView::new(indices)?.len(), len)?;
                views.push(indices);
            }
        }
        check_at_least(OP, accumulator, layout.accumulator_bytes)?;
        check_at_least(OP, workspace, layout.accumulate_workspace_bytes)?;
        check_arena_aligned(OP, plan)?;
        check_arena_aligned(OP, accumulator)?;
        check_arena_aligned(OP, workspace)?;
        check_disjoint(OP, &views)?;
        Ok(Self {
            shape: layout.shape,
            group: layout.group,
            len,
            plan,
            bases: bases.view(),
            base_of,
            accumulator,
            workspace,
        })
    }

    /// What the plan was made for.
    pub const fn shape(&self) -> DigitsShape {
        self.shape
    }

    /// The group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Scalars in the plan.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The plan.
    pub const fn plan(&self) -> View {
        self.plan
    }

    /// Affine points, table by table.
    pub const fn bases(&self) -> View {
        self.bases
    }

    /// Bases of one table.
    pub fn num_bases(&self) -> u64 {
        self.bases.len_bytes() / self.group.affine_bytes() / u64::from(self.shape.tables.max(1))
    }

    /// Which base belongs to which scalar.
    pub const fn base_of(&self) -> BaseOf {
        self.base_of
    }

    /// Buckets, read and written.
    pub const fn accumulator(&self) -> View {
        self.accumulator
    }

    /// Scratch.
    pub const fn workspace(&self) -> View {
        self.workspace
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.plan, Access::Read, map)?;
        apply(&mut self.bases, Access::Read, map)?;
        if let BaseOf::Indexed { indices, .. } = &mut self.base_of {
            apply(indices, Access::Read, map)?;
        }
        apply(&mut self.accumulator, Access::ReadWrite, map)?;
        apply(&mut self.workspace, Access::Scratch, map)
    }
}

/// Sums each window's buckets: writes `num_windows` Jacobian points (x, y, z in Montgomery form,
/// z = 0 is infinity). The accumulator's content is undefined afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmReduce {
    shape: DigitsShape,
    group: Group,
    num_windows: u32,
    accumulator: View,
    windows: View,
    workspace: View,
}

impl MsmReduce {
    /// # Errors
    /// `InvalidArgument` when a buffer is too small or misaligned, `windows` is not exactly
    /// `num_windows` points, or views overlap.
    pub fn new(
        layout: &MsmLayout,
        accumulator: View,
        windows: View,
        workspace: View,
    ) -> Result<Self> {
        const OP: &str = "msm_reduce";
        check_at_least(OP, accumulator, layout.accumulator_bytes)?;
        check_at_least(OP, workspace, layout.reduce_workspace_bytes)?;
        let windows_bytes = u64::from(layout.num_windows) * layout.group.jacobian_bytes();
        check_len(OP, windows.name(), windows.len_bytes(), windows_bytes)?;
        check_arena_aligned(OP, accumulator)?;
        check_arena_aligned(OP, windows)?;
        check_arena_aligned(OP, workspace)?;
        check_disjoint(OP, &[accumulator, windows, workspace])?;
        Ok(Self {
            shape: layout.shape,
            group: layout.group,
            num_windows: layout.num_windows,
            accumulator,
            windows,
            workspace,
        })
    }

    /// What the plans were made for.
    pub const fn shape(&self) -> DigitsShape {
        self.shape
    }

    /// The group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Points written.
    pub const fn num_windows(&self) -> u32 {
        self.num_windows
    }

    /// Buckets, consumed.
    pub const fn accumulator(&self) -> View {
        self.accumulator
    }

    /// Jacobian points, written.
    pub const fn windows(&self) -> View {
        self.windows
    }

    /// Scratch.
    pub const fn workspace(&self) -> View {
        self.workspace
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.accumulator, Access::Scratch, map)?;
        apply(&mut self.windows, Access::Write, map)?;
        apply(&mut self.workspace, Access::Scratch, map)
    }
}
