//! Operations on words and on vectors over Fr.

use super::{Access, Map, apply, check_disjoint, check_len, check_same_or_disjoint};
use crate::error::Result;
use crate::layout::INDEX_BYTES;
use crate::memory::{FrView, IndexView, View};

/// Sets every 32-bit word of `target` to `word`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    target: View,
    word: u32,
}

impl Fill {
    /// Fills all of `target`.
    pub const fn new(target: View, word: u32) -> Self {
        Self { target, word }
    }

    /// Zeroes all of `target`.
    pub const fn zero(target: View) -> Self {
        Self::new(target, 0)
    }

    /// What is written.
    pub const fn target(&self) -> View {
        self.target
    }

    /// The word.
    pub const fn word(&self) -> u32 {
        self.word
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.target, Access::Write, map)
    }
}

/// Copies `source` over `target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    source: View,
    target: View,
}

impl Copy {
    /// # Errors
    /// `InvalidArgument` when the lengths differ or the views overlap.
    pub fn new(source: View, target: View) -> Result<Self> {
        check_len("copy", target.name(), target.len_bytes(), source.len_bytes())?;
        check_disjoint("copy", &[source, target])?;
        Ok(Self { source, target })
    }

    /// What is read.
    pub const fn source(&self) -> View {
        self.source
    }

    /// What is written.
    pub const fn target(&self) -> View {
        self.target
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.source, Access::Read, map)?;
        apply(&mut self.target, Access::Write, map)
    }
}

/// `target[i] = source[indices[i]]`. An index past the source gives zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    source: View,
    indices: View,
    target: View,
}

impl Gather {
    /// # Errors
    /// `InvalidArgument` unless there is one target element an index and nothing overlaps.
    pub fn new(source: FrView, indices: IndexView, target: FrView) -> Result<Self> {
        check_len("gather", target.view().name(), target.len(), indices.len())?;
        let (source, indices, target) = (source.view(), indices.view(), target.view());
        check_disjoint("gather", &[source, target])?;
        check_disjoint("gather", &[indices, target])?;
        Ok(Self { source, indices, target })
    }

    /// Fr elements.
    pub const fn source(&self) -> View {
        self.source
    }

    /// One `u32` a target element.
    pub const fn indices(&self) -> View {
        self.indices
    }

    /// Fr elements.
    pub const fn target(&self) -> View {
        self.target
    }

    /// Number of elements gathered.
    pub const fn len(&self) -> u64 {
        self.indices.len_bytes() / INDEX_BYTES
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.indices.len_bytes() == 0
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.source, Access::Read, map)?;
        apply(&mut self.indices, Access::Read, map)?;
        apply(&mut self.target, Access::Write, map)
    }
}

/// What [`Vector`] computes for every element; `k` is a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorKind {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a * k
    Scale,
    /// (a * b - c) * k: the quotient's numerator over the constant 1/Z of a coset.
    MulSubScale,
}

/// Element-wise arithmetic over Fr. `target` may be the same bytes as any input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vector {
    kind: VectorKind,
    a: View,
    b: View,
    c: View,
    factor: [u32; 8],
    target: View,
}

impl Vector {
    fn checked(
        kind: VectorKind,
        [a, b, c]: [FrView; 3],
        factor: [u32; 8],
        target: FrView,
    ) -> Result<Self> {
        for input in [a, b, c] {
            check_len("vector", input.view().name(), input.len(), target.len())?;
            check_same_or_disjoint("vector", input.view(), target.view())?;
        }
        Ok(Self { kind, a: a.view(), b: b.view(), c: c.view(), factor, target: target.view() })
    }

    /// `target = a + b`.
    ///
    /// # Errors
    /// `InvalidArgument` when lengths differ or an input partly overlaps the target.
    pub fn add(a: FrView, b: FrView, target: FrView) -> Result<Self> {
        Self::checked(VectorKind::Add, [a, b, a], [0; 8], target)
    }

    /// `target = a - b`.
    ///
    /// # Errors
    /// As [`Vector::add`].
    pub fn sub(a: FrView, b: FrView, target: FrView) -> Result<Self> {
        Self::checked(VectorKind::Sub, [a, b, a], [0; 8], target)
    }

    /// `target = a * b`.
    ///
    /// # Errors
    /// As [`Vector::add`].
    pub fn mul(a: FrView, b: FrView, target: FrView) -> Result<Self> {
        Self::checked(VectorKind::Mul, [a, b, a], [0; 8], target)
    }

    /// `target = a * factor`; `factor` in canonical layout (Montgomery form).
    ///
    /// # Errors
    /// As [`Vector::add`].
    pub fn scale(a: FrView, factor: [u32; 8], target: FrView) -> Result<Self> {
        Self::checked(VectorKind::Scale, [a, a, a], factor, target)
    }

    /// `target = (a * b - c) * factor`; `factor` in canonical layout (Montgomery form).
    ///
    /// # Errors
    /// As [`Vector::add`].
    pub fn mul_sub_scale(
        a: FrView,
        b: FrView,
        c: FrView,
        factor: [u32; 8],
        target: FrView,
    ) -> Result<Self> {
        Self::checked(VectorKind::MulSubScale, [a, b, c], factor, target)
    }

    /// The formula.
    pub const fn kind(&self) -> VectorKind {
        self.kind
    }

    /// First input.
    pub const fn a(&self) -> View {
        self.a
    }

    /// Second input; `a` again where the formula has none.
    pub const fn b(&self) -> View {
        self.b
    }

    /// Third input; `a` again where the formula has none.
    pub const fn c(&self) -> View {
        self.c
    }

    /// The constant, in Montgomery form.
    pub const fn factor(&self) -> [u32; 8] {
        self.factor
    }

    /// What is written.
    pub const fn target(&self) -> View {
        self.target
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        let (a, b, c) = (self.a, self.b, self.c);
        apply(&mut self.a, Access::Read, map)?;
        match self.kind {
            VectorKind::Add | VectorKind::Sub | VectorKind::Mul => {
                apply(&mut self.b, Access::Read, map)?;
                self.c = self.a;
            }
            VectorKind::Scale => (self.b, self.c) = (self.a, self.a),
            VectorKind::MulSubScale => {
                apply(&mut self.b, Access::Read, map)?;
                apply(&mut self.c, Access::Read, map)?;
            }
        }
        let in_place = [a, b, c].iter().any(|input| input.same_bytes(self.target));
        let access = if in_place { Access::ReadWrite } else { Access::Write };
        apply(&mut self.target, access, map)
    }
}

/// Conversion to or from Montgomery form. `target` may be the same bytes as `source`.
///
/// `status` is a word that the caller filled with `u32::MAX`: converting *to* Montgomery form
/// lowers it to the first index whose value is not below r (that element's result is undefined).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convert {
    source: View,
    target: View,
    status: View,
}

impl Convert {
    /// # Errors
    /// `InvalidArgument` when lengths differ, views partly overlap or `status` is no single word.
    pub fn new(source: FrView, target: FrView, status: IndexView) -> Result<Self> {
        let (source, target, status) = (source.view(), target.view(), status.view());
        check_len("convert", target.name(), target.len_bytes(), source.len_bytes())?;
        check_len("convert", status.name(), status.len_bytes(), INDEX_BYTES)?;
        check_same_or_disjoint("convert", source, target)?;
        check_disjoint("convert", &[status, source])?;
        check_disjoint("convert", &[status, target])?;
        Ok(Self { source, target, status })
    }

    /// What is read.
    pub const fn source(&self) -> View {
        self.source
    }

    /// What is written.
    pub const fn target(&self) -> View {
        self.target
    }

    /// One word.
    pub const fn status(&self) -> View {
        self.status
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        let in_place = self.source.same_bytes(self.target);
        apply(&mut self.source, Access::Read, map)?;
        let access = if in_place { Access::ReadWrite } else { Access::Write };
        apply(&mut self.target, access, map)?;
        apply(&mut self.status, Access::ReadWrite, map)
    }
}
