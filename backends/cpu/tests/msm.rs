//! MSM against blstrs, at the inputs that broke others.

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use twinlock_cpu::KernelError;
use twinlock_cpu::field::{Affine, Coordinate, Fp, Fp2, Fr, Jacobian};
use twinlock_cpu::msm::{self, BaseMap, Plan, Shape};

/// A group as blstrs has it, beside our coordinates.
trait Oracle {
    type Coordinate: Coordinate;
    type Point: Curve + Group<Scalar = Scalar>;
    fn affine(point: &Self::Point) -> Affine<Self::Coordinate>;
}

struct G1;
struct G2;

impl Oracle for G1 {
    type Coordinate = Fp;
    type Point = G1Projective;
    fn affine(point: &G1Projective) -> Affine<Fp> {
        let affine = point.to_affine();
        if bool::from(affine.is_identity()) {
            return Affine::IDENTITY;
        }
        let bytes = affine.to_uncompressed();
        let at = |i: usize| Fp::from_be_bytes(&bytes[48 * i..48 * (i + 1)]).expect("below p");
        Affine { x: at(0), y: at(1) }
    }
}

impl Oracle for G2 {
    type Coordinate = Fp2;
    type Point = G2Projective;
    fn affine(point: &G2Projective) -> Affine<Fp2> {
        let affine = point.to_affine();
        if bool::from(affine.is_identity()) {
            return Affine::IDENTITY;
        }
        let bytes = affine.to_uncompressed();
        let at = |i: usize| Fp2::from_be_bytes(&bytes[96 * i..96 * (i + 1)]).expect("below p");
        Affine { x: at(0), y: at(1) }
    }
}

fn fr(scalar: &Scalar) -> Fr {
    let standard: [u64; 4] = bytemuck::cast(scalar.to_bytes_le());
    Fr(standard).to_montgomery()
}

fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}

struct Settings {
    window_bits: u32,
    threads: usize,
}

/// Our MSM, the bases in two calls of `accumulate` from buffers that start as garbage.
fn ours<F: Coordinate>(
    settings: &Settings,
    scalars: &[Fr],
    bases: &[Affine<F>],
    map: BaseMap<'_>,
    twice: bool,
) -> (Affine<F>, Vec<Jacobian<F>>) {
    let shape = Shape::new(scalars.len(), settings.window_bits).expect("shape");
    let threads = settings.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
    pool.install(|| {
        let mut plan = vec![!0u64; shape.plan_bytes() / 8];
        let mut workspace = vec![!0u64; shape.digits_workspace_bytes(threads) / 8];
        msm::digits(shape, scalars, bytes_of(&mut plan), bytes_of(&mut workspace)).expect("digits");
        let plan = Plan::from_bytes(shape, bytemuck::cast_slice(&plan)).expect("plan");
        let mut buckets = vec![Affine::IDENTITY; shape.num_accumulators()];
        let mut workspace = vec![!0u64; msm::accumulate_workspace_bytes::<F>(&shape, threads) / 8];
        for _ in 0..1 + usize::from(twice) {
            msm::accumulate(&plan, bases, map, &mut buckets, bytes_of(&mut workspace))
                .expect("accumulate");
        }
        let mut windows = vec![Jacobian::IDENTITY; shape.num_windows()];
        let mut workspace = vec![!0u64; msm::reduce_workspace_bytes::<F>(&shape, threads) / 8];
        msm::reduce(&shape, &buckets, &mut windows, bytes_of(&mut workspace)).expect("reduce");
        (msm::combine(&windows, settings.window_bits).to_affine(), windows)
    })
}

/// Checks the plain MSM, accumulation on top of an equal one, and maps that drop bases.
fn check<O: Oracle>(what: &str, seed: u64, scalars: &[Scalar], points: &[O::Point]) {
    let mut rng = StdRng::seed_from_u64(seed);
    let settings = Settings { window_bits: rng.gen_range(2..=13), threads: rng.gen_range(1..=4) };
    let expected: O::Point = scalars.iter().zip(points).map(|(s, p)| *p * s).sum();
    check_against::<O>(what, seed, &settings, scalars, points, expected);

    // The same with a map: bases permuted, some scalars without one.
    let n = scalars.len();
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.gen_range(0..=i));
    }
    let mut map = order.clone();
    let mut expected = O::Point::identity();
    for (i, at) in map.iter_mut().enumerate() {
        if rng.gen_bool(0.3) {
            *at = u32::MAX;
        } else {
            expected += points[*at as usize] * scalars[i];
        }
    }
    let scalars_fr: Vec<_> = scalars.iter().map(fr).collect();
    let bases: Vec<_> = points.iter().map(O::affine).collect();
    let (got, _) =
        ours(&settings, &scalars_fr, &bases, BaseMap::Index { indices: &map, first: 0 }, false);
    assert_eq!(got, O::affine(&expected), "{what}, mapped, seed {seed}");

    // The same bases in two chunks through one map.
    let cut = rng.gen_range(0..=n);
    let map_from = |first| BaseMap::Index { indices: &map, first };
    let (low, _) = ours(&settings, &scalars_fr, &bases[..cut], map_from(0), false);
    let (high, _) = ours(&settings, &scalars_fr, &bases[cut..], map_from(cut as u32), false);
    let sum = Coordinate::jacobian_add(&low.into(), &high.into()).to_affine();
    assert_eq!(sum, got, "{what}, cut at {cut}, seed {seed}");

    let skip = rng.gen_range(0..=n);
    let expected: O::Point = scalars[skip..].iter().zip(points).map(|(s, p)| *p * s).sum();
    let (got, _) = ours(&settings, &scalars_fr, &bases[..n - skip], BaseMap::Skip(skip), false);
    assert_eq!(got, O::affine(&expected), "{what}, {skip} skipped, seed {seed}");
}

fn check_against<O: Oracle>(
    what: &str,
    seed: u64,
    settings: &Settings,
    scalars: &[Scalar],
    points: &[O::Point],
    expected: O::Point,
) {
    let Settings { window_bits, threads } = *settings;
    let label = format!("{what}, seed {seed}, window_bits {window_bits}, threads {threads}");
    let scalars: Vec<_> = scalars.iter().map(fr).collect();
    let bases: Vec<_> = points.iter().map(O::affine).collect();
    let (got, windows) = ours(settings, &scalars, &bases, BaseMap::Skip(0), false);
    assert_eq!(got, O::affine(&expected), "{label}");
    let (_, again) = ours(
        &Settings { window_bits, threads: threads + 1 },
        &scalars,
        &bases,
        BaseMap::Skip(0),
        false,
    );
    assert_eq!(
        bytemuck::cast_slice::<_, u8>(&windows),
        bytemuck::cast_slice::<_, u8>(&again),
        "{label}: bytes differ with the threads"
    );
    let (got, _) = ours(settings, &scalars, &bases, BaseMap::Skip(0), true);
    assert_eq!(got, O::affine(&(expected + expected)), "{label}, twice");
}

fn points<O: Oracle>(rng: &mut StdRng, n: usize) -> Vec<O::Point> {
    let mut point = O::Point::generator() * Scalar::random(&mut *rng);
    let step = O::Point::generator() * Scalar::random(&mut *rng);
    (0..n)
        .map(|_| {
            point += step;
            point
        })
        .collect()
}

fn scalars(rng: &mut StdRng, n: usize) -> Vec<Scalar> {
    (0..n).map(|_| Scalar::random(&mut *rng)).collect()
}

fn lengths<O: Oracle>() {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    for n in [0, 1, 2, 3, 31, 32, 33, 237, 512, 513] {
        let (s, p) = (scalars(&mut rng, n), points::<O>(&mut rng, n));
        check::<O>(&format!("length {n}"), seed, &s, &p);
    }
}

fn values<O: Oracle>() {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let n = 300;
    let half = Scalar::from(2).invert().expect("odd order");
    let mut cases: Vec<(&str, Vec<Scalar>)> = vec![
        ("all 0", vec![Scalar::ZERO; n]),
        ("all 1", vec![Scalar::ONE; n]),
        ("all r - 1", vec![-Scalar::ONE; n]),
        ("all (r + 1) / 2", vec![half; n]),
        ("all (r - 1) / 2", vec![half - Scalar::ONE; n]),
        ("below 2^8", (0..n).map(|_| Scalar::from(rng.gen_range(0..256))).collect()),
        ("growing", (0..n).map(|i| Scalar::from(i as u64)).collect()),
        ("powers of 2", (0..n).map(|i| Scalar::from(2).pow([i as u64])).collect()),
        ("-powers of 2", (0..n).map(|i| -Scalar::from(2).pow([i as u64])).collect()),
        ("half windows", (0..n).map(|i| Scalar::from(1 << (i % 20))).collect()),
    ];
    let bits = (0..n).map(|_| match rng.gen_range(0..100) {
        0 => Scalar::from(rng.r#gen::<u64>()).square().square(),
        k => Scalar::from(k % 2),
    });
    cases.push(("99% bits", bits.collect()));
    let p = points::<O>(&mut rng, n);
    for (i, (what, s)) in cases.iter().enumerate() {
        check::<O>(what, seed.wrapping_add(i as u64), s, &p);
    }
}

fn degenerate_bases<O: Oracle>() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let n = 120;
    let p = points::<O>(&mut rng, n);
    let q = p[0];
    let zero = O::Point::identity();
    let with = |f: &dyn Fn(usize) -> O::Point| (0..n).map(f).collect::<Vec<_>>();
    let cases: Vec<(&str, Vec<O::Point>)> = vec![
        ("identity first", with(&|i| if i == 0 { zero } else { p[i] })),
        ("identity last", with(&|i| if i == n - 1 { zero } else { p[i] })),
        ("all identity", vec![zero; n]),
        ("identity every third", with(&|i| if i % 3 == 0 { zero } else { p[i] })),
        ("all equal", vec![q; n]),
        ("P and -P", with(&|i| if i % 2 == 0 { q } else { -q })),
        ("-P in the second half", with(&|i| if i < n / 2 { p[i] } else { -p[i - n / 2] })),
        ("multiples of one", with(&|i| q * Scalar::from(i as u64 % 7))),
    ];
    let random = scalars(&mut rng, n);
    for (i, (what, bases)) in cases.iter().enumerate() {
        let seed = seed.wrapping_add(i as u64);
        check::<O>(what, seed, &random, bases);
        check::<O>(&format!("{what}, all 1"), seed, &vec![Scalar::ONE; n], bases);
        let few: Vec<_> = (0..n).map(|i| Scalar::from(i as u64 % 3)).collect();
        check::<O>(&format!("{what}, 0 to 2"), seed, &few, bases);
    }
}

/// Several blocks and several pieces in one bucket, and 8,192 copies of one point.
fn heavy_buckets<O: Oracle>(multi_exp: impl Fn(&[O::Point], &[Scalar]) -> O::Point) {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let n = 8192 + 5;
    let p = points::<O>(&mut rng, n);
    let settings = Settings { window_bits: 10, threads: 3 };
    let copies = vec![p[7]; n];
    let ones = vec![Scalar::ONE; n];
    let expected = p[7] * Scalar::from(n as u64);
    check_against::<O>("8197 copies", seed, &settings, &ones, &copies, expected);
    let expected = p.iter().sum();
    check_against::<O>("8197 ones", seed, &settings, &ones, &p, expected);
    let random = scalars(&mut rng, n);
    let expected = multi_exp(&p, &random);
    check_against::<O>("8197 random", seed, &settings, &random, &p, expected);
    let bits: Vec<_> = random
        .iter()
        .enumerate()
        .map(|(i, s)| if i % 50 == 0 { *s } else { Scalar::from(i as u64 % 2) })
        .collect();
    let expected = multi_exp(&p, &bits);
    check_against::<O>("8197 bits", seed, &settings, &bits, &p, expected);
}

#[test]
fn g1_lengths() {
    lengths::<G1>();
}

#[test]
fn g2_lengths() {
    lengths::<G2>();
}

#[test]
fn g1_values() {
    values::<G1>();
}

#[test]
fn g2_values() {
    values::<G2>();
}

#[test]
fn g1_degenerate_bases() {
    degenerate_bases::<G1>();
}

#[test]
fn g2_degenerate_bases() {
    degenerate_bases::<G2>();
}

#[test]
fn g1_heavy_buckets() {
    heavy_buckets::<G1>(G1Projective::multi_exp);
}

#[test]
fn g2_heavy_buckets() {
    heavy_buckets::<G2>(G2Projective::multi_exp);
}

#[test]
fn sizes_are_those_of_the_canonical_layout() {
    assert_eq!(size_of::<Affine<Fp>>(), size_of::<G1Affine>());
    assert_eq!(size_of::<Affine<Fp2>>(), size_of::<G2Affine>());
}

#[test]
fn lengths_that_do_not_agree_are_refused() {
    let shape = Shape::new(10, 4).expect("shape");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("pool");
    pool.install(|| {
        let plan = plan_words(shape, &[Fr::ZERO; 10]);
        let plan = Plan::from_bytes(shape, bytemuck::cast_slice(&plan)).expect("plan");
        let mut buckets = vec![Affine::<Fp>::IDENTITY; shape.num_accumulators()];
        let mut workspace = vec![0u64; msm::accumulate_workspace_bytes::<Fp>(&shape, 2) / 8];
        let mut run = |num_bases: usize, map: BaseMap<'_>, short: usize| {
            let bases = vec![Affine::IDENTITY; num_bases];
            let workspace = bytes_of(&mut workspace);
            let end = workspace.len() - short;
            msm::accumulate(&plan, &bases, map, &mut buckets[short..], &mut workspace[..end])
        };
        let indices = [0; 10];
        assert!(run(10, BaseMap::Skip(0), 0).is_ok());
        assert!(run(10, BaseMap::Skip(1), 0).is_err());
        assert!(run(0, BaseMap::Skip(usize::MAX), 0).is_ok());
        assert!(run(1, BaseMap::Index { indices: &indices, first: 0 }, 0).is_ok());
        assert!(run(1, BaseMap::Index { indices: &indices[1..], first: 0 }, 0).is_err());
        assert!(run(10, BaseMap::Skip(0), 1).is_err());
    });
}

/// What `digits` leaves in a buffer that held garbage.
fn plan_words(shape: Shape, scalars: &[Fr]) -> Vec<u64> {
    let threads = rayon::current_num_threads();
    let mut plan = vec![!0u64; shape.plan_bytes() / 8];
    let mut workspace = vec![!0u64; shape.digits_workspace_bytes(threads) / 8];
    msm::digits(shape, scalars, bytes_of(&mut plan), bytes_of(&mut workspace)).expect("digits");
    plan
}

fn refusal(shape: Shape, words: &[u64]) -> KernelError {
    Plan::from_bytes(shape, bytemuck::cast_slice(words)).expect_err("not this plan")
}

#[test]
fn plans_that_were_never_made_are_refused() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    for len in [0, 50] {
        let shape = Shape::new(len, 4).expect("shape");
        let num_words = shape.plan_bytes() / 8;
        for word in [0, !0, u64::from(u32::MAX), 1] {
            let error = refusal(shape, &vec![word; num_words]);
            assert!(matches!(error, KernelError::BrokenPlan { .. }), "{word}: {error}");
        }
        for _ in 0..50 {
            let words: Vec<u64> = (0..num_words).map(|_| rng.r#gen()).collect();
            let error = refusal(shape, &words);
            assert!(matches!(error, KernelError::BrokenPlan { .. }), "seed {seed}: {error}");
        }
    }
}

#[test]
fn plans_made_for_something_else_are_refused() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let scalars: Vec<_> = scalars(&mut rng, 50).iter().map(fr).collect();
    let made = |len: usize, window_bits, max_len| {
        Shape::new(len, window_bits).and_then(|shape| shape.within(max_len)).expect("shape")
    };
    let shape = made(50, 5, 60);
    let plan = plan_words(shape, &scalars);
    // Room for any of the shapes below.
    let room = [plan.clone(), vec![!0; 4096]].concat();
    assert!(Plan::from_bytes(shape, bytemuck::cast_slice(&room)).is_ok());
    for (other, what, got, expected) in [
        (made(50, 4, 60), "window_bits", 5, 4),
        (made(50, 6, 60), "window_bits", 5, 6),
        (made(50, 5, 50), "max_len", 60, 50),
        (made(50, 5, 61), "max_len", 60, 61),
        (made(49, 5, 60), "len", 50, 49),
        (made(51, 5, 60), "len", 50, 51),
        (made(0, 5, 60), "len", 50, 0),
    ] {
        assert_eq!(refusal(other, &room), KernelError::ForeignPlan { what, got, expected });
    }
    // An equal plan of fewer scalars in the same buffer takes the seal over.
    let fewer = made(20, 5, 60);
    let again = [plan_words(fewer, &scalars[..20]), vec![!0; 4096]].concat();
    assert!(Plan::from_bytes(fewer, bytemuck::cast_slice(&again)).is_ok());
    let expected = KernelError::ForeignPlan { what: "len", got: 20, expected: 50 };
    assert_eq!(refusal(shape, &again), expected);
    assert!(Shape::new(50, 5).and_then(|shape| shape.within(49)).is_err());
    assert!(Shape::new(50, 5).and_then(|shape| shape.within(1 << 32)).is_err());
}

/// Every bit of the seal and of the offsets counts.
#[test]
fn plans_with_a_changed_bit_are_refused() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let shape = Shape::new(50, 4).expect("shape");
    let scalars: Vec<_> = scalars(&mut rng, 50).iter().map(fr).collect();
    let mut plan = plan_words(shape, &scalars);
    let seal_words = 6;
    let offsets = 64 / 8..64 / 8 + shape.num_windows() * (shape.num_buckets() + 1) / 2;
    for word in (0..seal_words).chain(offsets) {
        for bit in 0..64 {
            plan[word] ^= 1 << bit;
            let error = refusal(shape, &plan);
            let named =
                matches!(error, KernelError::BrokenPlan { .. } | KernelError::ForeignPlan { .. });
            assert!(named, "word {word}, bit {bit}: {error}");
            plan[word] ^= 1 << bit;
        }
    }
    // Two offsets that change places change the checksum.
    plan.swap(64 / 8, 64 / 8 + 3);
    refusal(shape, &plan);
    plan.swap(64 / 8, 64 / 8 + 3);
    assert!(Plan::from_bytes(shape, bytemuck::cast_slice(&plan)).is_ok(), "seed {seed}");
}

/// Entries are under no seal: changed ones give a wrong sum, not a panic.
#[test]
fn changed_entries_do_not_panic() {
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let shape = Shape::new(50, 4).expect("shape");
    let bases: Vec<_> = points::<G1>(&mut rng, 50).iter().map(G1::affine).collect();
    let scalars: Vec<_> = scalars(&mut rng, 50).iter().map(fr).collect();
    let plan = plan_words(shape, &scalars);
    let offsets_bytes = 4 * shape.num_windows() * (shape.num_buckets() + 1);
    let entries = (64 + offsets_bytes.next_multiple_of(64)) / 8;
    for round in 0..200 {
        let mut words = plan.clone();
        let bits = rng.gen_range(1..=64);
        words[entries..].fill_with(|| rng.r#gen::<u64>() >> (64 - bits));
        let plan = Plan::from_bytes(shape, bytemuck::cast_slice(&words)).expect("sealed");
        let mut buckets = vec![Affine::IDENTITY; shape.num_accumulators()];
        let threads = rayon::current_num_threads();
        let mut workspace = vec![0u64; msm::accumulate_workspace_bytes::<Fp>(&shape, threads) / 8];
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            msm::accumulate(&plan, &bases, BaseMap::Skip(0), &mut buckets, bytes_of(&mut workspace))
        }));
        assert!(matches!(caught, Ok(Ok(()))), "seed {seed}, round {round}");
    }
}
