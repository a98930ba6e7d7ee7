//! Multiples of a fixed base against blstrs.

use blstrs::Scalar;
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{self, CurveOracle, fr_to_bytes};
use twinlock_cuda_host::field::{Fr, Limbs};
use twinlock_cuda_host::fixed_base::{BLOCK, multiples, next_table};

fn limbs<const N: usize>(bytes: &[u8]) -> Limbs<N> {
    let words: Vec<u32> =
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    Limbs(words.try_into().expect("as many words"))
}

/// The table of `base`, one addition an entry.
fn table<C: CurveOracle, const N: usize>(base: C::Point, window_bits: u32) -> Vec<Limbs<N>> {
    let mut points = Vec::new();
    let mut first = base;
    for _ in 0..256u32.div_ceil(window_bits) {
        let mut multiple = first;
        for _ in 0..1u32 << (window_bits - 1) {
            points.push(limbs(&C::encode(&multiple.to_affine())));
            multiple += first;
        }
        first = (0..window_bits).fold(first, |point, _| point.double());
    }
    points
}

fn equal_blst<C: CurveOracle, const N: usize>() {
    let seed: u64 = rand::random();
    eprintln!("seed: {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for (window_bits, len) in [(1, 5), (3, 64), (8, BLOCK), (9, 127), (10, 1), (10, 0)] {
        let half = Scalar::from(1 << (window_bits - 1));
        let edges = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, half, -half, half + Scalar::ONE];
        let mut scalars: Vec<_> = edges.into_iter().take(len).collect();
        scalars.resize_with(len, || Scalar::random(&mut rng));
        for base in [C::Affine::generator() * Scalar::random(&mut rng), C::Point::identity()] {
            let words: Vec<Fr> = scalars.iter().map(|scalar| limbs(&fr_to_bytes(scalar))).collect();
            let found = multiples::<N>(window_bits, &table::<C, N>(base, window_bits), &words);
            let expected: Vec<Limbs<N>> = scalars
                .iter()
                .map(|scalar| limbs(&C::encode(&(base * scalar).to_affine())))
                .collect();
            assert!(found == expected, "{len} multiples, windows of {window_bits} bits");
        }
    }
}

#[test]
fn g1_multiples() {
    equal_blst::<oracle::G1, 24>();
}

#[test]
fn g2_multiples() {
    equal_blst::<oracle::G2, 48>();
}

fn tables_equal_blst<C: CurveOracle, const N: usize>() {
    let seed: u64 = rand::random();
    eprintln!("seed: {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for (doublings, len) in [(0, 3), (1, 1), (17, 64), (130, BLOCK), (255, 2), (1, 0)] {
        let mut bases = vec![C::Point::identity(), -C::Point::generator()];
        bases.truncate(len);
        bases.resize_with(len, || C::Affine::generator() * Scalar::random(&mut rng));
        let encoded = |points: &[C::Point]| -> Vec<Limbs<N>> {
            points.iter().map(|point| limbs(&C::encode(&point.to_affine()))).collect()
        };
        let found = next_table(&encoded(&bases), doublings);
        let shifted = |base: &C::Point| (0..doublings).fold(*base, |point, _| point.double());
        let expected: Vec<_> = bases.iter().map(shifted).collect();
        assert!(found == encoded(&expected), "{len} bases, {doublings} doublings");
    }
}

#[test]
fn g1_tables() {
    tables_equal_blst::<oracle::G1, 24>();
}

#[test]
fn g2_tables() {
    tables_equal_blst::<oracle::G2, 48>();
}
