//! Multiples of one point.

use blstrs::Scalar;
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use libtest_mimic::{Completion, Failed};
use twinlock_api::op::FixedBase;
use twinlock_api::{Error, Op, PointView};

use super::edge_values;
use crate::harness::{Fixture, Trial, Verdict, ensure_invalid, first_difference, passed};
use crate::oracle::{CurveOracle, G1, G2};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "fixed_base_g1::multiples", run: multiples::<G1> },
        Trial { name: "fixed_base_g1::of_the_identity", run: of_the_identity::<G1> },
        Trial { name: "fixed_base_g1::shapes", run: shapes::<G1> },
        Trial { name: "fixed_base_g2::multiples", run: multiples::<G2> },
        Trial { name: "fixed_base_g2::of_the_identity", run: of_the_identity::<G2> },
        Trial { name: "fixed_base_g2::shapes", run: shapes::<G2> },
    ]
}

/// The operation's table for `base`, one addition an entry.
fn table<C: CurveOracle>(base: C::Point, window_bits: u32) -> Vec<C::Affine> {
    let mut points = Vec::new();
    let mut first = base;
    for _ in 0..FixedBase::num_windows(window_bits) {
        let mut multiple = first;
        for _ in 0..1u32 << (window_bits - 1) {
            points.push(multiple.to_affine());
            multiple += first;
        }
        for _ in 0..window_bits {
            first = first.double();
        }
    }
    points
}

/// Whether the device has the operation, and its multiples of `base` by `scalars`.
fn found<C: CurveOracle>(
    f: &mut Fixture,
    base: C::Point,
    window_bits: u32,
    scalars: &[Scalar],
) -> Result<Option<Vec<u8>>, Failed> {
    let encoded = C::encode_all(&table::<C>(base, window_bits));
    let table = f.work("table", encoded.len() as u64)?;
    f.put(table, &encoded)?;
    let scalars = f.put_frs("scalars", scalars)?;
    let target = f.work("multiples", scalars.len() * C::GROUP.affine_bytes())?;
    let (table, points) = (PointView::new(table, C::GROUP)?, PointView::new(target, C::GROUP)?);
    match f.run(Op::FixedBase(FixedBase::new(window_bits, table, scalars, points)?)) {
        Err(Error::Unsupported(_)) => Ok(None),
        outcome => {
            outcome?;
            Ok(Some(f.get(target)?))
        }
    }
}

fn check<C: CurveOracle>(
    f: &mut Fixture,
    base: C::Point,
    window_bits: u32,
    scalars: &[Scalar],
) -> Verdict {
    let Some(found) = found::<C>(f, base, window_bits, scalars)? else {
        return Ok(Completion::ignored_with("not one of the device's operations"));
    };
    let expected: Vec<_> = scalars.iter().map(|scalar| (base * scalar).to_affine()).collect();
    let what = format!("{} multiples, windows of {window_bits} bits", scalars.len());
    first_difference(&what, &found, &C::encode_all(&expected))?;
    passed()
}

fn multiples<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let mut verdict = passed();
    for (window_bits, len) in
        [(1, 3), (2, 31), (5, 32), (7, 33), (8, 1), (8, 0), (8, 300), (11, 129)]
    {
        let base = C::Affine::generator() * Scalar::random(&mut f.rng);
        let mut scalars = edge_values(len, &mut f.rng);
        // Digits of exactly half a window, and a carry through all of them.
        let half = Scalar::from(1 << (window_bits - 1));
        scalars.extend([half, -half, half + Scalar::ONE, half.double() - Scalar::ONE]);
        scalars.truncate(len);
        scalars.reverse();
        verdict = check::<C>(f, base, window_bits, &scalars);
        if !matches!(verdict, Ok(Completion::Completed)) {
            break;
        }
    }
    verdict
}

fn of_the_identity<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let scalars = edge_values(40, &mut f.rng);
    check::<C>(f, C::Point::identity(), 4, &scalars)
}

fn shapes<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let bytes = |len: u64| len * C::GROUP.affine_bytes();
    let table = PointView::new(f.work("table", bytes(FixedBase::table_len(4)))?, C::GROUP)?;
    let target = PointView::new(f.work("multiples", bytes(5))?, C::GROUP)?;
    let scalars = f.put_frs("scalars", &[Scalar::ONE; 5])?;
    for window_bits in [0, 3, 5, 17, 32] {
        let outcome = FixedBase::new(window_bits, table, scalars, target);
        ensure_invalid(outcome, &format!("windows of {window_bits} bits"))?;
    }
    ensure_invalid(FixedBase::new(4, table, scalars.slice(0, 4)?, target), "a scalar too few")?;
    let within = table.slice(1, 5)?;
    ensure_invalid(FixedBase::new(4, table, scalars, within), "a target in the table")?;
    passed()
}
