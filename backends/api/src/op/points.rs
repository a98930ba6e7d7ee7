//! Points as parameter files hold them.

use super::{Access, Map, apply, check_disjoint, check_len};
use crate::error::Result;
use crate::layout::{Group, INDEX_BYTES};
use crate::memory::{IndexView, PointView, View};

/// What [`DecodePoints`] verifies of every point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointCheck {
    /// Flag bits are those of an uncompressed point, coordinates are below p, infinity is its flag
    /// and zeros.
    Encoding,
    /// The encoding, and that the point is on the curve.
    OnCurve,
}

/// Decodes uncompressed points: x then y, each big-endian (Fp2 as c1, c0), the top three bits of
/// the first byte the Zcash flags (compressed, infinity, sign), to canonical layout. Both checks
/// refuse a point with the compressed or the sign flag, and all-zero bytes without the infinity
/// flag: they would decode to the canonical infinity, which has an encoding of its own.
///
/// `target` may be the same bytes as `source`. `status` is a word that the caller filled with
/// `u32::MAX`; it is lowered to the first index that fails the check, whose result is undefined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodePoints {
    group: Group,
    check: PointCheck,
    source: View,
    target: View,
    status: View,
}

impl DecodePoints {
    /// # Errors
    /// `InvalidArgument` when lengths or groups differ, views partly overlap or `status` is no
    /// single word.
    pub fn new(
        source: PointView,
        target: PointView,
        check: PointCheck,
        status: IndexView,
    ) -> Result<Self> {
        const OP: &str = "decode_points";
        let group = target.group();
        let (source, target, status) = (source.view(), target.view(), status.view());
        check_len(OP, target.name(), target.len_bytes(), source.len_bytes())?;
        check_len(OP, status.name(), status.len_bytes(), INDEX_BYTES)?;
        super::check_same_or_disjoint(OP, source, target)?;
        check_disjoint(OP, &[status, source])?;
        check_disjoint(OP, &[status, target])?;
        Ok(Self { group, check, source, target, status })
    }

    /// The group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// What is verified.
    pub const fn check(&self) -> PointCheck {
        self.check
    }

    /// Encoded points, as many bytes as canonical ones.
    pub const fn source(&self) -> View {
        self.source
    }

    /// Canonical points.
    pub const fn target(&self) -> View {
        self.target
    }

    /// One word.
    pub const fn status(&self) -> View {
        self.status
    }

    /// Number of points.
    pub const fn len(&self) -> u64 {
        self.target.len_bytes() / self.group.affine_bytes()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.target.len_bytes() == 0
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        let in_place = self.source.same_bytes(self.target);
        apply(&mut self.source, Access::Read, map)?;
        let access = if in_place { Access::ReadWrite } else { Access::Write };
        apply(&mut self.target, access, map)?;
        apply(&mut self.status, Access::ReadWrite, map)
    }
}
