//! The base field and its quadratic extension.
#![allow(unsafe_code)]

use super::{Affine, Coordinate, Jacobian, add_mod, less_than, sub_mod};
use bytemuck::{Pod, Zeroable};
use std::mem::MaybeUninit;

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

/// `p`, the characteristic of the base field.
pub const FP_MODULUS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// `2^384 mod p`.
const FP_ONE: [u64; 6] = [
    0x7609_0000_0002_fffd,
    0xebf4_000b_c40c_0002,
    0x5f48_9857_53c7_58ba,
    0x77ce_5853_7052_5745,
    0x5c07_1a97_a256_ec6d,
    0x15f6_5ec3_fa80_e493,
];

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
