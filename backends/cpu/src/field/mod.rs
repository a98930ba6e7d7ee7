//! Field elements and points in canonical layout: little-endian limbs in Montgomery form.
//!
//! Products and inverses are blst's assembly. Sums are written here so that they inline: a call
//! costs as much as the sum.

mod curve;
mod fp;
mod fr;

pub use curve::{Affine, Coordinate, Jacobian};
pub use fp::{FP_MODULUS, Fp, Fp2};
pub use fr::{FR_MODULUS, Fr};

#[cfg(not(target_endian = "little"))]
compile_error!("the canonical layout is little-endian");

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
