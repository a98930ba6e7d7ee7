//! Plans that several MSMs share, chunks of bases, and maps from scalars to bases.

use blstrs::Scalar;
use ff::Field;
use rand::Rng;
use twinlock_api::Error;
use twinlock_api::layout::NO_BASE;
use twinlock_api::op::{BaseOf, DigitsShape};

use super::{edge_values, random_values};
use crate::harness::{
    Fixture, MsmBuffers, Plan, Trial, Verdict, accumulate_unplanned, ensure, passed,
};
use crate::oracle::{CurveOracle, G1, G2, known_bases, msm_by_logs};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "msm_g1::chunks", run: chunks::<G1> },
        Trial { name: "msm_g1::leading", run: leading::<G1> },
        Trial { name: "msm_g1::indexed", run: indexed::<G1> },
        Trial { name: "msm_g1::indexed_in_chunks", run: indexed_in_chunks::<G1> },
        Trial { name: "msm_g1::plan_of_fewer", run: plan_of_fewer::<G1> },
        Trial { name: "msm_g1::buffers_reused", run: buffers_reused::<G1> },
        Trial { name: "msm_g2::chunks", run: chunks::<G2> },
        Trial { name: "msm_g2::leading", run: leading::<G2> },
        Trial { name: "msm_g2::indexed", run: indexed::<G2> },
        Trial { name: "msm_g2::indexed_in_chunks", run: indexed_in_chunks::<G2> },
        Trial { name: "msm_g2::plan_of_fewer", run: plan_of_fewer::<G2> },
        Trial { name: "msm_g2::buffers_reused", run: buffers_reused::<G2> },
        Trial { name: "msm_g1::plan_never_made", run: plan_never_made },
        Trial { name: "msm_both::one_plan", run: one_plan },
        Trial { name: "msm_both::interleaved", run: interleaved },
    ]
}

fn shape<C: CurveOracle>(f: &Fixture, max_len: usize) -> DigitsShape {
    let max_len = max_len as u64;
    DigitsShape::new(max_len, f.device().window_bits(C::GROUP, max_len))
}

/// Bases in chunks, each with a plan of its scalars, at a multiple of the chunk and beside it.
fn chunks<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    const CHUNK: usize = 128;
    let (device, stream) = (f.device().clone(), f.stream());
    let shape = shape::<C>(f, CHUNK);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    for len in [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1, 3 * CHUNK, 3 * CHUNK + 1] {
        let bases = known_bases::<C>(len, &mut f.rng);
        let scalars = edge_values(len, &mut f.rng);
        let scalar_view = f.put_frs("scalars", &scalars)?;
        let points = f.put_points::<C>("bases", &bases.points)?;
        buffers.clear(&*device, stream)?;
        for start in (0..len).step_by(CHUNK) {
            let (start, count) = (start as u64, CHUNK.min(len - start) as u64);
            plan.make(&*device, stream, scalar_view.slice(start, count)?)?;
            let chunk = points.slice(start, count)?;
            buffers.accumulate(&*device, stream, &plan, chunk, BaseOf::same())?;
        }
        buffers.reduce(&*device, stream)?;
        let found = buffers.sum::<C>(f)?;
        ensure(found == msm_by_logs::<C>(&scalars, &bases.logs), || {
            format!("{len} points in chunks of {CHUNK}: the sum is wrong")
        })?;
        f.expect_msm::<C>("the same at once", &scalars, &bases.points, found)?;
    }
    passed()
}

/// The first scalars have no base.
fn leading<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let len = 200usize;
    let scalars = random_values(len, &mut f.rng);
    let bases = known_bases::<C>(len, &mut f.rng);
    let shape = shape::<C>(f, len);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    let scalar_view = f.put_frs("scalars", &scalars)?;
    plan.make(&*device, stream, scalar_view)?;
    for leading in [0, 1, 2, 31, 199, 200, 201, 5000] {
        let with_base = len.saturating_sub(leading);
        let points = f.put_points::<C>("bases", &bases.points[..with_base])?;
        buffers.clear(&*device, stream)?;
        let base_of = BaseOf::Offset { leading: leading as u64 };
        buffers.accumulate(&*device, stream, &plan, points, base_of)?;
        buffers.reduce(&*device, stream)?;
        let found = buffers.sum::<C>(f)?;
        let expected = msm_by_logs::<C>(&scalars[len - with_base..], &bases.logs);
        ensure(found == expected, || format!("{leading} scalars without a base: a wrong sum"))?;
    }
    passed()
}

/// A map that leaves scalars out, turns the order round, and uses a base more than once.
fn indexed<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let (len, num_bases) = (300usize, 120usize);
    let scalars = random_values(len, &mut f.rng);
    let bases = known_bases::<C>(num_bases, &mut f.rng);
    let shape = shape::<C>(f, len);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    let scalar_view = f.put_frs("scalars", &scalars)?;
    let points = f.put_points::<C>("bases", &bases.points)?;
    plan.make(&*device, stream, scalar_view)?;
    for first in [0u32, 1, 1000] {
        let mut indices: Vec<u32> = (0..len as u32)
            .map(|i| match f.rng.gen_range(0..3) {
                0 => NO_BASE,
                _ => first + (i * 7) % num_bases as u32,
            })
            .collect();
        // Neither before the first base nor after the last is there a base.
        for (slot, index) in
            [first + 119, first, first + 120, first.wrapping_sub(1), NO_BASE - 1, 0]
                .into_iter()
                .enumerate()
        {
            indices[slot * 3] = index;
        }
        let index_view = f.put_indices("map", &indices)?;
        buffers.clear(&*device, stream)?;
        let base_of = BaseOf::indexed(index_view, first);
        buffers.accumulate(&*device, stream, &plan, points, base_of)?;
        buffers.reduce(&*device, stream)?;
        let log_of = |index: &u32| {
            let relative = if *index == NO_BASE { None } else { index.checked_sub(first) };
            relative
                .and_then(|relative| bases.logs.get(relative as usize))
                .copied()
                .unwrap_or(Scalar::ZERO)
        };
        let logs: Vec<_> = indices.iter().map(log_of).collect();
        let found = buffers.sum::<C>(f)?;
        ensure(found == msm_by_logs::<C>(&scalars, &logs), || {
            format!("an indexed MSM with first {first}: a wrong sum")
        })?;
    }
    passed()
}

/// One plan and one map for a query that comes in chunks.
fn indexed_in_chunks<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    const CHUNK: u64 = 50;
    let (device, stream) = (f.device().clone(), f.stream());
    let len = 400usize;
    let scalars = random_values(len, &mut f.rng);
    // Every third scalar has no base, as witness variables that do not occur.
    let mut next = 0;
    let indices: Vec<u32> = (0..len)
        .map(|i| {
            if i % 3 == 1 {
                return NO_BASE;
            }
            next += 1;
            next - 1
        })
        .collect();
    let bases = known_bases::<C>(next as usize, &mut f.rng);
    let shape = shape::<C>(f, len);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    let scalar_view = f.put_frs("scalars", &scalars)?;
    let map = f.put_indices("map", &indices)?;
    let points = f.put_points::<C>("bases", &bases.points)?;
    plan.make(&*device, stream, scalar_view)?;
    buffers.clear(&*device, stream)?;
    for start in (0..points.len()).step_by(CHUNK as usize) {
        let chunk = points.slice(start, CHUNK.min(points.len() - start))?;
        let base_of = BaseOf::indexed(map, start as u32);
        buffers.accumulate(&*device, stream, &plan, chunk, base_of)?;
    }
    buffers.reduce(&*device, stream)?;
    let used: Vec<_> = scalars
        .iter()
        .zip(&indices)
        .filter(|(_, index)| **index != NO_BASE)
        .map(|(scalar, _)| *scalar)
        .collect();
    let found = buffers.sum::<C>(f)?;
    ensure(found == msm_by_logs::<C>(&used, &bases.logs), || {
        "a query in chunks by one map: a wrong sum".into()
    })?;
    passed()
}

/// Plans of fewer scalars in buffers for many, one after the other.
fn plan_of_fewer<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let bases = known_bases::<C>(600, &mut f.rng);
    let points = f.put_points::<C>("bases", &bases.points)?;
    let shape = shape::<C>(f, 600);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    for len in [600usize, 1, 599, 0, 33, 300, 600] {
        let scalars = random_values(len, &mut f.rng);
        let scalar_view = f.put_frs("scalars", &scalars)?;
        plan.make(&*device, stream, scalar_view)?;
        buffers.clear(&*device, stream)?;
        let used = points.slice(0, len as u64)?;
        buffers.accumulate(&*device, stream, &plan, used, BaseOf::same())?;
        buffers.reduce(&*device, stream)?;
        let found = buffers.sum::<C>(f)?;
        ensure(found == msm_by_logs::<C>(&scalars, &bases.logs), || {
            format!("{len} scalars in a plan for 600: a wrong sum")
        })?;
    }
    passed()
}

/// What workspaces and windows hold makes no difference; an accumulator sums several plans.
fn buffers_reused<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let bases = known_bases::<C>(64, &mut f.rng);
    let points = f.put_points::<C>("bases", &bases.points)?;
    let shape = shape::<C>(f, 64);
    let mut plan = Plan::new(f, shape)?;
    let buffers = MsmBuffers::new::<C>(f, shape)?;
    let mut total = vec![Scalar::ZERO; 64];
    buffers.clear(&*device, stream)?;
    // The same points again and again, so that buckets meet equal and opposite sums.
    let scalar = Scalar::random(&mut f.rng);
    for scalars in [vec![scalar; 64], vec![scalar; 64], vec![-scalar; 64], vec![Scalar::ONE; 64]] {
        let scalar_view = f.put_frs("scalars", &scalars)?;
        plan.make(&*device, stream, scalar_view)?;
        buffers.accumulate(&*device, stream, &plan, points, BaseOf::same())?;
        total.iter_mut().zip(&scalars).for_each(|(total, scalar)| *total += scalar);
    }
    buffers.reduce(&*device, stream)?;
    let found = buffers.sum::<C>(f)?;
    ensure(found == msm_by_logs::<C>(&total, &bases.logs), || {
        "four plans in one accumulator: a wrong sum".into()
    })?;
    passed()
}

/// What is no plan fails as a kernel or gives an undefined sum; the device lives, nothing outside
/// the operation's views is written (the fixture's guards tell), and the next MSM is right.
fn plan_never_made(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    for word in [u32::MAX, 0, 1, 0x0101_0101, 1 << 31] {
        let stream = device.create_stream("no plan")?;
        accumulate_unplanned(f, stream, word)?;
        let outcome = f.sync_stream(stream);
        ensure(matches!(outcome, Ok(()) | Err(Error::KernelFailed { .. })), || {
            format!("a plan of {word:#x} throughout: {outcome:?}")
        })?;
        device.destroy_stream(stream)?;
        let bases = known_bases::<G1>(40, &mut f.rng);
        let scalars = random_values(40, &mut f.rng);
        let expected = msm_by_logs::<G1>(&scalars, &bases.logs);
        f.expect_msm::<G1>("after no plan", &scalars, &bases.points, expected)?;
    }
    passed()
}

/// One plan, four MSMs in both groups, as l and a, b_g1 and b_g2 share theirs.
fn one_plan(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let len = 257usize;
    let scalars = edge_values(len, &mut f.rng);
    let shape = shape::<G1>(f, len);
    let mut plan = Plan::new(f, shape)?;
    let scalar_view = f.put_frs("scalars", &scalars)?;
    plan.make(&*device, stream, scalar_view)?;
    for round in 0..2 {
        let g1 = known_bases::<G1>(len, &mut f.rng);
        let g2 = known_bases::<G2>(len, &mut f.rng);
        let buffers_g1 = MsmBuffers::new::<G1>(f, shape)?;
        let buffers_g2 = MsmBuffers::new::<G2>(f, shape)?;
        let points_g1 = f.put_points::<G1>("bases in g1", &g1.points)?;
        let points_g2 = f.put_points::<G2>("bases in g2", &g2.points)?;
        buffers_g1.clear(&*device, stream)?;
        buffers_g2.clear(&*device, stream)?;
        buffers_g1.accumulate(&*device, stream, &plan, points_g1, BaseOf::same())?;
        buffers_g2.accumulate(&*device, stream, &plan, points_g2, BaseOf::same())?;
        buffers_g2.reduce(&*device, stream)?;
        buffers_g1.reduce(&*device, stream)?;
        let (found_g1, found_g2) = (buffers_g1.sum::<G1>(f)?, buffers_g2.sum::<G2>(f)?);
        ensure(found_g1 == msm_by_logs::<G1>(&scalars, &g1.logs), || {
            format!("g1, use {round} of a plan: a wrong sum")
        })?;
        ensure(found_g2 == msm_by_logs::<G2>(&scalars, &g2.logs), || {
            format!("g2, use {round} of a plan: a wrong sum")
        })?;
    }
    passed()
}

/// G1 and G2 by turns on two streams, over two sets of bases.
fn interleaved(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let len = 150usize;
    let streams = [device.create_stream("first")?, device.create_stream("second")?];
    let shape = shape::<G1>(f, len);
    let mut runs = Vec::new();
    for stream in streams {
        let scalars = random_values(len, &mut f.rng);
        let (g1, g2) = (known_bases::<G1>(len, &mut f.rng), known_bases::<G2>(len, &mut f.rng));
        let scalar_view = f.put_frs("scalars", &scalars)?;
        let points_g1 = f.put_points::<G1>("bases in g1", &g1.points)?;
        let points_g2 = f.put_points::<G2>("bases in g2", &g2.points)?;
        let (plan, buffers_g1) = (Plan::new(f, shape)?, MsmBuffers::new::<G1>(f, shape)?);
        let buffers_g2 = MsmBuffers::new::<G2>(f, shape)?;
        let expected =
            (msm_by_logs::<G1>(&scalars, &g1.logs), msm_by_logs::<G2>(&scalars, &g2.logs));
        let views = (scalar_view, points_g1, points_g2);
        runs.push((stream, plan, buffers_g1, buffers_g2, views, expected));
    }
    for (stream, plan, buffers_g1, buffers_g2, (scalars, points_g1, points_g2), _) in &mut runs {
        plan.make(&*device, *stream, *scalars)?;
        buffers_g1.clear(&*device, *stream)?;
        buffers_g2.clear(&*device, *stream)?;
        buffers_g2.accumulate(&*device, *stream, plan, *points_g2, BaseOf::same())?;
        buffers_g1.accumulate(&*device, *stream, plan, *points_g1, BaseOf::same())?;
        buffers_g1.reduce(&*device, *stream)?;
        buffers_g2.reduce(&*device, *stream)?;
    }
    for (index, (stream, _, buffers_g1, buffers_g2, _, expected)) in runs.into_iter().enumerate() {
        device.wait(f.stream(), &device.record(stream)?)?;
        ensure(buffers_g1.sum::<G1>(f)? == expected.0, || format!("g1 of run {index} is wrong"))?;
        ensure(buffers_g2.sum::<G2>(f)? == expected.1, || format!("g2 of run {index} is wrong"))?;
        device.destroy_stream(stream)?;
    }
    passed()
}
