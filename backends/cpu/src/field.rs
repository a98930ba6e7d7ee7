//! Field elements in canonical layout: little-endian limbs in Montgomery form.
//!
//! Products and inverses are blst's assembly. Sums are written here so that they inline: a call
//! costs as much as the sum.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use std::mem::MaybeUninit;

/// An element of the scalar field, `r = 0x73eda753...00000001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Fr(pub [u64; 4]);

/// An element of the base field, 381 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Fp(pub [u64; 6]);

/// An element `c0 + c1 u` of the quadratic extension of the base field, `u^2 = -1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Fp2 {
    /// The coefficient of 1.
    pub c0: Fp,
    /// The coefficient of u.
    pub c1: Fp,
}

/// `r`, the order of the groups.
pub const FR_MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// `p`, the characteristic of the base field.
pub const FP_MODULUS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// `2^256 mod r`.
const FR_ONE: [u64; 4] =
    [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f];

/// `2^384 mod p`.
const FP_ONE: [u64; 6] = [
    0x7609_0000_0002_fffd,
    0xebf4_000b_c40c_0002,
    0x5f48_9857_53c7_58ba,
    0x77ce_5853_7052_5745,
    0x5c07_1a97_a256_ec6d,
    0x15f6_5ec3_fa80_e493,
];

/// A primitive `2^32`-th root of unity in standard form: `7^((r - 1) / 2^32)`.
const ROOT_OF_UNITY: [u64; 4] =
    [0x3829_971f_439f_0d2b, 0xb636_8350_8c22_80b9, 0xd09b_6819_22c8_13b4, 0x16a2_a19e_dfe8_1f20];

/// `a + b mod m` for `a, b < m`, where `2m` fits the limbs.
#[inline(always)]
fn add_mod<const N: usize>(a: &[u64; N], b: &[u64; N], m: &[u64; N]) -> [u64; N] {
    let mut sum = [0; N];
    let mut carry = false;
    for i in 0..N {
        (sum[i], carry) = a[i].carrying_add(b[i], carry);
    }
    let mut reduced = [0; N];
    let mut borrow = false;
    for i in 0..N {
        (reduced[i], borrow) = sum[i].borrowing_sub(m[i], borrow);
    }
    // 2m fits, so there is no carry out, and a borrow means that the sum was below m.
    let mask = 0u64.wrapping_sub(u64::from(borrow));
    for i in 0..N {
        reduced[i] = (sum[i] & mask) | (reduced[i] & !mask);
    }
    reduced
}

/// `a - b mod m` for `a, b < m`.
#[inline(always)]
fn sub_mod<const N: usize>(a: &[u64; N], b: &[u64; N], m: &[u64; N]) -> [u64; N] {
    let mut difference = [0; N];
    let mut borrow = false;
    for i in 0..N {
        (difference[i], borrow) = a[i].borrowing_sub(b[i], borrow);
    }
    let mask = 0u64.wrapping_sub(u64::from(borrow));
    let mut carry = false;
    for i in 0..N {
        (difference[i], carry) = difference[i].carrying_add(m[i] & mask, carry);
    }
    difference
}

/// Whether `a < b` as integers.
#[inline(always)]
pub fn less_than<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    let mut borrow = false;
    for i in 0..N {
        (_, borrow) = a[i].borrowing_sub(b[i], borrow);
    }
    borrow
}

impl Fr {
    /// 0.
    pub const ZERO: Self = Self([0; 4]);
    /// 1.
    pub const ONE: Self = Self(FR_ONE);

    /// `x` in the field.
    pub fn from_u64(x: u64) -> Self {
        Self([x, 0, 0, 0]).to_montgomery()
    }

    /// A primitive root of unity of order `2^lg`, or `None` past the field's 32.
    pub fn root_of_unity(lg: u32) -> Option<Self> {
        let squarings = 32u32.checked_sub(lg)?;
        let root = Self(ROOT_OF_UNITY).to_montgomery();
        Some((0..squarings).fold(root, |root, _| root.square()))
    }

    /// Whether the value is zero.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |a, b| a | b) == 0
    }

    /// Whether the limbs are below the modulus.
    #[inline(always)]
    pub fn is_reduced(&self) -> bool {
        less_than(&self.0, &FR_MODULUS)
    }

    /// Sum.
    #[inline(always)]
    pub fn add(&self, other: &Self) -> Self {
        Self(add_mod(&self.0, &other.0, &FR_MODULUS))
    }

    /// Difference.
    #[inline(always)]
    pub fn sub(&self, other: &Self) -> Self {
        Self(sub_mod(&self.0, &other.0, &FR_MODULUS))
    }

    /// Product.
    #[inline(always)]
    pub fn mul(&self, other: &Self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: `Fr` has the layout of `blst_fr`, four u64 limbs; the pointers are valid for
        // the call, which writes all of `out` and reads none of it.
        unsafe {
            blst::blst_fr_mul(
                out.as_mut_ptr().cast(),
                (&raw const *self).cast(),
                (&raw const *other).cast(),
            );
            out.assume_init()
        }
    }

    /// Square.
    #[inline(always)]
    pub fn square(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fr_sqr(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    /// The inverse; of zero, zero.
    pub fn invert(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fr_eucl_inverse(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    /// The power `self^exponent`.
    pub fn pow(&self, mut exponent: u64) -> Self {
        let (mut base, mut out) = (*self, Self::ONE);
        while exponent != 0 {
            if exponent & 1 == 1 {
                out = out.mul(&base);
            }
            base = base.square();
            exponent >>= 1;
        }
        out
    }

    /// From the standard form, below the modulus, to Montgomery form.
    #[inline(always)]
    pub fn to_montgomery(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fr_to(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    /// From Montgomery form to the standard form.
    #[inline(always)]
    pub fn from_montgomery(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fr_from(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }
}

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

impl Coordinate for Fp {
    const ZERO: Self = Self([0; 6]);
    const ONE: Self = Self(FP_ONE);
    const BATCH_LEN: usize = 2048;

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |a, b| a | b) == 0
    }

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        Self(add_mod(&self.0, &other.0, &FP_MODULUS))
    }

    #[inline(always)]
    fn sub(&self, other: &Self) -> Self {
        Self(sub_mod(&self.0, &other.0, &FP_MODULUS))
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: `Fp` has the layout of `blst_fp`, six u64 limbs; the pointers are valid for the
        // call, which writes all of `out` and reads none of it.
        unsafe {
            blst::blst_fp_mul(
                out.as_mut_ptr().cast(),
                (&raw const *self).cast(),
                (&raw const *other).cast(),
            );
            out.assume_init()
        }
    }

    #[inline(always)]
    fn square(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fp_sqr(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    fn invert(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fp_eucl_inverse(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    fn jacobian_add(a: &Jacobian<Self>, b: &Jacobian<Self>) -> Jacobian<Self> {
        let mut out = Jacobian::IDENTITY;
        // SAFETY: `Jacobian<Fp>` has the layout of `blst_p1`, three `blst_fp`; the pointers are
        // valid for the call.
        unsafe {
            blst::blst_p1_add_or_double(
                (&raw mut out).cast(),
                (&raw const *a).cast(),
                (&raw const *b).cast(),
            );
        }
        out
    }

    fn jacobian_double(a: &Jacobian<Self>) -> Jacobian<Self> {
        let mut out = Jacobian::IDENTITY;
        // SAFETY: as in `jacobian_add`.
        unsafe { blst::blst_p1_double((&raw mut out).cast(), (&raw const *a).cast()) };
        out
    }

    fn on_curve(point: &Affine<Self>) -> bool {
        // SAFETY: `Affine<Fp>` has the layout of `blst_p1_affine`, two `blst_fp`.
        unsafe { blst::blst_p1_affine_on_curve((&raw const *point).cast()) }
    }

    #[inline]
    fn from_be_bytes(bytes: &[u8]) -> Option<Self> {
        let mut standard = [0u64; 6];
        for (limb, chunk) in standard.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
            *limb = u64::from_be_bytes(*chunk);
        }
        if !less_than(&standard, &FP_MODULUS) {
            return None;
        }
        let mut out = Self::ZERO;
        // SAFETY: both are six u64 limbs, valid for the call.
        unsafe { blst::blst_fp_to((&raw mut out).cast(), standard.as_ptr().cast()) };
        Some(out)
    }
}

impl Coordinate for Fp2 {
    const ZERO: Self = Self { c0: Fp::ZERO, c1: Fp::ZERO };
    const ONE: Self = Self { c0: Fp::ONE, c1: Fp::ZERO };
    const BATCH_LEN: usize = 1024;

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.c0.is_zero() && self.c1.is_zero()
    }

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        Self { c0: self.c0.add(&other.c0), c1: self.c1.add(&other.c1) }
    }

    #[inline(always)]
    fn sub(&self, other: &Self) -> Self {
        Self { c0: self.c0.sub(&other.c0), c1: self.c1.sub(&other.c1) }
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: `Fp2` has the layout of `blst_fp2`, two `blst_fp`; the pointers are valid for
        // the call, which writes all of `out` and reads none of it.
        unsafe {
            blst::blst_fp2_mul(
                out.as_mut_ptr().cast(),
                (&raw const *self).cast(),
                (&raw const *other).cast(),
            );
            out.assume_init()
        }
    }

    #[inline(always)]
    fn square(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fp2_sqr(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    fn invert(&self) -> Self {
        let mut out = MaybeUninit::<Self>::uninit();
        // SAFETY: as in `mul`.
        unsafe {
            blst::blst_fp2_eucl_inverse(out.as_mut_ptr().cast(), (&raw const *self).cast());
            out.assume_init()
        }
    }

    fn jacobian_add(a: &Jacobian<Self>, b: &Jacobian<Self>) -> Jacobian<Self> {
        let mut out = Jacobian::IDENTITY;
        // SAFETY: `Jacobian<Fp2>` has the layout of `blst_p2`, three `blst_fp2`; the pointers are
        // valid for the call.
        unsafe {
            blst::blst_p2_add_or_double(
                (&raw mut out).cast(),
                (&raw const *a).cast(),
                (&raw const *b).cast(),
            );
        }
        out
    }

    fn jacobian_double(a: &Jacobian<Self>) -> Jacobian<Self> {
        let mut out = Jacobian::IDENTITY;
        // SAFETY: as in `jacobian_add`.
        unsafe { blst::blst_p2_double((&raw mut out).cast(), (&raw const *a).cast()) };
        out
    }

    fn on_curve(point: &Affine<Self>) -> bool {
        // SAFETY: `Affine<Fp2>` has the layout of `blst_p2_affine`, two `blst_fp2`.
        unsafe { blst::blst_p2_affine_on_curve((&raw const *point).cast()) }
    }

    #[inline]
    fn from_be_bytes(bytes: &[u8]) -> Option<Self> {
        let (c1, c0) = bytes.split_at_checked(bytes.len() / 2)?;
        Some(Self { c0: Fp::from_be_bytes(c0)?, c1: Fp::from_be_bytes(c1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff::{Field, PrimeField};
    use rand::Rng;

    fn scalar(x: &Fr) -> blstrs::Scalar {
        let standard = x.from_montgomery();
        Option::from(blstrs::Scalar::from_repr(bytemuck::cast(standard.0))).expect("reduced")
    }

    fn random_fr() -> Fr {
        let mut x = Fr(rand::thread_rng().r#gen());
        x.0[3] >>= 2;
        x
    }

    #[test]
    fn constants_agree_with_blstrs() {
        assert_eq!(scalar(&Fr::ONE), blstrs::Scalar::ONE);
        assert_eq!(Fr::ONE.to_montgomery().from_montgomery(), Fr::ONE);
        for lg in 0..=32 {
            let root = scalar(&Fr::root_of_unity(lg).expect("in range"));
            assert_eq!(root, blstrs::Scalar::ROOT_OF_UNITY.pow([1u64 << (32 - lg)]), "lg {lg}");
        }
        assert_eq!(Fr::root_of_unity(33), None);
        assert_eq!(Fp::ONE.mul(&Fp::ONE), Fp::ONE);
        assert_eq!(Fp2::ONE.mul(&Fp2::ONE), Fp2::ONE);
    }

    #[test]
    fn arithmetic_agrees_with_blstrs() {
        for _ in 0..1000 {
            let (a, b) = (random_fr(), random_fr());
            let (x, y) = (scalar(&a), scalar(&b));
            assert_eq!(scalar(&a.add(&b)), x + y);
            assert_eq!(scalar(&a.sub(&b)), x - y);
            assert_eq!(scalar(&a.mul(&b)), x * y);
            assert_eq!(scalar(&a.square()), x.square());
            assert_eq!(a.invert().mul(&a), Fr::ONE);
            assert_eq!(scalar(&a.pow(0x1234_5678_9abc)), x.pow([0x1234_5678_9abc]));
        }
        let largest = Fr(FR_MODULUS).sub(&Fr([1, 0, 0, 0]));
        assert_eq!(largest.add(&Fr([1, 0, 0, 0])), Fr::ZERO);
        assert_eq!(Fr::ZERO.sub(&Fr([1, 0, 0, 0])), largest);
        assert!(largest.is_reduced() && !Fr(FR_MODULUS).is_reduced());
    }

    #[test]
    fn base_field_sums_agree_with_products() {
        let mut rng = rand::thread_rng();
        for _ in 0..1000 {
            let mut draw = || {
                let mut x = Fp(rng.r#gen());
                x.0[5] >>= 4;
                x
            };
            let (a, b) = (draw(), draw());
            let three = Fp::ONE.add(&Fp::ONE).add(&Fp::ONE);
            assert_eq!(a.mul(&three), a.add(&a).add(&a));
            assert_eq!(a.sub(&b).add(&b), a);
            assert_eq!(a.add(&a.negate()), Fp::ZERO);
            assert_eq!(a.invert().mul(&a), Fp::ONE);
            let (u, v) = (Fp2 { c0: a, c1: b }, Fp2 { c0: b, c1: a });
            assert_eq!(u.mul(&v.add(&u)), u.mul(&v).add(&u.square()));
            assert_eq!(u.invert().mul(&u), Fp2::ONE);
        }
    }
}
