//! Transforms of 2^28 elements, the most there are: five digits, addresses past 2^32, and every bit
//! of the tables' exponents. Also smaller ones, by the same code.

use std::collections::BTreeSet;
use std::time::Instant;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use twinlock_conformance::oracle::{bit_reverse, fr_from_bytes, fr_words, omega};
use twinlock_cuda_host::field::{Fr, Limbs};
use twinlock_cuda_host::ntt::{Launch, Tables, Zeros, run_blocks, run_on};
use twinlock_cuda_kernels::ntt::{self, MAX_LG, Transform, plan};

/// Shared memory of a block of an H200.
const SHARED_BYTES: u32 = 227 << 10;

const COSET: Scalar = Scalar::MULTIPLICATIVE_GENERATOR;

fn invert(value: Scalar) -> Scalar {
    Option::from(value.invert()).expect("not zero")
}

fn power(base: Scalar, exponent: usize) -> Scalar {
    base.pow_vartime([exponent as u64])
}

fn factors(launch: &ntt::Launch) -> Vec<Fr> {
    launch.factors.iter().copied().map(Limbs).collect()
}

fn launch<'a>(launch: &'a ntt::Launch, factors: &'a [Fr]) -> Launch<'a> {
    Launch {
        kernel: launch.kernel,
        blocks: launch.blocks,
        threads: launch.threads,
        shared_bytes: launch.shared_bytes,
        words: &launch.words,
        factors,
    }
}

fn bytes(limbs: &Fr) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, limb) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(limbs.0) {
        *chunk = limb.to_le_bytes();
    }
    bytes
}

/// A transform of few elements that are not zero, at some of its outputs: of each pass, only the
/// blocks are played on the way from these to those.
fn sampled(transform: Transform, tables: &Tables, rng: &mut ChaCha8Rng) {
    let Transform { lg, inverse, coset, natural_input, natural_output } = transform;
    let len = 1usize << lg;
    let position = |number: usize, natural: bool| {
        if natural { number } else { bit_reverse(number, lg) }
    };
    let some = |rng: &mut ChaCha8Rng| [len - 1, rng.gen_range(0..len), rng.gen_range(0..len)];
    let inputs = some(rng).map(|i| (i, Scalar::random(&mut *rng)));
    let outputs = some(rng);

    let mut zeros = Zeros::new(len);
    let data = zeros.elements();
    for (i, value) in &inputs {
        let at = &mut data[position(*i, natural_input)];
        let before = fr_from_bytes(&bytes(at)).expect("below the modulus");
        *at = Limbs(fr_words(&(before + value)));
    }
    let launches = plan(transform, SHARED_BYTES).expect("in range");
    let mut ends = BTreeSet::new();
    for each in &launches {
        let mut blocks = BTreeSet::new();
        match *each.words.as_slice() {
            [_, bits, at, cols, ..] => {
                // What a pass leaves has the outputs' digits where it or one before has been, the
                // inputs' elsewhere.
                let done = if natural_input { !0 << at } else { !(!0 << (at + bits)) };
                ends = outputs.map(|k| position(k, !natural_input)).into_iter().collect();
                for from in inputs.map(|(i, _)| position(i, natural_input)) {
                    for to in &ends {
                        let place = (from & !done) | (to & done);
                        let high = place >> (at + bits);
                        let low = place & !(!0 << at);
                        blocks.insert(match at {
                            0 => place >> (bits + cols),
                            _ => high << (at - cols) | low >> cols,
                        });
                    }
                }
            }
            _ => {
                // Four bits at either end number the elements of a block.
                let middle = |place: usize| place >> 4 & !(!0 << (lg - 8));
                blocks.extend(
                    ends.iter().flat_map(|place| [middle(*place), middle(bit_reverse(*place, lg))]),
                );
            }
        }
        for block in blocks {
            let block = block as u32;
            assert!(block < each.blocks, "block {block} of {each:?}");
            let factors = factors(each);
            assert!(run_blocks(launch(each, &factors), block..block + 1, data, tables));
        }
    }
    let shift = if coset { COSET } else { Scalar::ONE };
    for k in outputs {
        let root = power(omega(lg), k);
        let point = if inverse { invert(root) } else { shift * root };
        let sum: Scalar = inputs.iter().map(|(i, value)| value * power(point, *i)).sum();
        let divisor =
            if inverse { power(shift, k) * Scalar::from(len as u64) } else { Scalar::ONE };
        let found = fr_from_bytes(&bytes(&data[position(k, natural_output)]));
        assert_eq!(found, Some(sum * invert(divisor)), "output {k} of {transform:?}");
    }
}

#[test]
fn large_transforms_at_some_outputs() {
    let seed = rand::random();
    eprintln!("seed: {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tables = Tables::new();
    for lg in [14, 19, 23, 25, 26, 27, MAX_LG] {
        for flags in 0..16 {
            let has = |flag: u32| flags >> flag & 1 == 1;
            let transform = Transform {
                lg,
                inverse: has(0),
                coset: has(1),
                natural_input: has(2),
                natural_output: has(3),
            };
            sampled(transform, &tables, &mut rng);
        }
    }
}

/// Element `i` of a vector that anybody can make anew, in Montgomery form.
fn element(seed: u64, i: usize) -> Fr {
    let mut limbs = [0; 8];
    for (word, pair) in (0..).zip(limbs.as_chunks_mut::<2>().0) {
        // SplitMix64 (Steele, Lea, Flood 2014).
        let mut z =
            seed.wrapping_add((4 * i as u64 + word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        *pair = [z as u32, (z >> 32) as u32];
    }
    // Below the modulus.
    limbs[7] >>= 2;
    Limbs(limbs)
}

/// Montgomery form as it is, the element times 2^256: what is linear does not mind.
fn scalar(limbs: &Fr) -> Scalar {
    Option::from(Scalar::from_bytes_le(&bytes(limbs))).expect("below the modulus")
}

const LG_CHUNK: u32 = 9;
const CHUNK: usize = 1 << LG_CHUNK;

/// The polynomial with the coefficients `element`, in bit-reversed order, at each point.
fn values_at(seed: u64, lg: u32, points: &[Scalar]) -> Vec<Scalar> {
    let powers = |point: &Scalar| -> Vec<Scalar> {
        let stride = power(*point, 1 << (lg - LG_CHUNK));
        (0..CHUNK).map(|low| power(stride, bit_reverse(low, LG_CHUNK))).collect()
    };
    let powers: Vec<_> = points.iter().map(powers).collect();
    let chunk = |high: usize| -> Vec<Scalar> {
        let elements: Vec<_> =
            (0..CHUNK).map(|low| scalar(&element(seed, high << LG_CHUNK | low))).collect();
        let first = bit_reverse(high, lg - LG_CHUNK);
        let sum = |(point, powers): (&Scalar, &Vec<Scalar>)| {
            let sum: Scalar = elements.iter().zip(powers).map(|(a, b)| a * b).sum();
            sum * power(*point, first)
        };
        points.iter().zip(&powers).map(sum).collect()
    };
    let add = |a: Vec<Scalar>, b: Vec<Scalar>| a.iter().zip(b).map(|(a, b)| a + b).collect();
    let zeros = || vec![Scalar::ZERO; points.len()];
    (0..1usize << (lg - LG_CHUNK)).into_par_iter().map(chunk).reduce(zeros, add)
}

/// The polynomial with these values on the coset, at a point outside of it:
/// (z^n - s^n) / (n s^n) sum y_k x_k / (z - x_k) with x_k = s w^k.
fn interpolated_at(values: &[Fr], z: Scalar) -> Scalar {
    let len = values.len();
    let root = omega(len.trailing_zeros());
    let chunk = |(number, values): (usize, &[Fr])| -> Scalar {
        let first = COSET * power(root, number * CHUNK);
        let places: Vec<_> = std::iter::successors(Some(first), |place| Some(place * root))
            .take(values.len())
            .collect();
        // All differences inverted at once.
        let mut product = Scalar::ONE;
        let mut before = Vec::with_capacity(CHUNK);
        for place in &places {
            before.push(product);
            product *= z - place;
        }
        let mut inverse = invert(product);
        let mut sum = Scalar::ZERO;
        for ((value, place), before) in values.iter().zip(&places).zip(&before).rev() {
            sum += scalar(value) * place * (inverse * before);
            inverse *= z - place;
        }
        sum
    };
    let sum: Scalar = values.par_chunks(CHUNK).enumerate().map(chunk).sum();
    let shift = power(COSET, len);
    (power(z, len) - shift) * invert(Scalar::from(len as u64) * shift) * sum
}

/// From coefficients to values on the coset, as the quotient's way is: checked at a random point
/// outside, which any wrong value shows, and by definition at some. Then back.
fn whole(lg: u32) {
    let seed = rand::random();
    eprintln!("seed: {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let start = Instant::now();
    let told =
        |what: &str| eprintln!("2^{lg}: {what} after {:.0} s", start.elapsed().as_secs_f64());
    let tables = Tables::new();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut data: Vec<Fr> = (0..1 << lg).into_par_iter().map(|i| element(seed, i)).collect();
    let transformed = |data: &mut [Fr], inverse, natural_input| {
        let transform = Transform { lg, inverse, coset: true, natural_input, natural_output: true };
        for each in plan(transform, SHARED_BYTES).expect("in range") {
            let factors = factors(&each);
            assert!(run_on(threads, launch(&each, &factors), data, &tables));
            told(each.kernel);
        }
    };

    transformed(&mut data, false, false);
    let z = Scalar::random(&mut rng);
    let places = [0, 1, data.len() - 1, rng.gen_range(0..data.len())];
    let mut points = vec![z];
    points.extend(places.map(|k| COSET * power(omega(lg), k)));
    let expected = values_at(seed, lg, &points);
    for (place, expected) in places.into_iter().zip(&expected[1..]) {
        assert_eq!(scalar(&data[place]), *expected, "output {place} of 2^{lg}");
    }
    assert_eq!(interpolated_at(&data, z), expected[0], "some output of 2^{lg}");
    told("the check");

    transformed(&mut data, true, true);
    let is_other = |(i, found): &(usize, &Fr)| **found != element(seed, bit_reverse(*i, lg));
    let other = data.par_iter().enumerate().find_any(is_other);
    assert_eq!(other, None, "2^{lg} and back");
    told("the comparison");
}

#[test]
fn small_ones_as_a_whole() {
    [9, 13, 16].into_iter().for_each(whole);
}

#[test]
#[ignore = "8 GiB and half an hour of one core"]
fn the_largest_as_a_whole() {
    whole(MAX_LG);
}
