//! Digit plans and MSMs against naive ones.

use std::iter::repeat_n;

use blstrs::Scalar;
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{
    self, CurveOracle, combine, fr_to_bytes, known_bases, msm_by_logs,
};
use twinlock_cuda_host::field::{Fr, Limbs};
use twinlock_cuda_host::msm::{BaseOf, Msm, Plan};
use twinlock_cuda_kernels::digits::Shape;
use twinlock_cuda_kernels::msm::{Lines, resident, threads_of_wave};
use twinlock_cuda_kernels::sizes::msm::{
    G1_BLOCKS_PER_SM, G1_THREADS, G2_BLOCKS_PER_SM, G2_THREADS,
};

const SIGN: u32 = 1 << 31;
const NO_BASE: u32 = u32::MAX;

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn limbs<const N: usize>(bytes: &[u8]) -> Limbs<N> {
    Limbs(words(bytes).try_into().expect("as many words"))
}

fn encode_scalars(scalars: &[Scalar]) -> Vec<Fr> {
    scalars.iter().map(|scalar| limbs(&fr_to_bytes(scalar))).collect()
}

fn rng() -> ChaCha8Rng {
    let seed: u64 = rand::random();
    eprintln!("seed: {seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

fn power_of_two(exponent: u32) -> Scalar {
    Scalar::from(2).pow_vartime([u64::from(exponent)])
}

/// Scalars where digits change their sign, carry, or fill a window.
fn edges(window_bits: u32) -> Vec<Scalar> {
    let one = Scalar::ONE;
    let half = (-one) * Scalar::from(2).invert().expect("2 is not 0");
    let mut edges = vec![Scalar::ZERO, one, -one, half, half + one, half - one];
    for exponent in [window_bits - 1, window_bits, 3 * window_bits - 1, 127, 253, 254] {
        let power = power_of_two(exponent);
        edges.extend([power - one, power, power + one, -power]);
    }
    edges
}

/// The digits of a plan add up to its scalars, and each is in its place.
fn check_plan(plan: &Plan, scalars: &[Scalar]) {
    let mut sums = vec![Scalar::ZERO; scalars.len()];
    for window in 0..plan.num_windows() {
        let weight = |table: usize| {
            power_of_two(plan.shape.window_bits * window as u32 + plan.shift_bits() * table as u32)
        };
        let table = &plan.offsets[window * (plan.num_buckets() + 1)..][..plan.num_buckets() + 1];
        let stride = plan.shape.stride as usize;
        let entries = &plan.entries[window * stride..][..stride];
        assert_eq!(table[0], 0);
        let mut seen = vec![false; plan.shape.tables as usize * scalars.len()];
        for (bucket, bounds) in table.windows(2).enumerate() {
            for entry in &entries[bounds[0] as usize..bounds[1] as usize] {
                let index = (entry & !SIGN) as usize;
                assert!(!std::mem::replace(&mut seen[index], true), "one digit a scalar and table");
                let (table, scalar) = (index / scalars.len(), index % scalars.len());
                let digit = weight(table) * Scalar::from(bucket as u64 + 1);
                sums[scalar] += if entry & SIGN == 0 { digit } else { -digit };
            }
        }
    }
    assert!(sums == scalars);
}

#[test]
fn plans_hold_the_digits() {
    let mut rng = rng();
    for window_bits in 2..=8 {
        for (len, bin_bits, at_once) in [(0, 0, 1), (1, 0, 1), (33, 0, 9), (300, 3, 1), (237, 1, 4)]
        {
            let mut scalars = edges(window_bits);
            scalars.truncate(len);
            scalars.resize_with(len, || Scalar::random(&mut rng));
            let plan = Plan::new(&encode_scalars(&scalars), window_bits, bin_bits, at_once);
            check_plan(&plan, &scalars);
        }
    }
    for (window_bits, bin_bits) in [(11, 0), (12, 1), (13, 2), (16, 5), (20, 9), (22, 10)] {
        let mut scalars = edges(window_bits);
        scalars.resize_with(520, || Scalar::random(&mut rng));
        let plan = Plan::new(&encode_scalars(&scalars), window_bits, bin_bits, 5);
        check_plan(&plan, &scalars);
    }
}

#[test]
fn plans_for_tables_hold_the_digits() {
    let mut rng = rng();
    for (window_bits, bin_bits, tables) in
        [(2, 0, 128), (3, 1, 2), (5, 0, 51), (8, 3, 3), (13, 2, 20), (16, 5, 16), (20, 9, 5)]
    {
        let mut scalars = edges(window_bits);
        scalars.resize_with(rng.gen_range(1..400), || Scalar::random(&mut rng));
        let plan = Plan::for_tables(&encode_scalars(&scalars), tables, window_bits, bin_bits, 2);
        check_plan(&plan, &scalars);
    }
}

/// Lengths around one and two tiles (of 8,192 scalars), and values that fill one
/// bucket, one bin, or hardly any.
#[test]
fn plans_of_many_chunks() {
    let mut rng = rng();
    for (len, bin_bits) in [(8191, 4), (8193, 4), (16_384, 0), (16_385, 0), (33_000, 4)] {
        let ones: Vec<_> = repeat_n(Scalar::ONE, len).collect();
        let bits = (0..len)
            .map(|_| match rng.gen_range(0..100) {
                0..50 => Scalar::ZERO,
                50..98 => Scalar::ONE,
                _ => Scalar::random(&mut rng),
            })
            .collect();
        let small = (0..len).map(|_| Scalar::from(rng.gen_range(0..256u64))).collect();
        let random = (0..len).map(|_| Scalar::random(&mut rng)).collect();
        for scalars in [ones, bits, small, random] {
            let window_bits = if bin_bits == 0 { 9 } else { 14 };
            let plan = Plan::new(&encode_scalars(&scalars), window_bits, bin_bits, 3);
            check_plan(&plan, &scalars);
        }
    }
}

/// Shapes, workspaces and grids as the backend has them, with room for more scalars or without.
#[test]
fn plans_as_the_backend_makes_them() {
    let mut rng = rng();
    for (window_bits, tables, max_len, len, sm_count) in [
        (2, 1, 1, 1, 1),
        (5, 1, 64, 63, 1),
        (9, 2, 8193, 8192, 2),
        (10, 1, 16_385, 16_384, 132),
        (11, 1, 9000, 300, 1),
        (12, 1, 8193, 8193, 132),
        (13, 3, 5462, 5462, 132),
        (16, 1, 1000, 0, 132),
        (16, 16, 600, 599, 132),
        (20, 1, 130, 129, 1),
        (21, 1, 8193, 8193, 2),
        (22, 1, 130, 129, 1),
    ] {
        let mut scalars = edges(window_bits);
        scalars.truncate(len);
        scalars.resize_with(len, || Scalar::random(&mut rng));
        let shape = Shape::new(window_bits, tables, max_len).expect("a shape");
        check_plan(&Plan::of(&shape, &encode_scalars(&scalars), sm_count), &scalars);
    }
}

/// The MSM by one plan.
fn msm<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>(
    scalars: &[Scalar],
    bases: &[C::Affine],
    window_bits: u32,
    resident: u32,
) -> C::Point {
    msm_by_tables::<C, S, N>(scalars, bases, window_bits, resident, 1)
}

/// The same with so many tables of bases.
fn msm_by_tables<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>(
    scalars: &[Scalar],
    bases: &[C::Affine],
    window_bits: u32,
    resident: u32,
    tables: u32,
) -> C::Point {
    let plan = Plan::for_tables(&encode_scalars(scalars), tables, window_bits, 2, 7);
    let mut table: Vec<C::Point> = bases.iter().map(|base| base.to_curve()).collect();
    let mut bases = Vec::new();
    for _ in 0..tables {
        bases.extend(table.iter().map(|base| limbs(&C::encode(&base.to_affine()))));
        for base in &mut table {
            *base = (0..plan.shift_bits()).fold(*base, |point, _| point.double());
        }
    }
    let mut accumulator = vec![S::EMPTY; plan.num_windows() * plan.num_buckets()];
    S::accumulate(&plan, &bases, BaseOf::Offset(0), resident, &mut accumulator);
    sum::<C, S>(&accumulator, window_bits, 4)
}

fn sum<C: CurveOracle, S: Msm>(accumulator: &[S], window_bits: u32, fan: u32) -> C::Point {
    sum_by::<C, S>(&Lines::levels_by(fan, window_bits), accumulator, window_bits, true)
}

fn sum_by<C: CurveOracle, S: Msm>(
    levels: &[Lines],
    accumulator: &[S],
    window_bits: u32,
    few: bool,
) -> C::Point {
    let windows = S::reduce(levels, accumulator, few);
    let bytes: Vec<u8> = windows.iter().flat_map(|word| word.to_le_bytes()).collect();
    combine::<C>(&C::decode_jacobian(&bytes).expect("points"), window_bits)
}

fn lengths<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>() {
    let mut rng = rng();
    for (len, window_bits) in
        [(0, 4), (1, 2), (2, 3), (31, 4), (32, 5), (33, 6), (237, 7), (512, 8), (513, 10)]
    {
        let known = known_bases::<C>(len, &mut rng);
        let mut scalars = edges(window_bits);
        scalars.truncate(len / 2);
        scalars.resize_with(len, || Scalar::random(&mut rng));
        for resident in [4, 64, 1000] {
            let found = msm::<C, S, N>(&scalars, &known.points, window_bits, resident);
            let expected = msm_by_logs::<C>(&scalars, &known.logs);
            assert_eq!(found, expected, "{len} scalars, {window_bits} bits, {resident} threads");
        }
    }
}

#[test]
fn lengths_g1() {
    lengths::<oracle::G1, Limbs<48>, 24>();
}

#[test]
fn lengths_g2() {
    lengths::<oracle::G2, Limbs<96>, 48>();
}

fn by_tables<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>() {
    let mut rng = rng();
    for (len, window_bits, tables) in [(1, 4, 2), (33, 5, 51), (70, 8, 3), (257, 9, 29)] {
        let known = known_bases::<C>(len, &mut rng);
        let mut bases = known.points.clone();
        let mut scalars = edges(window_bits);
        scalars.reverse();
        scalars.resize_with(len, || Scalar::random(&mut rng));
        let mut expected = msm_by_logs::<C>(&scalars, &known.logs);
        expected -= bases[len / 2] * scalars[len / 2];
        bases[len / 2] = C::Affine::identity();
        let found = msm_by_tables::<C, S, N>(&scalars, &bases, window_bits, 40, tables);
        assert_eq!(found, expected, "{len} scalars, {window_bits} bits, {tables} tables");
    }
}

#[test]
fn by_tables_g1() {
    by_tables::<oracle::G1, Limbs<48>, 24>();
}

#[test]
fn by_tables_g2() {
    by_tables::<oracle::G2, Limbs<96>, 48>();
}

fn values<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>() {
    let mut rng = rng();
    let len = 150;
    let known = known_bases::<C>(len, &mut rng);
    let one = Scalar::ONE;
    let mut random = || Scalar::random(&mut rng);
    let full: Vec<_> = repeat_n((), len).map(|()| random()).collect();
    let same = random();
    let sets = [
        vec![Scalar::ZERO; len],
        vec![one; len],
        vec![-one; len],
        vec![same; len],
        full.iter().enumerate().map(|(i, full)| if i % 50 == 0 { *full } else { one }).collect(),
        (0..len as u64).map(|i| Scalar::from(i % 256)).collect(),
        (0..len as u64).map(|i| Scalar::from(1 + i / 7)).collect(),
        full,
    ];
    for scalars in &sets {
        for resident in [2, 30] {
            let found = msm::<C, S, N>(scalars, &known.points, 5, resident);
            assert_eq!(found, msm_by_logs::<C>(scalars, &known.logs));
        }
    }

    // Bases that are infinity, equal, or opposite: first, last, all, and side by side.
    let infinity = C::Affine::identity();
    let point = known.points[0];
    let mut ends = known.points.clone();
    (ends[0], ends[len - 1], ends[len / 2]) = (infinity, infinity, infinity);
    let twos: Vec<_> = (0..len).map(|i| if i % 2 == 0 { point } else { -point }).collect();
    for bases in [ends, vec![infinity; len], vec![point; len], twos] {
        for scalars in &sets {
            let sum = |scalar: &Scalar, base: &C::Affine| *base * scalar;
            let expected: C::Point = scalars.iter().zip(&bases).map(|(s, b)| sum(s, b)).sum();
            assert_eq!(msm::<C, S, N>(scalars, &bases, 4, 3), expected);
        }
    }
}

#[test]
fn values_g1() {
    values::<oracle::G1, Limbs<48>, 24>();
}

#[test]
fn values_g2() {
    values::<oracle::G2, Limbs<96>, 48>();
}

/// Chunks accumulate, and each may have its own way from scalars to bases.
fn chunks<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>() {
    let mut rng = rng();
    let (window_bits, num_bases) = (6, 150);
    let known = known_bases::<C>(num_bases, &mut rng);
    let bases: Vec<_> = known.points.iter().map(|base| limbs(&C::encode(base))).collect();
    let lens = [40, 1, 0, 120];
    let mut accumulator = Vec::new();
    let mut expected = C::Point::identity();
    for (i, len) in lens.into_iter().enumerate() {
        let scalars: Vec<_> = (0..len).map(|_| Scalar::random(&mut rng)).collect();
        let plan = Plan::new(&encode_scalars(&scalars), window_bits, 0, 1);
        accumulator.resize(plan.num_windows() * plan.num_buckets(), S::EMPTY);
        let first = rng.gen_range(0..50u32);
        let mut add = |at: usize, base: u32| {
            if let Some(log) = known.logs.get(base as usize) {
                expected += C::Point::generator() * (scalars[at] * log);
            }
        };
        if i % 2 == 0 {
            (0..len).for_each(|at| add(at, (at as u32).wrapping_sub(first)));
            S::accumulate(&plan, &bases, BaseOf::Offset(first), 7, &mut accumulator);
        } else {
            let indices: Vec<_> = (0..len)
                .map(|_| if rng.gen_ratio(1, 5) { NO_BASE } else { rng.gen_range(0..250) })
                .collect();
            for (at, index) in indices.iter().enumerate().filter(|(_, index)| **index != NO_BASE) {
                add(at, index.wrapping_sub(first));
            }
            let base_of = BaseOf::Indexed(&indices, first);
            S::accumulate(&plan, &bases, base_of, 7, &mut accumulator);
        }
    }
    for fan in [1, 2, 8, 64] {
        assert_eq!(sum::<C, S>(&accumulator, window_bits, fan), expected);
    }
}

#[test]
fn chunks_g1() {
    chunks::<oracle::G1, Limbs<48>, 24>();
}

#[test]
fn chunks_g2() {
    chunks::<oracle::G2, Limbs<96>, 48>();
}

/// One bucket alone, each in turn, counts by its number.
#[test]
fn buckets_count_by_their_number() {
    let mut rng = rng();
    let point = blstrs::G1Projective::random(&mut rng).to_affine();
    for window_bits in [2, 3, 4, 5, 8, 12] {
        let num_buckets = 1usize << (window_bits - 1);
        for bucket in (0..num_buckets).step_by(1 + num_buckets / 40) {
            let scalar = Scalar::from(bucket as u64 + 1);
            let found = msm::<oracle::G1, Limbs<48>, 24>(&[scalar], &[point], window_bits, 9);
            assert_eq!(found, point * scalar, "bucket {bucket} of {num_buckets}");
        }
    }
}

/// Runs, folds and sums as the backend launches them on cards of few multiprocessors.
fn as_on_cards<C: CurveOracle, S: Msm<Affine = Limbs<N>>, const N: usize>(
    blocks_per_sm: u32,
    threads: u32,
) {
    let mut rng = rng();
    for (len, window_bits, sm_count) in [(700, 4, 1), (900, 7, 2), (400, 11, 1)] {
        let known = known_bases::<C>(len, &mut rng);
        let bases: Vec<_> = known.points.iter().map(|base| limbs(&C::encode(base))).collect();
        let scalars: Vec<_> = (0..len).map(|_| Scalar::random(&mut rng)).collect();
        let shape = Shape::new(window_bits, 1, 1000).expect("a shape");
        let plan = Plan::of(&shape, &encode_scalars(&scalars), sm_count);
        let resident = resident(sm_count, blocks_per_sm, threads);
        let mut accumulator = vec![S::EMPTY; plan.num_windows() * plan.num_buckets()];
        let threads = threads_of_wave(resident) as u32;
        S::accumulate(&plan, &bases, BaseOf::Offset(0), threads, &mut accumulator);
        let levels = Lines::levels(resident, &shape);
        let found = sum_by::<C, S>(&levels, &accumulator, window_bits, false);
        assert_eq!(found, msm_by_logs::<C>(&scalars, &known.logs), "{len} of {window_bits} bits");
    }
}

#[test]
fn as_on_cards_g1() {
    as_on_cards::<oracle::G1, Limbs<48>, 24>(G1_BLOCKS_PER_SM, G1_THREADS);
}

#[test]
fn as_on_cards_g2() {
    as_on_cards::<oracle::G2, Limbs<96>, 48>(G2_BLOCKS_PER_SM, G2_THREADS);
}
