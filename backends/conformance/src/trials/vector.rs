//! Element-wise arithmetic over Fr.

use blstrs::Scalar;
use ff::Field;
use twinlock_api::op::{Vector, VectorKind};
use twinlock_api::{FrView, Op, Result};

use super::{LENGTHS, edge_values, random_values};
use crate::harness::{Fixture, Trial, Verdict, first_difference, passed};
use crate::oracle::fr_words;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "vector::add", run: |f| lengths(f, VectorKind::Add) },
        Trial { name: "vector::sub", run: |f| lengths(f, VectorKind::Sub) },
        Trial { name: "vector::mul", run: |f| lengths(f, VectorKind::Mul) },
        Trial { name: "vector::scale", run: |f| lengths(f, VectorKind::Scale) },
        Trial { name: "vector::mul_sub_scale", run: |f| lengths(f, VectorKind::MulSubScale) },
        Trial { name: "vector::edge_pairs", run: edge_pairs },
        Trial { name: "vector::in_place", run: in_place },
        Trial { name: "vector::same_input_twice", run: same_input_twice },
        Trial { name: "vector::long", run: long },
    ]
}

const KINDS: [VectorKind; 5] =
    [VectorKind::Add, VectorKind::Sub, VectorKind::Mul, VectorKind::Scale, VectorKind::MulSubScale];

fn expected(kind: VectorKind, [a, b, c]: [&[Scalar]; 3], factor: Scalar) -> Vec<Scalar> {
    let value = |i: usize| match kind {
        VectorKind::Add => a[i] + b[i],
        VectorKind::Sub => a[i] - b[i],
        VectorKind::Mul => a[i] * b[i],
        VectorKind::Scale => a[i] * factor,
        VectorKind::MulSubScale => (a[i] * b[i] - c[i]) * factor,
    };
    (0..a.len()).map(value).collect()
}

fn op(kind: VectorKind, [a, b, c]: [FrView; 3], factor: Scalar, target: FrView) -> Result<Op> {
    let factor = fr_words(&factor);
    Ok(Op::Vector(match kind {
        VectorKind::Add => Vector::add(a, b, target)?,
        VectorKind::Sub => Vector::sub(a, b, target)?,
        VectorKind::Mul => Vector::mul(a, b, target)?,
        VectorKind::Scale => Vector::scale(a, factor, target)?,
        VectorKind::MulSubScale => Vector::mul_sub_scale(a, b, c, factor, target)?,
    }))
}

fn lengths(f: &mut Fixture, kind: VectorKind) -> Verdict {
    for len in LENGTHS {
        let [a, b, c] = [(); 3].map(|()| edge_values(len, &mut f.rng));
        let views = [f.put_frs("a", &a)?, f.put_frs("b", &b)?, f.put_frs("c", &c)?];
        let target = FrView::new(f.work("target", len as u64 * 32)?)?;
        let factor = Scalar::random(&mut f.rng);
        f.run(op(kind, views, factor, target)?)?;
        let expected = expected(kind, [&a, &b, &c], factor);
        first_difference(&format!("{kind:?} of {len}"), &f.get_frs(target)?, &expected)?;
        first_difference("an input", &f.get_frs(views[0])?, &a)?;
    }
    passed()
}

/// Every edge value against every other, and edge values as factors.
fn edge_pairs(f: &mut Fixture) -> Verdict {
    let mut edges = edge_values(7, &mut f.rng);
    // Values around half the modulus and around powers of two of the representation.
    let half = Option::<Scalar>::from(Scalar::from(2).invert()).unwrap_or_default();
    edges.extend([half, -half]);
    edges.extend([32, 64, 128, 254].map(|bits| Scalar::from(2).pow_vartime([bits])));
    let pairs = || edges.iter().flat_map(|a| edges.iter().map(move |b| (*a, *b)));
    let (a, b): (Vec<_>, Vec<_>) = pairs().unzip();
    let c: Vec<_> = b.iter().rev().copied().collect();
    let views = [f.put_frs("a", &a)?, f.put_frs("b", &b)?, f.put_frs("c", &c)?];
    let target = FrView::new(f.work("target", views[0].view().len_bytes())?)?;
    for kind in KINDS {
        for factor in &edges {
            f.run(op(kind, views, *factor, target)?)?;
            let expected = expected(kind, [&a, &b, &c], *factor);
            let what = format!("{kind:?} by {factor:?}");
            first_difference(&what, &f.get_frs(target)?, &expected)?;
            if !matches!(kind, VectorKind::Scale | VectorKind::MulSubScale) {
                break;
            }
        }
    }
    passed()
}

/// The target is each of the inputs in turn.
fn in_place(f: &mut Fixture) -> Verdict {
    for kind in KINDS {
        for target in 0..3 {
            for len in [1, 33, 257] {
                let values = [(); 3].map(|()| edge_values(len, &mut f.rng));
                let [a, b, c] = [&values[0], &values[1], &values[2]];
                let views = [f.put_frs("a", a)?, f.put_frs("b", b)?, f.put_frs("c", c)?];
                let factor = Scalar::random(&mut f.rng);
                f.run(op(kind, views, factor, views[target])?)?;
                let expected = expected(kind, [a, b, c], factor);
                let what = format!("{kind:?} of {len} into input {target}");
                first_difference(&what, &f.get_frs(views[target])?, &expected)?;
            }
        }
    }
    passed()
}

/// All inputs are one view, and the target may be it too.
fn same_input_twice(f: &mut Fixture) -> Verdict {
    for kind in KINDS {
        let a = edge_values(100, &mut f.rng);
        let view = f.put_frs("a", &a)?;
        let target = FrView::new(f.work("target", 3200)?)?;
        let factor = Scalar::random(&mut f.rng);
        let expected = expected(kind, [&a, &a, &a], factor);
        for target in [target, view] {
            f.run(op(kind, [view; 3], factor, target)?)?;
            first_difference(&format!("{kind:?} of one view"), &f.get_frs(target)?, &expected)?;
        }
    }
    passed()
}

/// Past one grid's worth of elements, at a length that nothing divides.
fn long(f: &mut Fixture) -> Verdict {
    let len = (1usize << f.max_lg.min(22)) + 77;
    let [a, b, c] = [(); 3].map(|()| random_values(len, &mut f.rng));
    let views = [f.put_frs("a", &a)?, f.put_frs("b", &b)?, f.put_frs("c", &c)?];
    let factor = Scalar::random(&mut f.rng);
    for kind in [VectorKind::Sub, VectorKind::MulSubScale] {
        let target = FrView::new(f.work("target", len as u64 * 32)?)?;
        f.run(op(kind, views, factor, target)?)?;
        let expected = expected(kind, [&a, &b, &c], factor);
        first_difference(&format!("{kind:?} of {len}"), &f.get_frs(target)?, &expected)?;
    }
    passed()
}
