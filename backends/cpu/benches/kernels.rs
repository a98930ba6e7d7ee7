//! Medians of the kernels, and of blst's Pippenger and blstrs in the same run.
//!
//! `cargo bench -p twinlock-cpu --bench kernels -- [field] [msm] [ntt] [elements] [--sweep] [--lg A..B]`
#![allow(clippy::print_stdout, missing_docs)]

use blst::MultiPoint;
use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::{Field, PrimeField};
use group::{Curve, Group};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::hint::black_box;
use std::time::Instant;
use twinlock_cpu::decode::decode_points;
use twinlock_cpu::field::{Affine, Coordinate, Fp, Fp2, Fr, Jacobian};
use twinlock_cpu::msm::{self, BaseMap, Plan, Shape};
use twinlock_cpu::ntt::{self, Direction, Order, Transform};
use twinlock_cpu::vector::{self, Input};

/// Processor time of all threads so far, in milliseconds, where the system tells it: on a machine
/// that others use it says more than the clock.
fn processor_ms() -> Option<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let line = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += line.split(' ').next()?.parse::<f64>().ok()?;
    }
    Some(nanoseconds / 1e6)
}

/// Medians over `runs` of the time passed and of the processor time for each thread, in
/// milliseconds.
fn median_ms(runs: usize, mut f: impl FnMut()) -> (f64, f64) {
    let threads = rayon::current_num_threads() as f64;
    let (mut passed, mut used): (Vec<f64>, Vec<f64>) = (0..runs)
        .map(|_| {
            let (start, before) = (Instant::now(), processor_ms());
            f();
            let passed = start.elapsed().as_secs_f64() * 1e3;
            let used = processor_ms().zip(before).map_or(f64::NAN, |(now, before)| now - before);
            (passed, used / threads)
        })
        .unzip();
    passed.sort_by(f64::total_cmp);
    used.sort_by(f64::total_cmp);
    (passed[runs / 2], used[runs / 2])
}

fn fr(scalar: &Scalar) -> Fr {
    Fr(bytemuck::cast::<[u8; 32], [u64; 4]>(scalar.to_repr())).to_montgomery()
}

/// Scalars: uniform, or of a Filecoin witness (51% zero, 47% one, 2% full), or 99% bits.
fn scalars(profile: &str, n: usize) -> Vec<Scalar> {
    let mut rng = StdRng::seed_from_u64(7);
    let cut = match profile {
        "random" => (0, 0),
        "porep" => (51, 98),
        _ => (50, 99),
    };
    (0..n)
        .map(|_| match rng.gen_range(0..100) {
            k if k < cut.0 => Scalar::ZERO,
            k if k < cut.1 => Scalar::ONE,
            _ => Scalar::random(&mut rng),
        })
        .collect()
}

struct Buffers<F> {
    plan: Vec<u64>,
    digits: Vec<u64>,
    accumulate: Vec<u64>,
    reduce: Vec<u64>,
    buckets: Vec<Affine<F>>,
    windows: Vec<Jacobian<F>>,
}

impl<F: Coordinate> Buffers<F> {
    fn new(shape: &Shape) -> Self {
        let threads = rayon::current_num_threads();
        Self {
            plan: vec![0; shape.plan_bytes() / 8],
            digits: vec![0; shape.digits_workspace_bytes(threads) / 8],
            accumulate: vec![0; msm::accumulate_workspace_bytes::<F>(shape, threads) / 8],
            reduce: vec![0; msm::reduce_workspace_bytes::<F>(shape, threads) / 8],
            buckets: vec![Affine::IDENTITY; shape.num_accumulators()],
            windows: vec![Jacobian::IDENTITY; shape.num_windows()],
        }
    }
}

/// Processor milliseconds for each thread of digits, accumulate and reduce with combine, and the result.
fn msm_once<F: Coordinate>(
    shape: Shape,
    scalars: &[Fr],
    bases: &[Affine<F>],
    buffers: &mut Buffers<F>,
) -> ([f64; 3], Affine<F>) {
    let threads = rayon::current_num_threads() as f64;
    let mut last = processor_ms().unwrap_or(f64::NAN);
    let mut lap = || {
        let now = processor_ms().unwrap_or(f64::NAN);
        let ms = (now - last) / threads;
        last = now;
        ms
    };
    msm::digits(
        shape,
        scalars,
        bytemuck::cast_slice_mut(&mut buffers.plan),
        bytemuck::cast_slice_mut(&mut buffers.digits),
    )
    .expect("digits");
    let digits_ms = lap();
    let plan = Plan::from_bytes(shape, bytemuck::cast_slice(&buffers.plan)).expect("plan");
    buffers.buckets.fill(Affine::IDENTITY);
    msm::accumulate(
        &plan,
        bases,
        BaseMap::Skip(0),
        &mut buffers.buckets,
        bytemuck::cast_slice_mut(&mut buffers.accumulate),
    )
    .expect("accumulate");
    let accumulate_ms = lap();
    msm::reduce(
        &shape,
        &buffers.buckets,
        &mut buffers.windows,
        bytemuck::cast_slice_mut(&mut buffers.reduce),
    )
    .expect("reduce");
    let result = msm::combine(&buffers.windows, shape.window_bits()).to_affine();
    ([digits_ms, accumulate_ms, lap()], result)
}

fn bench_msm<F: Coordinate>(
    group: &str,
    lg: u32,
    bases: &[Affine<F>],
    blst_ms: impl Fn(&[u8]) -> ((f64, f64), Affine<F>),
    sweep: bool,
) {
    let n = bases.len();
    let runs = if lg <= 16 { 7 } else { 3 };
    for profile in ["random", "porep", "bits"] {
        let scalars = scalars(profile, n);
        let scalars_fr: Vec<_> = scalars.iter().map(fr).collect();
        let bytes: Vec<u8> = scalars.iter().flat_map(|s| s.to_repr()).collect();
        let (blst, expected) = blst_ms(&bytes);
        let best = Shape::best_window_bits(n);
        let all = if sweep { best - 2..=best - 1 } else { best..=best };
        for window_bits in all {
            let shape = Shape::new(n, window_bits).expect("shape");
            let mut buffers = Buffers::new(&shape);
            let mut laps = vec![];
            let total = median_ms(runs, || {
                let (lap, result) = msm_once(shape, &scalars_fr, bases, &mut buffers);
                assert_eq!(result, expected);
                laps.push(lap);
            });
            let step = |i: usize| {
                let mut times: Vec<_> = laps.iter().map(|lap| lap[i]).collect();
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            };
            println!(
                "msm {group} 2^{lg} {profile:6} window {window_bits:2}: {:8.2} ms, cpu {:8.2} \
                 (digits {:.2}, accumulate {:.2}, reduce {:.2}); blst {:8.2} ms, cpu {:8.2}; \
                 ratio {:.2}, cpu {:.2}",
                total.0,
                total.1,
                step(0),
                step(1),
                step(2),
                blst.0,
                blst.1,
                blst.0 / total.0,
                blst.1 / total.1,
            );
        }
    }
}

fn g1_points(n: usize) -> Vec<G1Affine> {
    let mut rng = StdRng::seed_from_u64(1);
    let step = G1Projective::generator() * Scalar::random(&mut rng);
    let mut point = step;
    let points: Vec<_> = (0..n)
        .map(|_| {
            point += step;
            point
        })
        .collect();
    let mut affine = vec![G1Affine::default(); n];
    G1Projective::batch_normalize(&points, &mut affine);
    affine
}

fn g2_points(n: usize) -> Vec<G2Affine> {
    let mut rng = StdRng::seed_from_u64(1);
    let step = G2Projective::generator() * Scalar::random(&mut rng);
    let mut point = step;
    let points: Vec<_> = (0..n)
        .map(|_| {
            point += step;
            point
        })
        .collect();
    let mut affine = vec![G2Affine::default(); n];
    G2Projective::batch_normalize(&points, &mut affine);
    affine
}

fn bench_msms(lgs: std::ops::RangeInclusive<u32>, sweep: bool) {
    for lg in lgs {
        let n = 1 << lg;
        let runs = if lg <= 16 { 5 } else { 1 };
        let points: Vec<blst::blst_p1_affine> = g1_points(n).iter().map(|p| *p.as_ref()).collect();
        let bases: Vec<_> = points.iter().map(|p| Affine { x: Fp(p.x.l), y: Fp(p.y.l) }).collect();
        let blst = |bytes: &[u8]| {
            let mut r = blst::blst_p1::default();
            let ms = median_ms(runs, || r = points.as_slice().mult(bytes, 255));
            (ms, Jacobian { x: Fp(r.x.l), y: Fp(r.y.l), z: Fp(r.z.l) }.to_affine())
        };
        bench_msm("g1", lg, &bases, blst, sweep);
        let points: Vec<blst::blst_p2_affine> = g2_points(n).iter().map(|p| *p.as_ref()).collect();
        let fp2 = |x: &blst::blst_fp2| Fp2 { c0: Fp(x.fp[0].l), c1: Fp(x.fp[1].l) };
        let bases: Vec<_> = points.iter().map(|p| Affine { x: fp2(&p.x), y: fp2(&p.y) }).collect();
        let blst = |bytes: &[u8]| {
            let mut r = blst::blst_p2::default();
            let ms = median_ms(runs, || r = points.as_slice().mult(bytes, 255));
            (ms, Jacobian { x: fp2(&r.x), y: fp2(&r.y), z: fp2(&r.z) }.to_affine())
        };
        bench_msm("g2", lg, &bases, blst, sweep);
    }
}

fn bench_ntt(lgs: std::ops::RangeInclusive<u32>) {
    let orders = [Order::Natural, Order::BitReversed];
    for lg in lgs {
        let mut values: Vec<_> = (0..1 << lg).map(Fr::from_u64).collect();
        let bytes = ntt::workspace_bytes(lg, rayon::current_num_threads()).expect("lg");
        let mut workspace = vec![0u64; bytes / 8];
        for (direction, coset) in [
            (Direction::Forward, false),
            (Direction::Forward, true),
            (Direction::Inverse, false),
            (Direction::Inverse, true),
        ] {
            for (input, output) in orders.iter().flat_map(|i| orders.iter().map(move |o| (*i, *o)))
            {
                let transform = Transform { direction, coset, input, output };
                let (ms, cpu) = median_ms(if lg < 20 { 9 } else { 3 }, || {
                    let workspace = bytemuck::cast_slice_mut(&mut workspace);
                    ntt::ntt(transform, lg, &mut values, workspace).expect("ntt");
                });
                println!(
                    "ntt 2^{lg} {direction:?} coset {coset:5} {input:?} to {output:?}: \
                     {ms:8.2} ms, cpu {cpu:8.2}"
                );
            }
        }
    }
}

fn bench_elements(lgs: std::ops::RangeInclusive<u32>) {
    for lg in lgs {
        let n = 1usize << lg;
        let (a, b, c) = (vec![Fr::ONE; n], vec![Fr::ONE; n], vec![Fr::ONE; n]);
        let mut target = vec![Fr::ZERO; n];
        let (ms, _) = median_ms(5, || {
            let [a, b, c] = [&a, &b, &c].map(|x| Input::Slice(x.as_slice()));
            vector::mul_sub_scale(&mut target, a, b, c, &Fr::ONE).expect("lengths");
        });
        println!("vector mul_sub_scale 2^{lg}: {ms:.2} ms");
        let encoded: Vec<u8> = g1_points(n).iter().flat_map(|p| p.to_uncompressed()).collect();
        let mut target = vec![0u64; encoded.len() / 8];
        for on_curve in [false, true] {
            let (ms, _) = median_ms(5, || {
                let target = bytemuck::cast_slice_mut(&mut target);
                decode_points::<Fp>(target, Some(&encoded), on_curve).expect("lengths");
            });
            println!("decode g1 2^{lg}, on_curve {on_curve}: {ms:.2} ms");
        }
    }
}

/// Nanoseconds of field operations, each depending on the one before.
fn bench_field() {
    fn chain<T: Copy>(name: &str, start: T, f: impl Fn(&T) -> T) {
        let count = 1_000_000;
        let threads = rayon::current_num_threads() as f64;
        let (_, ms) = median_ms(5, || {
            black_box((0..count).fold(black_box(start), |x, _| f(&x)));
        });
        println!("field {name:12} {:6.1} ns", ms * threads * 1e6 / f64::from(count));
    }
    let a = Fp([3, 5, 7, 11, 13, 17]);
    let b = Fp2 { c0: a, c1: a.square() };
    let c = Fr([3, 5, 7, 11]);
    chain("fp mul", a, |x| x.mul(&a));
    chain("fp square", a, |x| x.square());
    chain("fp add", a, |x| x.add(&a));
    chain("fp sub", a, |x| x.sub(&a));
    chain("fp2 mul", b, |x| x.mul(&b));
    chain("fp2 square", b, |x| x.square());
    chain("fr mul", c, |x| x.mul(&c));
    chain("fr add", c, |x| x.add(&c));
    let threads = rayon::current_num_threads() as f64;
    let (_, ms) = median_ms(5, || {
        black_box((0..1000).fold(a, |x, _| x.invert().add(&a)));
    });
    println!("field fp invert    {:6.1} ns", ms * threads * 1e3);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let value = |name: &str| {
        args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).map(String::as_str)
    };
    let lgs = value("--lg").and_then(|range| {
        let (from, to) = range.split_once("..").unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    let wants = |name: &str| args.iter().any(|a| a == name) || args.is_empty();
    println!("{} threads", rayon::current_num_threads());
    if wants("field") {
        bench_field();
    }
    if wants("msm") {
        bench_msms(lgs.clone().unwrap_or(12..=16), args.iter().any(|a| a == "--sweep"));
    }
    if wants("ntt") {
        bench_ntt(lgs.clone().unwrap_or(16..=20));
    }
    if wants("elements") {
        bench_elements(lgs.unwrap_or(16..=16));
    }
}
