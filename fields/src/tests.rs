use blstrs::{G1Affine, G2Affine, Scalar};
use ff::{Field as _, PrimeField};
use group::prime::PrimeCurveAffine;
use num_bigint::BigUint;

use super::*;

fn big(limbs: &[u32]) -> BigUint {
    BigUint::new(limbs.to_vec())
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// Coordinates of an uncompressed point without flag bits.
fn coordinates(bytes: &[u8]) -> Vec<BigUint> {
    bytes.chunks_exact(48).map(BigUint::from_bytes_be).collect()
}

#[test]
fn moduli_are_blstrs_own() {
    // -1 is the modulus less one; y and -y sum to the modulus.
    let r = big(&words((-Scalar::ONE).to_repr().as_ref())) + 1u32;
    let g = G1Affine::generator();
    let y = |point: G1Affine| coordinates(&point.to_uncompressed())[1].clone();
    let p = y(g) + y(-g);
    for (field, modulus) in [(FR, r), (FP, p)] {
        assert_eq!(big(field.modulus), modulus);
        assert_eq!(big(&field.neg(&field.small(1))) + 1u32, modulus);
        assert_eq!(modulus.bits(), u64::from(field.bits));
        assert_eq!(field.modulus.len(), field.limbs);
        assert!(((modulus - 1u32) >> field.two_adicity).bit(0));
    }
}

#[test]
fn arithmetic_is_exact() {
    for field in [FR, FP] {
        let p = big(field.modulus);
        let values = [
            field.small(0),
            field.small(1),
            field.neg(&field.small(1)),
            field.one_montgomery(),
            field.r_squared(),
            field.power_of_two(-77),
        ];
        for a in &values {
            assert!(big(a) < p);
            assert_eq!(big(&field.neg(a)), (&p - big(a)) % &p);
            assert_eq!(field.from_montgomery(&field.to_montgomery(a)), *a);
            assert_eq!(big(&field.to_montgomery(a)), (big(a) << field.radix_bits()) % &p);
            for b in &values {
                assert_eq!(big(&field.add(a, b)), (big(a) + big(b)) % &p);
                assert_eq!(big(&field.mul(a, b)), (big(a) * big(b)) % &p);
            }
            let expected = if big(a) == 0u32.into() { field.small(0) } else { field.small(1) };
            assert_eq!(field.mul(a, &field.invert(a)), expected);
        }
        assert_eq!(field.mul(&field.power_of_two(-77), &field.power_of_two(77)), field.small(1));
        assert_eq!(big(&field.r_squared()), (BigUint::from(1u32) << (2 * field.radix_bits())) % &p);
    }
}

#[test]
fn reduction_factors_cancel_the_lowest_limb() {
    for field in [FR, FP] {
        for width in 1..=32 {
            let factor = u64::from(field.reduction_factor(width));
            let product = factor * u64::from(field.modulus[0]) + 1;
            assert_eq!(product & ((1 << width) - 1), 0, "{} width {width}", field.name);
            assert!(factor < 1 << width);
        }
    }
}

#[test]
fn roots_are_blstrs_own() {
    for lg in 0..=32 {
        let expected = Scalar::ROOT_OF_UNITY.pow([1u64 << (32 - lg)]);
        let found = FR.root_of_unity(lg).expect("within the field's two-adicity");
        assert_eq!(found, words(expected.to_repr().as_ref()), "lg {lg}");
    }
    assert_eq!(FR.root_of_unity(33), None);
    assert_eq!(FP.root_of_unity(1), Some(FP.neg(&FP.small(1))));
    assert_eq!(Scalar::MULTIPLICATIVE_GENERATOR, Scalar::from(u64::from(FR_COSET_GENERATOR)));
}

#[test]
fn curve_constants_fit_the_generators() {
    let p = big(FP.modulus);
    let [x, y] = &coordinates(&G1Affine::generator().to_uncompressed())[..] else {
        panic!("two coordinates")
    };
    assert_eq!((y * y) % &p, (x * x * x + G1_B) % &p);
    // The encoding has c1 first.
    let [x1, x0, y1, y0] = &coordinates(&G2Affine::generator().to_uncompressed())[..] else {
        panic!("two coordinates of two parts")
    };
    let mul = |[a0, a1]: [&BigUint; 2], [b0, b1]: [&BigUint; 2]| {
        [(a0 * b0 + &p * &p - a1 * b1) % &p, (a0 * b1 + a1 * b0) % &p]
    };
    let [s0, s1] = mul([x0, x1], [x0, x1]);
    let [c0, c1] = mul([&s0, &s1], [x0, x1]);
    let right = [(c0 + G2_B[0]) % &p, (c1 + G2_B[1]) % &p];
    assert_eq!(mul([y0, y1], [y0, y1]), right);
}

#[test]
fn limbs_split_and_join() {
    for field in [FR, FP] {
        for width in [1, 7, 13, 16, 26, 31, 32] {
            let count = field.bits.div_ceil(width) as usize;
            for value in [field.modulus.to_vec(), field.r_squared(), field.small(5)] {
                let split = split_limbs(&value, width, count);
                assert!(split.iter().all(|limb| u64::from(*limb) < 1 << width));
                let sum = split
                    .iter()
                    .rev()
                    .fold(BigUint::from(0u32), |sum, limb| (sum << width) + *limb);
                assert_eq!(sum, big(&value));
                assert_eq!(join_limbs(&split, width, field.limbs), value);
            }
        }
    }
}
