//! Byte views of blstrs' types: the canonical device layout (little-endian limbs in Montgomery
//! form, affine x and y, infinity as zeros) is how blst keeps them in memory.
#![allow(unsafe_code)]

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};

#[cfg(not(target_endian = "little"))]
compile_error!("the canonical layout is little-endian");

/// A blstrs type whose memory is the canonical device layout.
///
/// # Safety
/// The type is `repr(transparent)` over a blst struct of `u64` limbs without padding.
pub unsafe trait Canonical: Copy + Send + Sync + 'static {}

// SAFETY: `repr(transparent)` over `blst_fr`, which is `[u64; 4]`.
unsafe impl Canonical for Scalar {}
// SAFETY: `repr(transparent)` over `blst_p1_affine`, two `blst_fp` of `[u64; 6]`.
unsafe impl Canonical for G1Affine {}
// SAFETY: `repr(transparent)` over `blst_p2_affine`, four `blst_fp` of `[u64; 6]`.
unsafe impl Canonical for G2Affine {}
// SAFETY: `repr(transparent)` over `blst_p1`, three `blst_fp` of `[u64; 6]`.
unsafe impl Canonical for G1Projective {}
// SAFETY: `repr(transparent)` over `blst_p2`, six `blst_fp` of `[u64; 6]`.
unsafe impl Canonical for G2Projective {}

/// The bytes of `items` in canonical layout, without a copy.
pub fn as_bytes<T: Canonical>(items: &[T]) -> &[u8] {
    // SAFETY: by `Canonical` every byte of the slice is initialised; `u8` has no alignment.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// Bytes of `items` for writing in canonical layout. The writer vouches that what it writes is
/// reduced and on the curve; arithmetic on anything else gives wrong values, not undefined ones.
pub fn as_bytes_mut<T: Canonical>(items: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`, and every bit pattern is a valid value of the `u64` limbs.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), size_of_val(items)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff::Field;
    use group::prime::PrimeCurveAffine;

    #[test]
    fn sizes_and_identity_are_canonical() {
        assert_eq!(size_of::<Scalar>(), 32);
        assert_eq!(size_of::<G1Affine>(), 96);
        assert_eq!(size_of::<G2Affine>(), 192);
        assert_eq!(size_of::<G1Projective>(), 144);
        assert_eq!(size_of::<G2Projective>(), 288);
        assert!(as_bytes(&[G1Affine::identity()]).iter().all(|b| *b == 0));
        assert!(as_bytes(&[G2Affine::identity()]).iter().all(|b| *b == 0));
        // R mod r, the Montgomery form of one.
        assert_eq!(as_bytes(&[Scalar::ONE])[..8], [0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    }
}
