//! Points, over either field of coordinates.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};

/// A field over which a curve's coordinates lie, with that curve's Jacobian arithmetic.
pub trait Coordinate: Pod + Default + PartialEq + Send + Sync + std::fmt::Debug {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// How many points a batch of additions works on, so that it stays in a core's second level
    /// cache.
    const BATCH_LEN: usize;

    /// Whether the value is zero.
    fn is_zero(&self) -> bool;
    /// Sum.
    fn add(&self, other: &Self) -> Self;
    /// Difference.
    fn sub(&self, other: &Self) -> Self;
    /// Product.
    fn mul(&self, other: &Self) -> Self;
    /// Square.
    fn square(&self) -> Self;
    /// The inverse; of zero, zero.
    fn invert(&self) -> Self;
    /// The negative.
    #[inline(always)]
    fn negate(&self) -> Self {
        Self::ZERO.sub(self)
    }

    /// `a + b`, whatever the points.
    fn jacobian_add(a: &Jacobian<Self>, b: &Jacobian<Self>) -> Jacobian<Self>;
    /// `2 a`.
    fn jacobian_double(a: &Jacobian<Self>) -> Jacobian<Self>;
    /// Whether an affine point other than the identity satisfies the curve's equation.
    fn on_curve(point: &Affine<Self>) -> bool;
    /// Reads big-endian bytes, highest coefficient first: `None` where a coefficient is not below
    /// the modulus. The slice holds exactly one element.
    fn from_be_bytes(bytes: &[u8]) -> Option<Self>;
}

/// An affine point; the identity is all zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Affine<F> {
    /// x
    pub x: F,
    /// y
    pub y: F,
}

/// A point in Jacobian coordinates, `(x / z^2, y / z^3)`; the identity has z = 0.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Jacobian<F> {
    /// x
    pub x: F,
    /// y
    pub y: F,
    /// z
    pub z: F,
}

// SAFETY: `repr(C)` of fields of one `Pod` type, so without padding.
unsafe impl<F: Zeroable> Zeroable for Affine<F> {}
// SAFETY: as above.
unsafe impl<F: Pod> Pod for Affine<F> {}
// SAFETY: as above.
unsafe impl<F: Zeroable> Zeroable for Jacobian<F> {}
// SAFETY: as above.
unsafe impl<F: Pod> Pod for Jacobian<F> {}

impl<F: Coordinate> Affine<F> {
    /// The identity.
    pub const IDENTITY: Self = Self { x: F::ZERO, y: F::ZERO };

    /// Whether this is the identity.
    #[inline(always)]
    pub fn is_identity(&self) -> bool {
        self.x.is_zero() && self.y.is_zero()
    }
}

impl<F: Coordinate> Jacobian<F> {
    /// The identity.
    pub const IDENTITY: Self = Self { x: F::ZERO, y: F::ZERO, z: F::ZERO };

    /// Whether this is the identity.
    pub fn is_identity(&self) -> bool {
        self.z.is_zero()
    }

    /// The affine form, at the price of an inversion.
    pub fn to_affine(&self) -> Affine<F> {
        if self.is_identity() {
            return Affine::IDENTITY;
        }
        let inverse = self.z.invert();
        let square = inverse.square();
        Affine { x: self.x.mul(&square), y: self.y.mul(&square.mul(&inverse)) }
    }
}

impl<F: Coordinate> From<Affine<F>> for Jacobian<F> {
    fn from(point: Affine<F>) -> Self {
        if point.is_identity() {
            Self::IDENTITY
        } else {
            Self { x: point.x, y: point.y, z: F::ONE }
        }
    }
}
