//! Transforms against the definition, and large ones against their values at a few points.

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use twinlock_cpu::field::Fr;
use twinlock_cpu::ntt::{Direction, MAX_LG, Order, Transform, ntt, workspace_bytes};

fn fr(scalar: &Scalar) -> Fr {
    Fr(bytemuck::cast::<[u8; 32], [u64; 4]>(scalar.to_repr())).to_montgomery()
}

fn scalar(x: &Fr) -> Scalar {
    Option::from(Scalar::from_repr(bytemuck::cast(x.from_montgomery().0))).expect("reduced")
}

fn root(lg: u32) -> Scalar {
    Scalar::ROOT_OF_UNITY.pow([1u64 << (32 - lg)])
}

fn reversed(i: usize, lg: u32) -> usize {
    (0..lg).fold(0, |out, bit| out << 1 | (i >> bit & 1))
}

fn ordered(values: &[Scalar], order: Order) -> Vec<Fr> {
    let lg = values.len().trailing_zeros();
    (0..values.len())
        .map(|i| match order {
            Order::Natural => fr(&values[i]),
            Order::BitReversed => fr(&values[reversed(i, lg)]),
        })
        .collect()
}

/// `X_i = sum_j x_j (g w^i)^j` by Horner's rule.
fn value_at(coefficients: &[Scalar], lg: u32, coset: bool, i: usize) -> Scalar {
    let shift = if coset { Scalar::MULTIPLICATIVE_GENERATOR } else { Scalar::ONE };
    let x = shift * root(lg).pow([i as u64]);
    coefficients.iter().rev().fold(Scalar::ZERO, |sum, c| sum * x + c)
}

fn run(transform: Transform, lg: u32, threads: usize, values: &mut [Fr]) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
    let mut workspace = vec![!0u64; workspace_bytes(lg, threads).expect("lg") / 8];
    pool.install(|| ntt(transform, lg, values, bytemuck::cast_slice_mut(&mut workspace)))
        .expect("ntt");
}

fn all_transforms() -> Vec<Transform> {
    let orders = [Order::Natural, Order::BitReversed];
    let mut all = vec![];
    for direction in [Direction::Forward, Direction::Inverse] {
        for coset in [false, true] {
            for input in orders {
                for output in orders {
                    all.push(Transform { direction, coset, input, output });
                }
            }
        }
    }
    all
}

fn check(transform: Transform, lg: u32, coefficients: &[Scalar], values: &[Scalar], seed: u64) {
    let (from, to) = match transform.direction {
        Direction::Forward => (coefficients, values),
        Direction::Inverse => (values, coefficients),
    };
    let mut got = ordered(from, transform.input);
    run(transform, lg, 1 + lg as usize % 3, &mut got);
    assert!(got == ordered(to, transform.output), "{transform:?}, lg {lg}, seed {seed}");
}

#[test]
fn small_transforms_follow_the_definition() {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    for lg in 0..=11 {
        let coefficients: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
        for coset in [false, true] {
            let values: Vec<_> =
                (0..1 << lg).map(|i| value_at(&coefficients, lg, coset, i)).collect();
            for transform in all_transforms().into_iter().filter(|t| t.coset == coset) {
                check(transform, lg, &coefficients, &values, seed);
            }
        }
    }
}

#[test]
fn large_transforms_have_the_right_values() {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    for lg in 12..=17 {
        let coefficients: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
        for coset in [false, true] {
            let natural = Transform {
                direction: Direction::Forward,
                coset,
                input: Order::Natural,
                output: Order::Natural,
            };
            let mut values = ordered(&coefficients, Order::Natural);
            run(natural, lg, 2, &mut values);
            for i in [0, 1, (1 << lg) - 1, rng.gen_range(0..1 << lg), rng.gen_range(0..1 << lg)] {
                let expected = value_at(&coefficients, lg, coset, i);
                assert_eq!(scalar(&values[i]), expected, "lg {lg}, value {i}, seed {seed}");
            }
            let values: Vec<_> = values.iter().map(scalar).collect();
            for transform in all_transforms().into_iter().filter(|t| t.coset == coset) {
                check(transform, lg, &coefficients, &values, seed);
            }
        }
    }
}

#[test]
fn sizes_past_the_limits_are_errors() {
    assert!(workspace_bytes(MAX_LG, 2).is_ok());
    assert!(workspace_bytes(MAX_LG + 1, 2).is_err());
    let transform = all_transforms()[0];
    let mut workspace = vec![0u64; workspace_bytes(3, 64).expect("lg") / 8];
    let workspace: &mut [u8] = bytemuck::cast_slice_mut(&mut workspace);
    assert!(ntt(transform, 33, &mut [Fr::ZERO; 8], workspace).is_err());
    assert!(ntt(transform, 3, &mut [Fr::ZERO; 7], workspace).is_err());
    assert!(ntt(transform, 3, &mut [Fr::ZERO; 8], &mut workspace[..64]).is_err());
    assert!(ntt(transform, 3, &mut [Fr::ZERO; 8], workspace).is_ok());
}
