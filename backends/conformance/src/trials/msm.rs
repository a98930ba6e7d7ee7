//! MSMs of every length, bases that degenerate, several at once.

use blstrs::Scalar;
use ff::Field;
use group::Group as _;
use group::prime::PrimeCurveAffine;
use libtest_mimic::Completion;
use twinlock_api::op::{BaseOf, DigitsShape, Fill};
use twinlock_api::{FrView, Op, PointView};

use super::{edge_values, random_values};
use crate::harness::{Fixture, MsmBuffers, Plan, Trial, Verdict, ensure, passed};
use crate::oracle::{
    CurveOracle, G1, G2, KnownBases, combine, frs_to_bytes, known_bases, msm_by_logs, msm_naive,
};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "msm_g1::naive", run: naive::<G1> },
        Trial { name: "msm_g1::lengths", run: lengths::<G1> },
        Trial { name: "msm_g1::identity_bases", run: identity_bases::<G1> },
        Trial { name: "msm_g1::equal_points", run: equal_points::<G1> },
        Trial { name: "msm_g1::opposite_points", run: opposite_points::<G1> },
        Trial { name: "msm_g1::sum_is_identity", run: sum_is_identity::<G1> },
        Trial { name: "msm_g1::queued_ten_times", run: queued_ten_times::<G1> },
        Trial { name: "msm_g1::large", run: |f| large::<G1>(f, 24) },
        Trial { name: "msm_g1::past_2^31_bytes", run: |f| past_bytes(f, 31) },
        Trial { name: "msm_g1::past_2^32_bytes", run: |f| past_bytes(f, 32) },
        Trial { name: "msm_g2::naive", run: naive::<G2> },
        Trial { name: "msm_g2::lengths", run: lengths::<G2> },
        Trial { name: "msm_g2::identity_bases", run: identity_bases::<G2> },
        Trial { name: "msm_g2::equal_points", run: equal_points::<G2> },
        Trial { name: "msm_g2::opposite_points", run: opposite_points::<G2> },
        Trial { name: "msm_g2::sum_is_identity", run: sum_is_identity::<G2> },
        Trial { name: "msm_g2::queued_ten_times", run: queued_ten_times::<G2> },
        Trial { name: "msm_g2::large", run: |f| large::<G2>(f, 22) },
    ]
}

/// The device's MSM against what the logarithms of the bases say.
fn expect<C: CurveOracle>(
    f: &mut Fixture,
    what: &str,
    scalars: &[Scalar],
    bases: &KnownBases<C>,
) -> Result<(), libtest_mimic::Failed> {
    let expected = msm_by_logs::<C>(scalars, &bases.logs);
    f.expect_msm::<C>(what, scalars, &bases.points, expected)
}

fn naive<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    for len in [0, 1, 2, 3, 9, 33] {
        let points: Vec<C::Affine> =
            (0..len).map(|_| group::Curve::to_affine(&C::Point::random(&mut f.rng))).collect();
        let scalars = edge_values(len, &mut f.rng);
        let expected = msm_naive::<C>(&scalars, &points);
        f.expect_msm::<C>("random points", &scalars, &points, expected)?;
    }
    passed()
}

fn lengths<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    for len in [0, 1, 2, 31, 32, 33, 237, 512, 513] {
        let bases = known_bases::<C>(len, &mut f.rng);
        let scalars = random_values(len, &mut f.rng);
        expect(f, "random scalars", &scalars, &bases)?;
        let scalars = edge_values(len, &mut f.rng);
        expect(f, "edge scalars", &scalars, &bases)?;
    }
    passed()
}

fn identity_bases<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let len = 130;
    for places in [vec![0], vec![len - 1], vec![0, 1, 64, len - 1], (0..len).collect()] {
        let mut bases = known_bases::<C>(len, &mut f.rng);
        for place in &places {
            bases.points[*place] = C::Affine::identity();
            bases.logs[*place] = Scalar::ZERO;
        }
        let what = format!("the identity at {} places", places.len());
        let scalars = random_values(len, &mut f.rng);
        expect(f, &what, &scalars, &bases)?;
        expect(f, &what, &vec![Scalar::ONE; len], &bases)?;
    }
    passed()
}

fn equal_points<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let one = known_bases::<C>(1, &mut f.rng);
    // 8,192 copies of one point (and a few more, for odd counts in every round of pairing), of
    // which the scalars are equal, or ones, or random.
    let many = if f.is_naive() { 512 } else { 8192 };
    for len in [2usize, 3, many, many + 3] {
        let bases =
            KnownBases::<C> { points: vec![one.points[0]; len], logs: vec![one.logs[0]; len] };
        let scalar = Scalar::random(&mut f.rng);
        expect(f, "copies of a point, equal scalars", &vec![scalar; len], &bases)?;
        expect(f, "copies of a point, ones", &vec![Scalar::ONE; len], &bases)?;
        expect(f, "copies of a point, r - 1", &vec![-Scalar::ONE; len], &bases)?;
        let scalars = random_values(len, &mut f.rng);
        expect(f, "copies of a point", &scalars, &bases)?;
    }
    // Two equal points with equal scalars among others.
    let mut bases = known_bases::<C>(100, &mut f.rng);
    let mut scalars = random_values(100, &mut f.rng);
    (bases.points[57], bases.logs[57]) = (bases.points[3], bases.logs[3]);
    scalars[57] = scalars[3];
    expect(f, "two equal pairs", &scalars, &bases)?;
    passed()
}

fn opposite_points<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let mut bases = known_bases::<C>(200, &mut f.rng);
    let mut scalars = random_values(200, &mut f.rng);
    // P and -P with one scalar: in one bucket of every window, next to each other and apart, and
    // three of a kind.
    for (from, to) in [(0, 1), (2, 150), (3, 199), (4, 5), (4, 6)] {
        bases.points[to] = -bases.points[from];
        bases.logs[to] = -bases.logs[from];
        scalars[to] = scalars[from];
    }
    // P twice with scalars s and -s.
    (bases.points[8], bases.logs[8]) = (bases.points[7], bases.logs[7]);
    scalars[8] = -scalars[7];
    expect(f, "opposite points", &scalars, &bases)?;
    // A bucket of many points that goes through the identity several times.
    let sign = |i: usize| if i.is_multiple_of(3) { -Scalar::ONE } else { Scalar::ONE };
    let (point, log) = (bases.points[0], bases.logs[0]);
    let walk = KnownBases::<C> {
        points: (0..400).map(|i| if i % 3 == 0 { -point } else { point }).collect(),
        logs: (0..400).map(|i| sign(i) * log).collect(),
    };
    expect(f, "P, P, -P ...", &vec![Scalar::from(5); 400], &walk)?;
    passed()
}

fn sum_is_identity<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    for len in [2, 64, 301] {
        let bases = known_bases::<C>(len, &mut f.rng);
        let mut scalars = random_values(len, &mut f.rng);
        let rest =
            scalars.iter().zip(&bases.logs).take(len - 1).map(|(s, k)| s * k).sum::<Scalar>();
        let inverse = bases.logs[len - 1].invert();
        scalars[len - 1] = -rest * Option::<Scalar>::from(inverse).unwrap_or_default();
        f.expect_msm::<C>("a sum of zero", &scalars, &bases.points, C::Point::identity())?;
        let zeros = vec![Scalar::ZERO; len];
        f.expect_msm::<C>("zero scalars", &zeros, &bases.points, C::Point::identity())?;
    }
    // Accumulators that nothing was added to, and one that only met an empty chunk.
    let shape = DigitsShape::new(16, f.device().window_bits(C::GROUP, 16));
    let (device, stream) = (f.device().clone(), f.stream());
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    buffers.clear(&*device, stream)?;
    buffers.reduce(&*device, stream)?;
    let sum = buffers.sum::<C>(f)?;
    ensure(sum == C::Point::identity(), || "an empty accumulator is not the identity".into())?;
    let mut plan = Plan::new(f, shape)?;
    let scalars = f.put_frs("no scalars", &[])?;
    let bases = f.put_points::<C>("no bases", &[])?;
    plan.make(&*device, stream, scalars)?;
    buffers.clear(&*device, stream)?;
    buffers.accumulate(&*device, stream, &plan, bases, BaseOf::same())?;
    buffers.reduce(&*device, stream)?;
    let sum = buffers.sum::<C>(f)?;
    ensure(sum == C::Point::identity(), || "a sum of nothing is not the identity".into())?;
    passed()
}

/// The same MSM ten times on four streams, nobody waiting: the same window sums.
fn queued_ten_times<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let len = 400;
    let bases = known_bases::<C>(len, &mut f.rng);
    let scalars = random_values(len, &mut f.rng);
    let expected = msm_by_logs::<C>(&scalars, &bases.logs);
    let window_bits = f.device().window_bits(C::GROUP, len as u64);
    let shape = DigitsShape::new(len as u64, window_bits);
    let scalars = f.put_frs("scalars", &scalars)?;
    let points = f.put_points::<C>("bases", &bases.points)?;
    let device = f.device().clone();
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(device.create_stream("one of four")?);
    }
    let mut runs = Vec::new();
    for index in 0..10 {
        runs.push((Plan::new(f, shape)?, MsmBuffers::new::<C>(f, shape)?, streams[index % 4]));
    }
    for (plan, buffers, stream) in &mut runs {
        plan.make(&*device, *stream, scalars)?;
        buffers.clear(&*device, *stream)?;
        buffers.accumulate(&*device, *stream, plan, points, BaseOf::same())?;
        buffers.reduce(&*device, *stream)?;
    }
    let mut first: Option<Vec<C::Point>> = None;
    for (index, (_, buffers, stream)) in runs.iter().enumerate() {
        device.wait(f.stream(), &device.record(*stream)?)?;
        let windows = buffers.window_sums::<C>(f)?;
        let sum = combine::<C>(&windows, window_bits);
        ensure(sum == expected, || format!("run {index} of ten is wrong"))?;
        let first = first.get_or_insert_with(|| windows.clone());
        ensure(*first == windows, || format!("run {index} has other window sums than run 0"))?;
    }
    for stream in streams {
        device.destroy_stream(stream)?;
    }
    passed()
}

/// Random scalars and bits, at lengths beside powers of two.
fn large<C: CurveOracle>(f: &mut Fixture, max_lg: u32) -> Verdict {
    let last = f.max_lg.min(max_lg);
    if last < 10 {
        return Ok(Completion::ignored_with(format!("the largest size asked for is 2^{last}")));
    }
    let last = if f.is_naive() { last.min(11) } else { last };
    for lg in (10..=last).rev().step_by(3) {
        let len = (1usize << lg) + 1;
        let (needed, free) = (msm_bytes::<C>(f, len as u64)?, f.device().memory()?.free_bytes);
        if needed > free {
            let reason = format!("{len} points need {needed} bytes, {free} are free");
            return Ok(Completion::ignored_with(reason));
        }
        let bases = known_bases::<C>(len, &mut f.rng);
        let scalars = random_values(len, &mut f.rng);
        expect(f, "random scalars", &scalars, &bases)?;
        let bits: Vec<_> =
            (0..len as u64).map(|i| Scalar::from(i.count_ones() as u64 % 2)).collect();
        expect(f, "bits", &bits, &bases)?;
    }
    passed()
}

/// Device memory that an MSM over `len` points takes.
fn msm_bytes<C: CurveOracle>(f: &Fixture, len: u64) -> twinlock_api::Result<u64> {
    let device = f.device();
    let shape = DigitsShape::new(len, device.window_bits(C::GROUP, len));
    let (digits, msm) = (device.digits_layout(shape)?, device.msm_layout(C::GROUP, shape)?);
    Ok(len * (32 + C::GROUP.affine_bytes())
        + digits.plan_bytes
        + digits.workspace_bytes
        + msm.accumulator_bytes
        + msm.accumulate_workspace_bytes
        + msm.reduce_workspace_bytes
        + (1 << 20))
}

/// More than 2^`lg_bytes` bytes of bases, made of copies of a tile. The scalars' tile is shorter by
/// one, so that an index that wraps meets another scalar.
fn past_bytes(f: &mut Fixture, lg_bytes: u32) -> Verdict {
    const TILE: u64 = 1 << 16;
    let len = (1u64 << lg_bytes) / 96 + 5;
    if f.max_lg < 25 || f.is_naive() {
        return Ok(Completion::ignored_with("only with TWINLOCK_MAX_LG=25 or more"));
    }
    let max_region = f.device().info().max_region_bytes;
    let (needed, free) = match msm_bytes::<G1>(f, len) {
        Ok(needed) => (needed, f.device().memory()?.free_bytes.min(max_region)),
        Err(error) => return Ok(Completion::ignored_with(error)),
    };
    if needed > free {
        let reason = format!("{len} points need {needed} bytes, {free} can be had");
        return Ok(Completion::ignored_with(reason));
    }
    let bases = known_bases::<G1>(TILE as usize, &mut f.rng);
    let scalars = random_values(TILE as usize - 1, &mut f.rng);
    let points = f.resident("bases", len * 96)?;
    let scalar_view = f.work("scalars", len * 32)?;
    let tiles =
        [(points, G1::encode_all(&bases.points), 96u64), (scalar_view, frs_to_bytes(&scalars), 32)];
    for (view, tile, element_bytes) in tiles {
        for start in (0..view.len_bytes()).step_by(tile.len()) {
            let bytes = (tile.len() as u64).min(view.len_bytes() - start);
            debug_assert!(bytes.is_multiple_of(element_bytes));
            f.put(view.slice(start, bytes)?, &tile[..bytes as usize])?;
        }
    }
    let scalar_at = |i: u64| scalars[(i % (TILE - 1)) as usize];
    let sum = (0..len).map(|i| scalar_at(i) * bases.logs[(i % TILE) as usize]).sum::<Scalar>();
    let expected = <G1 as CurveOracle>::Affine::generator() * sum;
    let window_bits = f.device().window_bits(G1::GROUP, len);
    let shape = DigitsShape::new(len, window_bits);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<G1>(f, shape)?;
    let (device, stream) = (f.device().clone(), f.stream());
    plan.make(&*device, stream, FrView::new(scalar_view)?)?;
    buffers.clear(&*device, stream)?;
    let points = PointView::new(points, G1::GROUP)?;
    buffers.accumulate(&*device, stream, &plan, points, BaseOf::same())?;
    buffers.reduce(&*device, stream)?;
    let found = buffers.sum::<G1>(f)?;
    ensure(found == expected, || format!("an MSM over {len} points is wrong"))?;
    f.run(Op::Fill(Fill::zero(scalar_view)))?;
    passed()
}
