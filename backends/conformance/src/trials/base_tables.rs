//! Tables of bases' multiples, and MSMs by them.

use blstrs::Scalar;
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use libtest_mimic::{Completion, Failed};
use rand::Rng;
use twinlock_api::layout::NO_BASE;
use twinlock_api::op::{BaseOf, BaseTables, DigitsShape, MsmAccumulate};
use twinlock_api::{Error, Op, PointView};

use super::edge_values;
use crate::harness::{
    Fixture, MsmBuffers, Plan, Trial, Verdict, ensure, ensure_invalid, first_difference, passed,
};
use crate::oracle::{CurveOracle, G1, G2, known_bases, msm_by_logs};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "base_tables_g1::points", run: points::<G1> },
        Trial { name: "base_tables_g1::msms", run: msms::<G1> },
        Trial { name: "base_tables_g1::large", run: |f| large::<G1>(f, 24) },
        Trial { name: "base_tables_g1::mapped_in_chunks", run: mapped_in_chunks::<G1> },
        Trial { name: "base_tables_g1::shapes", run: shapes::<G1> },
        Trial { name: "base_tables_g2::points", run: points::<G2> },
        Trial { name: "base_tables_g2::msms", run: msms::<G2> },
        Trial { name: "base_tables_g2::large", run: |f| large::<G2>(f, 22) },
        Trial { name: "base_tables_g2::mapped_in_chunks", run: mapped_in_chunks::<G2> },
        Trial { name: "base_tables_g2::shapes", run: shapes::<G2> },
    ]
}

fn not_there() -> Verdict {
    Ok(Completion::ignored_with("not one of the device's operations"))
}

/// Whether the device takes plans for more than one table.
fn is_there(f: &Fixture) -> Result<bool, Error> {
    let window_bits = f.device().window_bits(G1::GROUP, 64);
    match f.device().digits_layout(DigitsShape::new(64, window_bits).with_tables(2)) {
        Err(Error::Unsupported(_)) => Ok(false),
        outcome => outcome.map(|_| true),
    }
}

/// Each table against doublings, the identity and lengths around a block among them.
fn points<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    if !is_there(f)? {
        return not_there();
    }
    for (len, tables, shift_bits) in
        [(0, 3, 5), (1, 1, 9), (1, 5, 1), (127, 2, 255), (128, 3, 17), (129, 2, 64), (300, 4, 33)]
    {
        let mut bases = known_bases::<C>(len, &mut f.rng).points;
        for at in [0, len / 2, len.saturating_sub(1)] {
            if let Some(base) = bases.get_mut(at).filter(|_| len > 2) {
                *base = C::Affine::identity();
            }
        }
        let bytes = C::encode_all(&bases);
        let size_bytes = bytes.len() as u64;
        let view = f.resident("base tables", size_bytes * u64::from(tables))?;
        f.put(view.slice(0, size_bytes)?, &bytes)?;
        let points = PointView::new(view, C::GROUP)?;
        f.run(Op::BaseTables(BaseTables::new(points, tables, shift_bits)?))?;
        let mut expected = bytes;
        for _ in 1..tables {
            for base in &mut bases {
                let point = base.to_curve();
                *base = (0..shift_bits).fold(point, |point, _| point.double()).to_affine();
            }
            expected.extend(C::encode_all(&bases));
        }
        let what = format!("{tables} tables of {len} bases, {shift_bits} doublings apart");
        first_difference(&what, &f.get(view)?, &expected)?;
    }
    passed()
}

/// Widths and tables where windows share all buckets, some, or none are left over.
fn msms<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    if !is_there(f)? {
        return not_there();
    }
    for (len, window_bits, tables) in
        [(1, 8, 2), (2, 4, 64), (63, 5, 51), (64, 8, 3), (65, 8, 32), (511, 13, 20), (513, 12, 7)]
    {
        let shape = DigitsShape::new(len as u64 + 3, window_bits).with_tables(tables);
        match f.device().digits_layout(shape) {
            Err(Error::Unsupported(_)) => continue,
            outcome => drop(outcome?),
        }
        let known = known_bases::<C>(len, &mut f.rng);
        let mut bases = known.points;
        let random: Vec<_> = (0..len).map(|_| Scalar::random(&mut f.rng)).collect();
        for mut scalars in [edge_values(len, &mut f.rng), random, vec![Scalar::ONE; len]] {
            scalars.truncate(len);
            let mut expected = msm_by_logs::<C>(&scalars, &known.logs);
            bases[len / 2] = C::Affine::identity();
            expected -= C::Affine::generator() * (scalars[len / 2] * known.logs[len / 2]);
            let found = f.msm_shaped::<C>(shape, &scalars, &bases)?;
            ensure(found == expected, || {
                format!("{len} scalars, {window_bits} bits, {tables} tables: the sum is wrong")
            })?;
        }
    }
    passed()
}

/// Random scalars and bits at a large size, by the width that the device would take and a wide one.
fn large<C: CurveOracle>(f: &mut Fixture, max_lg: u32) -> Verdict {
    if !is_there(f)? {
        return not_there();
    }
    let lg = f.max_lg.min(max_lg).min(if f.is_naive() { 9 } else { u32::MAX });
    let len = (1usize << lg) + 1;
    let known = known_bases::<C>(len, &mut f.rng);
    let random = super::random_values(len, &mut f.rng);
    let bits: Vec<_> = (0..len as u64).map(|i| Scalar::from(i.count_ones() as u64 % 2)).collect();
    let usual = f.device().window_bits(C::GROUP, len as u64);
    for (window_bits, tables) in [(usual, 2), ((usual + 3).min(21), 5)] {
        let shape = DigitsShape::new(len as u64, window_bits).with_tables(tables);
        match f.device().digits_layout(shape) {
            Err(Error::Unsupported(_)) => continue,
            outcome => drop(outcome?),
        }
        for scalars in [&random, &bits] {
            let found = f.msm_shaped::<C>(shape, scalars, &known.points)?;
            let expected = msm_by_logs::<C>(scalars, &known.logs);
            ensure(found == expected, || {
                format!("{len} scalars, {window_bits} bits, {tables} tables: the sum is wrong")
            })?;
        }
    }
    passed()
}

/// One accumulator for plans of different lengths, each with its own way to the bases.
fn mapped_in_chunks<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    if !is_there(f)? {
        return not_there();
    }
    let (num_bases, max_len, leading) = (90u32, 150, 17u64);
    let window_bits = f.device().window_bits(C::GROUP, max_len);
    for tables in [2, 3] {
        let shape = DigitsShape::new(max_len, window_bits).with_tables(tables);
        let known = known_bases::<C>(num_bases as usize, &mut f.rng);
        let buffers = MsmBuffers::new::<C>(f, shape)?;
        let bases = f.put_base_tables::<C>(buffers.layout(), &known.points)?;
        let mut plan = Plan::new(f, shape)?;
        let (device, stream) = (f.device().clone(), f.stream());
        buffers.clear(&*device, stream)?;
        let mut sum = Scalar::ZERO;

        // Some scalars have no base, some share one, and the map starts below the first.
        let random: Vec<u32> = (0..150)
            .map(|_| match f.rng.gen_range(0..4) {
                0 => NO_BASE,
                _ => f.rng.gen_range(0..num_bases + 20),
            })
            .collect();
        // And one around the largest index.
        let last = u32::MAX - 20;
        let around = (0..60).map(|i| (last - 30).wrapping_add(i)).collect();
        for (first, map) in [(5, random), (last, around)] {
            let scalars = super::random_values(map.len(), &mut f.rng);
            for (scalar, index) in scalars.iter().zip(&map) {
                let base = index.checked_sub(first).filter(|_| *index != NO_BASE);
                let log = base.and_then(|base| known.logs.get(base as usize));
                sum += log.map_or(Scalar::ZERO, |log| *log * scalar);
            }
            let scalars = f.put_frs("scalars", &scalars)?;
            let indices = f.put_indices("map", &map)?;
            plan.make(&*device, stream, scalars)?;
            buffers.accumulate(&*device, stream, &plan, bases, BaseOf::indexed(indices, first))?;
        }

        let scalars = super::random_values(leading as usize + num_bases as usize, &mut f.rng);
        let used = scalars.iter().skip(leading as usize);
        sum += used.zip(&known.logs).map(|(scalar, log)| *scalar * log).sum::<Scalar>();
        let scalars = f.put_frs("scalars", &scalars)?;
        plan.make(&*device, stream, scalars)?;
        buffers.accumulate(&*device, stream, &plan, bases, BaseOf::Offset { leading })?;

        buffers.reduce(&*device, stream)?;
        let found = buffers.sum::<C>(f)?;
        ensure(found == C::Affine::generator() * sum, || format!("{tables} tables: wrong"))?;
    }
    passed()
}

fn shapes<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let view = f.resident("base tables", 12 * C::GROUP.affine_bytes())?;
    let points = PointView::new(view, C::GROUP)?;
    for tables in [0, 5, 24] {
        let outcome = BaseTables::new(points, tables, 8);
        ensure_invalid(outcome, &format!("12 points in {tables} tables"))?;
    }
    ensure_invalid(BaseTables::new(points, 3, 513), "a shift of 513 bits")?;
    if !is_there(f)? {
        return not_there();
    }
    let none = f.device().digits_layout(DigitsShape::new(4, 8).with_tables(0));
    ensure(none.is_err(), || format!("a plan for no tables: {none:?}"))?;
    let shape = DigitsShape::new(4, 8).with_tables(3);
    let (plan, buffers) = (Plan::new(f, shape)?, MsmBuffers::new::<C>(f, shape)?);
    let accumulate = |bases: PointView| -> Result<MsmAccumulate, Failed> {
        Ok(buffers.operation((plan.digits().0, 4), bases, BaseOf::same())?)
    };
    accumulate(points)?;
    for len in [4, 11] {
        let outcome =
            buffers.operation((plan.digits().0, 4), points.slice(0, len)?, BaseOf::same());
        ensure_invalid(outcome, &format!("{len} points for 3 tables of 4 bases"))?;
    }
    passed()
}
