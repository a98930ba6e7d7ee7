//! Points as parameter files hold them.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::field::Limbs;

unsafe extern "C" {
    fn twinlock_cuda_decode_g1(source: *const c_void, on_curve: u32, out: *mut c_void) -> u32;
    fn twinlock_cuda_decode_g2(source: *const c_void, on_curve: u32, out: *mut c_void) -> u32;
}

/// Affine points, as bytes in words.
pub trait Decode: Sized {
    /// Decodes an uncompressed point in place; whether it is well-formed and, if asked for, on the
    /// curve. A bad one becomes infinity.
    fn decode(&mut self, on_curve: bool) -> bool;
}

impl Decode for Limbs<24> {
    fn decode(&mut self, on_curve: bool) -> bool {
        let point = (&raw mut *self).cast();
        // SAFETY: the function reads one point of G1, then writes one.
        unsafe { twinlock_cuda_decode_g1(point, on_curve.into(), point) != 0 }
    }
}

impl Decode for Limbs<48> {
    fn decode(&mut self, on_curve: bool) -> bool {
        let point = (&raw mut *self).cast();
        // SAFETY: the function reads one point of G2, then writes one.
        unsafe { twinlock_cuda_decode_g2(point, on_curve.into(), point) != 0 }
    }
}
