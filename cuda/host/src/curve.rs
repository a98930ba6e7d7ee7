//! Points of G1 and G2: affine (x, y; zeros are infinity), XYZZ sums and Jacobian results, as limbs.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::field::Limbs;

unsafe extern "C" {
    fn twinlock_cuda_g1(operation: u32, sum: *mut c_void, other: *const c_void) -> u32;
    fn twinlock_cuda_g2(operation: u32, sum: *mut c_void, other: *const c_void) -> u32;
    fn twinlock_cuda_g1_to_jacobian(sum: *const c_void, out: *mut c_void);
    fn twinlock_cuda_g2_to_jacobian(sum: *const c_void, out: *mut c_void);
}

/// x, y, zz, zzz over Fp.
pub type G1 = Limbs<48>;
/// x, y, zz, zzz over Fp2.
pub type G2 = Limbs<96>;

/// What is done to a sum, and with which other point.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a, A, S> {
    /// Adds an affine point.
    AddAffine(&'a A),
    /// Adds another sum.
    Add(&'a S),
    /// Doubles it.
    Double,
    /// Negates it.
    Negate,
    /// Makes it twice an affine point that is not infinity.
    TwiceAffine(&'a A),
    /// Adds an affine point to the sum as a thread keeps it.
    AddAffineKept(&'a A),
    /// Adds another sum to the sum as a thread keeps it.
    AddKept(&'a S),
}

/// A sum of points.
pub trait Sum: Sized {
    /// Affine points of its group.
    type Affine;
    /// Jacobian points of its group.
    type Jacobian;

    /// Changes the sum.
    fn step(&mut self, step: Step<'_, Self::Affine, Self>);

    /// The sum as x, y, z.
    fn to_jacobian(&self) -> Self::Jacobian;
}

macro_rules! sum {
    ($sum:ty, $affine:literal, $jacobian:literal, $step:ident, $to_jacobian:ident) => {
        impl Sum for $sum {
            type Affine = Limbs<$affine>;
            type Jacobian = Limbs<$jacobian>;

            fn step(&mut self, step: Step<'_, Self::Affine, Self>) {
                let (operation, other): (u32, *const c_void) = match step {
                    Step::AddAffine(other) => (0, (&raw const *other).cast()),
                    Step::Add(other) => (1, (&raw const *other).cast()),
                    Step::Double => (2, std::ptr::null()),
                    Step::Negate => (3, std::ptr::null()),
                    Step::TwiceAffine(other) => (4, (&raw const *other).cast()),
                    Step::AddAffineKept(other) => (5, (&raw const *other).cast()),
                    Step::AddKept(other) => (6, (&raw const *other).cast()),
                };
                // SAFETY: the function changes one sum in place and reads, where the operation has
                // one, a point of the kind that its number stands for.
                let known = unsafe { $step(operation, (&raw mut *self).cast(), other) };
                debug_assert_eq!(known, 1);
            }

            fn to_jacobian(&self) -> Self::Jacobian {
                let mut out = Limbs([0; $jacobian]);
                // SAFETY: the function reads one sum and writes one point.
                unsafe { $to_jacobian((&raw const *self).cast(), (&raw mut out).cast()) };
                out
            }
        }
    };
}

sum!(G1, 24, 36, twinlock_cuda_g1, twinlock_cuda_g1_to_jacobian);
sum!(G2, 48, 72, twinlock_cuda_g2, twinlock_cuda_g2_to_jacobian);
