//! Transforms by the kernels' code and plans against their definition.

use blstrs::Scalar;
use ff::Field;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{self, fr_from_bytes, fr_words, ntt_naive, ntt_recursive};
use twinlock_cuda_host::field::{Fr, Limbs};
use twinlock_cuda_host::ntt::{Launch, Tables, run};
use twinlock_cuda_kernels::ntt::{MAX_LG, TABLES_BYTES, Transform, plan, plan_by_digits};

/// The same transform in both worlds, all sixteen.
fn all(lg: u32) -> Vec<(Transform, oracle::Transform)> {
    use twinlock_api::op::{Direction, Order};
    let both = |oracle: oracle::Transform| {
        let transform = Transform {
            lg,
            inverse: oracle.direction == Direction::Inverse,
            coset: oracle.coset,
            natural_input: oracle.input == Order::Natural,
            natural_output: oracle.output == Order::Natural,
        };
        (transform, oracle)
    };
    oracle::Transform::all().into_iter().map(both).collect()
}

/// Shared memory of a block: an H200's, and one that is short.
const SHARED_BYTES: u32 = 227 << 10;
const FEW_SHARED_BYTES: u32 = 48 << 10;

fn transformed(
    launches: Vec<twinlock_cuda_kernels::ntt::Launch>,
    values: &[Scalar],
    tables: &Tables,
) -> Vec<Scalar> {
    let mut data: Vec<Fr> = values.iter().map(|value| Limbs(fr_words(value))).collect();
    for launch in launches {
        let factors: Vec<Fr> = launch.factors.iter().copied().map(Limbs).collect();
        let known = run(
            Launch {
                kernel: launch.kernel,
                blocks: launch.blocks,
                threads: launch.threads,
                shared_bytes: launch.shared_bytes,
                words: &launch.words,
                factors: &factors,
            },
            &mut data,
            tables,
        );
        assert!(known, "{launch:?}");
    }
    let decode = |limbs: &Fr| {
        let bytes: Vec<u8> = limbs.0.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        fr_from_bytes(&bytes).expect("below the modulus")
    };
    data.iter().map(decode).collect()
}

#[test]
fn every_transform_to_2_12() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tables = Tables::new();
    assert_eq!(tables.size_bytes(), TABLES_BYTES);
    for lg in 0..=12 {
        let values: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
        for (transform, oracle) in all(lg) {
            let expected = if lg <= 6 { ntt_naive } else { ntt_recursive }(&values, oracle);
            for shared_bytes in [SHARED_BYTES, FEW_SHARED_BYTES] {
                let launches = plan(transform, shared_bytes).expect("in range");
                let found = transformed(launches, &values, &tables);
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{transform:?} with {shared_bytes} bytes, seed {seed}");
            }
        }
    }
}

/// Many passes of small digits, as large domains have of large ones.
#[test]
fn every_number_of_passes() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tables = Tables::new();
    // The last has five passes of as many bits.
    for lg in [9, 10, 11, 12, 15] {
        let values: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
        for (transform, oracle) in all(lg) {
            let expected = ntt_recursive(&values, oracle);
            for (lg_tile, max_bits) in [(10, 3), (6, 4), (7, 5), (3, 3)] {
                let Some(launches) = plan_by_digits(transform, lg_tile, max_bits) else { continue };
                let count = launches.len();
                let found = transformed(launches, &values, &tables);
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{transform:?} in {count} launches, seed {seed}");
            }
        }
    }
}

/// Three passes of the largest tiles, where a coset's powers ride on other passes' factors.
#[test]
fn three_passes() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tables = Tables::new();
    let lg = 19;
    let values: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
    let rides = |t: &Transform| t.coset && t.inverse == t.natural_input;
    let some = all(lg).into_iter().filter(|(t, _)| t.natural_input != t.natural_output && rides(t));
    for (transform, oracle) in some {
        let launches = plan(transform, SHARED_BYTES).expect("in range");
        let found = transformed(launches, &values, &tables);
        let differs = found.iter().zip(&ntt_recursive(&values, oracle)).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{transform:?}, seed {seed}");
    }
}

#[test]
fn plans_fit_a_device() {
    for lg in 0..=MAX_LG {
        for (transform, _) in all(lg) {
            for shared_bytes in [SHARED_BYTES, FEW_SHARED_BYTES] {
                let launches = plan(transform, shared_bytes).expect("in range");
                assert!(launches.len() <= if lg <= 27 { 5 } else { 6 }, "{transform:?}");
                let passes = launches.iter().filter(|launch| launch.kernel == "ntt_pass");
                for pass in passes {
                    assert!(pass.threads <= 128, "{pass:?}");
                    let (bits, cols) = (pass.words[1], pass.words[3]);
                    let lg_tile = if shared_bytes == SHARED_BYTES { 10 } else { 9 };
                    assert!(lg < 10 || bits + cols == lg_tile, "a tile is full: {pass:?}");
                }
                for launch in launches {
                    assert!((1..=256).contains(&launch.threads), "{launch:?}");
                    assert!((1..=1 << 20).contains(&launch.blocks), "{launch:?}");
                    assert!(launch.shared_bytes <= shared_bytes.min(64 << 10), "{launch:?}");
                }
            }
        }
    }
    // Those that were fastest on a card, from natural order and to it.
    for (lg, digits) in
        [(20, &[8, 6, 6][..]), (22, &[8, 8, 6]), (24, &[6, 6, 6, 6]), (27, &[9, 6, 6, 6])]
    {
        for (transform, _) in all(lg) {
            let launches = plan(transform, SHARED_BYTES).expect("in range");
            let mut found: Vec<_> = (launches.iter())
                .filter(|launch| launch.kernel == "ntt_pass")
                .map(|launch| launch.words[1])
                .collect();
            if !transform.natural_input {
                found.reverse();
            }
            assert_eq!(found, digits, "{transform:?}");
        }
    }
    assert!(all(MAX_LG + 1).iter().all(|(transform, _)| plan(*transform, 1).is_none()));
}
