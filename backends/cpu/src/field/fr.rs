//! The scalar field.
#![allow(unsafe_code)]

use super::{add_mod, less_than, sub_mod};
use bytemuck::{Pod, Zeroable};
use std::mem::MaybeUninit;

/// An element of the scalar field, `r = 0x73eda753...00000001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Fr(pub [u64; 4]);

/// `r`, the order of the groups.
pub const FR_MODULUS: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// `2^256 mod r`.
const FR_ONE: [u64; 4] =
    [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f];

/// A primitive `2^32`-th root of unity in standard form: `7^((r - 1) / 2^32)`.
const ROOT_OF_UNITY: [u64; 4] =
    [0x3829_971f_439f_0d2b, 0xb636_8350_8c22_80b9, 0xd09b_6819_22c8_13b4, 0x16a2_a19e_dfe8_1f20];

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
