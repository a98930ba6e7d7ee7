//! Fr, Fp and Fp2 as 32-bit limbs, least significant first, in Montgomery form.
#![allow(unsafe_code)]

use std::ffi::c_void;

type Function = unsafe extern "C" fn(u32, *const c_void, *const c_void, *mut c_void) -> u32;

unsafe extern "C" {
    fn twinlock_cuda_fr(
        operation: u32,
        a: *const c_void,
        b: *const c_void,
        out: *mut c_void,
    ) -> u32;
    fn twinlock_cuda_fp(
        operation: u32,
        a: *const c_void,
        b: *const c_void,
        out: *mut c_void,
    ) -> u32;
    fn twinlock_cuda_fp2(
        operation: u32,
        a: *const c_void,
        b: *const c_void,
        out: *mut c_void,
    ) -> u32;
}

/// Limbs, aligned as on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Limbs<const N: usize>(pub [u32; N]);

/// An element of Fr.
pub type Fr = Limbs<8>;
/// An element of Fp.
pub type Fp = Limbs<12>;
/// An element of Fp2: c0, c1.
pub type Fp2 = Limbs<24>;

/// What to compute. Answers that are yes or no come as one or zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// -a
    Neg,
    /// a b
    Mul,
    /// a a, by its own routine
    Sqr,
    /// a + a
    Dbl,
    /// a / R; not in Fp2
    FromMontgomery,
    /// a R; not in Fp2
    ToMontgomery,
    /// Whether a is zero.
    IsZero,
    /// Whether a is b.
    Equal,
    /// Whether a's limbs are below the modulus; not in Fp2.
    BelowModulus,
    /// a b + (a + b) (-a), by the routine for sums of two products; in Fp only.
    Dot,
    /// a b, by the routine for factors with a quotient; in Fr only.
    MulKnown,
    /// The same of a and the modulus, not reduced.
    MulKnownUnreduced,
    /// (a - b) times the root of unity of order 4, by the routine for it; in Fr only. Not an
    /// operation if the negative root does not give the negative.
    DifferenceByFourthRoot,
}

/// A field of the kernels.
pub trait Field: Sized {
    /// `None` for an operation that the field does not have.
    fn compute(operation: Operation, a: &Self, b: &Self) -> Option<Self>;
}

fn call<const N: usize>(
    function: Function,
    operation: Operation,
    a: &Limbs<N>,
    b: &Limbs<N>,
) -> Option<Limbs<N>> {
    let mut out = Limbs([0; N]);
    // SAFETY: the function reads one element at a and b and writes one at out; each is as long and
    // aligned as the element.
    let known = unsafe {
        function(
            operation as u32,
            (&raw const *a).cast(),
            (&raw const *b).cast(),
            (&raw mut out).cast(),
        )
    };
    (known != 0).then_some(out)
}

impl Field for Fr {
    fn compute(operation: Operation, a: &Self, b: &Self) -> Option<Self> {
        call(twinlock_cuda_fr, operation, a, b)
    }
}

impl Field for Fp {
    fn compute(operation: Operation, a: &Self, b: &Self) -> Option<Self> {
        call(twinlock_cuda_fp, operation, a, b)
    }
}

impl Field for Fp2 {
    fn compute(operation: Operation, a: &Self, b: &Self) -> Option<Self> {
        call(twinlock_cuda_fp2, operation, a, b)
    }
}
