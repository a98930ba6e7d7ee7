//! Uncompressed points: decoding with a reason for every refusal, and encoding.

use std::fmt;

use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;

use crate::views::Canonical;

/// Marks the encoding as compressed, which has no place in an uncompressed point.
const COMPRESSED_FLAG: u8 = 0x80;
const IDENTITY_FLAG: u8 = 0x40;
/// Tells the two roots of a compressed point apart; meaningless here.
const SIGN_FLAG: u8 = 0x20;
const FLAGS: u8 = COMPRESSED_FLAG | IDENTITY_FLAG | SIGN_FLAG;
const COORDINATE_BYTES: usize = 48;

/// The modulus of Fp, big-endian.
const MODULUS: [u8; COORDINATE_BYTES] = [
    0x1a, 0x01, 0x11, 0xea, 0x39, 0x7f, 0xe6, 0x9a, 0x4b, 0x1b, 0xa7, 0xb6, 0x43, 0x4b, 0xac, 0xd7,
    0x64, 0x77, 0x4b, 0x84, 0xf3, 0x85, 0x12, 0xbf, 0x67, 0x30, 0xd2, 0xa0, 0xf6, 0xb0, 0xf6, 0x24,
    0x1e, 0xab, 0xff, 0xfe, 0xb1, 0x53, 0xff, 0xff, 0xb9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xaa, 0xab,
];
/// The last byte of the modulus less two.
const MINUS_TWO_END: u8 = 0xa9;

/// Why bytes are not an acceptable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::groth16) enum PointFault {
    /// The slice does not have the encoding's length.
    Length,
    /// Flag bits that an uncompressed point cannot have; the three bits, in place.
    Flags(u8),
    /// The identity's flag with other bits set after it.
    DirtyIdentity,
    /// A coordinate that is not below the field's modulus: 0 is the first in the encoding.
    Coordinate(usize),
    /// Not a solution of the curve's equation.
    NotOnCurve,
    /// On the curve, but not of order r.
    NotInSubgroup,
    /// The identity, where a key must not have one.
    Identity,
}

impl fmt::Display for PointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => write!(f, "not a whole point"),
            Self::Flags(flags) => {
                write!(f, "flag bits {flags:#04x} do not occur in an uncompressed point")
            }
            Self::DirtyIdentity => write!(f, "the identity's flag with other bits set"),
            Self::Coordinate(i) => write!(f, "coordinate {i} is not below the field's modulus"),
            Self::NotOnCurve => write!(f, "not on the curve"),
            Self::NotInSubgroup => write!(f, "on the curve but outside the subgroup of order r"),
            Self::Identity => write!(f, "the identity, which a key must not have here"),
        }
    }
}

/// A point of G1 or G2 as a file holds it.
pub(in crate::groth16) trait CurvePoint: Canonical {
    /// Bytes of the uncompressed encoding.
    const SIZE_BYTES: usize;

    /// Decodes an uncompressed point and checks all but its order. Each point has one encoding:
    /// what is accepted here encodes to the same bytes again.
    fn decode(bytes: &[u8]) -> Result<Self, PointFault>;

    /// Writes the encoding to `out`, which must have [`Self::SIZE_BYTES`].
    fn encode(&self, out: &mut [u8]);

    /// Whether the point, which must be on the curve, has order r or 1.
    fn is_in_subgroup(&self) -> bool;

    /// Whether the coordinates solve the curve's equation, or are the identity's.
    fn is_on_the_curve(&self) -> bool;

    /// Whether this is the identity.
    fn is_the_identity(&self) -> bool;

    /// Checks a point that came from elsewhere than [`decode`](Self::decode).
    fn validate(&self, identity_allowed: bool) -> Result<(), PointFault> {
        if self.is_the_identity() {
            return if identity_allowed { Ok(()) } else { Err(PointFault::Identity) };
        }
        if !self.is_on_the_curve() {
            return Err(PointFault::NotOnCurve);
        }
        if self.is_in_subgroup() { Ok(()) } else { Err(PointFault::NotInSubgroup) }
    }
}

/// Decodes and checks everything.
pub(super) fn decode_checked<P: CurvePoint>(
    bytes: &[u8],
    identity_allowed: bool,
) -> Result<P, PointFault> {
    let point = P::decode(bytes)?;
    point.validate(identity_allowed)?;
    Ok(point)
}

/// Judges the flags: `Ok(true)` is a well-formed identity. blst alone would not do: it reads a
/// compressed point wherever an uncompressed one may stand, and ignores the bytes after it.
fn is_encoded_identity(bytes: &[u8]) -> Result<bool, PointFault> {
    let (first, rest) = bytes.split_first().ok_or(PointFault::Length)?;
    match first & FLAGS {
        0 => Ok(false),
        IDENTITY_FLAG if *first == IDENTITY_FLAG && rest.iter().all(|byte| *byte == 0) => Ok(true),
        IDENTITY_FLAG => Err(PointFault::DirtyIdentity),
        flags => Err(PointFault::Flags(flags)),
    }
}

/// Names the reason why blst refused an encoding without flags.
fn refusal(bytes: &[u8]) -> PointFault {
    let (chunks, _) = bytes.as_chunks::<COORDINATE_BYTES>();
    if let Some(i) = chunks.iter().position(|coordinate| *coordinate >= MODULUS) {
        return PointFault::Coordinate(i);
    }
    // blst refuses (0, 2) and (0, -2) of G1, which are on the curve and have order 3. On the twist
    // there is no such point, for 4 + 4i has no root.
    if let [x, y] = chunks
        && x.iter().all(|byte| *byte == 0)
        && let [head @ .., end] = y
        && (*end == 2 && head.iter().all(|byte| *byte == 0)
            || *end == MINUS_TWO_END && MODULUS.starts_with(head))
    {
        return PointFault::NotInSubgroup;
    }
    PointFault::NotOnCurve
}

impl CurvePoint for G1Affine {
    const SIZE_BYTES: usize = 96;

    fn decode(bytes: &[u8]) -> Result<Self, PointFault> {
        let bytes: &[u8; 96] = bytes.try_into().map_err(|_| PointFault::Length)?;
        if is_encoded_identity(bytes)? {
            return Ok(Self::identity());
        }
        // "Unchecked" of the order only: blst compares the coordinates with the modulus and
        // solves the curve's equation.
        Option::from(Self::from_uncompressed_unchecked(bytes)).ok_or_else(|| refusal(bytes))
    }

    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_uncompressed());
    }

    fn is_in_subgroup(&self) -> bool {
        self.is_torsion_free().into()
    }

    fn is_on_the_curve(&self) -> bool {
        self.is_on_curve().into()
    }

    fn is_the_identity(&self) -> bool {
        self.is_identity().into()
    }
}

impl CurvePoint for G2Affine {
    const SIZE_BYTES: usize = 192;

    fn decode(bytes: &[u8]) -> Result<Self, PointFault> {
        let bytes: &[u8; 192] = bytes.try_into().map_err(|_| PointFault::Length)?;
        if is_encoded_identity(bytes)? {
            return Ok(Self::identity());
        }
        Option::from(Self::from_uncompressed_unchecked(bytes)).ok_or_else(|| refusal(bytes))
    }

    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_uncompressed());
    }

    fn is_in_subgroup(&self) -> bool {
        self.is_torsion_free().into()
    }

    fn is_on_the_curve(&self) -> bool {
        self.is_on_curve().into()
    }

    fn is_the_identity(&self) -> bool {
        self.is_identity().into()
    }
}
