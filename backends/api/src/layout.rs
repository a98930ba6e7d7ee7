//! The canonical layout of device memory: little-endian limbs in Montgomery form (R = 2^256 for
//! Fr, 2^384 for Fp), Fp2 as c0, c1, affine points as x, y, and infinity as all zeros (not on the
//! curve, so unambiguous).

/// Bytes of one element of Fr.
pub const FR_BYTES: u64 = 32;
/// Bytes of one base index (`u32`).
pub const INDEX_BYTES: u64 = 4;
/// Alignment in bytes of views of field elements and points.
pub const ELEMENT_ALIGN_BYTES: u64 = 32;
/// Alignment in bytes of what an arena hands out.
pub const ARENA_ALIGN_BYTES: u64 = 256;
/// The largest domain of Fr is 2^32: r - 1 = 2^32 * odd.
pub const MAX_LG_DOMAIN: u32 = 32;
/// Bits of a scalar.
pub const SCALAR_BITS: u32 = 255;
/// An index that stands for "no base".
pub const NO_BASE: u32 = u32::MAX;

/// One of the two source groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Points over Fp.
    G1,
    /// Points over Fp2.
    G2,
}

impl Group {
    /// Bytes of an affine point: x, y.
    pub const fn affine_bytes(self) -> u64 {
        match self {
            Self::G1 => 96,
            Self::G2 => 192,
        }
    }

    /// Bytes of a Jacobian point: x, y, z with affine (x/z^2, y/z^3); z = 0 is infinity.
    pub const fn jacobian_bytes(self) -> u64 {
        self.affine_bytes() / 2 * 3
    }

    /// `g1` or `g2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1 => "g1",
            Self::G2 => "g2",
        }
    }
}
