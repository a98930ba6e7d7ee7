//! Transforms in every direction, domain and order.

use blstrs::Scalar;
use ff::Field;
use libtest_mimic::{Completion, Failed};
use rand::Rng;
use twinlock_api::op::{Direction, Ntt, Order};
use twinlock_api::{Error, FrView, Op, Result};

use super::{edge_values, random_values};
use crate::harness::{Fixture, Trial, Verdict, ensure, first_difference, passed};
use crate::oracle::{Transform, bit_reverse, ntt_naive, ntt_recursive, output_at};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "ntt::by_definition", run: by_definition },
        Trial { name: "ntt::every_order", run: every_order },
        Trial { name: "ntt::special_vectors", run: special_vectors },
        Trial { name: "ntt::round_trips", run: round_trips },
        Trial { name: "ntt::in_a_slice", run: in_a_slice },
        Trial { name: "ntt::workspace_content", run: workspace_content },
        Trial { name: "ntt::product", run: product },
        Trial { name: "ntt::large", run: large },
        Trial { name: "ntt::past_the_limit", run: past_the_limit },
    ]
}

/// Enqueues the transform of `data`.
fn enqueue(f: &mut Fixture, data: FrView, transform: Transform) -> Result<()> {
    let layout = f.device().ntt_layout(data.len().max(1).ilog2())?;
    let workspace = f.work("ntt workspace", layout.workspace_bytes)?;
    let orders = (transform.input, transform.output);
    let (direction, coset) = (transform.direction, transform.coset);
    f.run(Op::Ntt(Ntt::new(&layout, data, direction, coset, orders, workspace)?))
}

fn transformed(
    f: &mut Fixture,
    values: &[Scalar],
    transform: Transform,
) -> Result<Vec<Scalar>, Failed> {
    let data = f.put_frs("data", values)?;
    enqueue(f, data, transform)?;
    f.get_frs(data)
}

fn by_definition(f: &mut Fixture) -> Verdict {
    for lg in 0..=8u32.min(f.device().info().max_lg_domain) {
        let values = edge_values(1 << lg, &mut f.rng);
        for transform in Transform::all() {
            let found = transformed(f, &values, transform)?;
            let what = format!("lg {lg}, {transform:?}");
            first_difference(&what, &found, &ntt_naive(&values, transform))?;
        }
    }
    passed()
}

fn every_order(f: &mut Fixture) -> Verdict {
    for lg in 9..=12u32.min(f.device().info().max_lg_domain) {
        let values = random_values(1 << lg, &mut f.rng);
        for transform in Transform::all() {
            let found = transformed(f, &values, transform)?;
            let what = format!("lg {lg}, {transform:?}");
            first_difference(&what, &found, &ntt_recursive(&values, transform))?;
        }
    }
    passed()
}

/// A delta at each place of interest, a constant, and r - 1 everywhere.
fn special_vectors(f: &mut Fixture) -> Verdict {
    for lg in [5u32, 10, 11] {
        let lg = lg.min(f.device().info().max_lg_domain);
        let n = 1usize << lg;
        let mut vectors = vec![vec![Scalar::ZERO; n], vec![Scalar::ONE; n], vec![-Scalar::ONE; n]];
        for place in [0, 1, n / 2 - 1, n / 2, n - 1] {
            let mut delta = vec![Scalar::ZERO; n];
            delta[place] = -Scalar::ONE;
            vectors.push(delta);
        }
        for (index, values) in vectors.iter().enumerate() {
            for transform in Transform::all().into_iter().filter(|t| t.input == Order::Natural) {
                let found = transformed(f, values, transform)?;
                let what = format!("lg {lg}, special vector {index}, {transform:?}");
                first_difference(&what, &found, &ntt_recursive(values, transform))?;
            }
        }
    }
    passed()
}

fn round_trips(f: &mut Fixture) -> Verdict {
    let orders = [Order::Natural, Order::BitReversed];
    for lg in 0..=f.max_lg.min(13).min(f.device().info().max_lg_domain) {
        let values = random_values(1 << lg, &mut f.rng);
        let data = f.put_frs("data", &values)?;
        for coset in [false, true] {
            for (outer, inner) in orders.into_iter().flat_map(|a| orders.map(|b| (a, b))) {
                let forward =
                    Transform { direction: Direction::Forward, coset, input: outer, output: inner };
                let inverse =
                    Transform { direction: Direction::Inverse, coset, input: inner, output: outer };
                enqueue(f, data, forward)?;
                enqueue(f, data, inverse)?;
                let what = format!("lg {lg}, {forward:?} and back");
                first_difference(&what, &f.get_frs(data)?, &values)?;
            }
        }
    }
    passed()
}

/// In the middle of a longer vector, at an odd element: the neighbours stay.
fn in_a_slice(f: &mut Fixture) -> Verdict {
    let values = random_values(3000, &mut f.rng);
    for lg in [0u32, 1, 6, 10, 11] {
        let data = f.put_frs("data", &values)?;
        let transform = Transform {
            direction: Direction::Forward,
            coset: true,
            input: Order::Natural,
            output: Order::Natural,
        };
        enqueue(f, data.slice(77, 1 << lg)?, transform)?;
        let mut expected = values.clone();
        let slice = 77..77 + (1 << lg);
        expected[slice.clone()].copy_from_slice(&ntt_recursive(&values[slice], transform));
        first_difference(&format!("lg {lg} in a slice"), &f.get_frs(data)?, &expected)?;
    }
    passed()
}

/// What the workspace holds makes no difference, nor does more of it than needed.
fn workspace_content(f: &mut Fixture) -> Verdict {
    let lg = 10;
    let values = random_values(1 << lg, &mut f.rng);
    let layout = f.device().ntt_layout(lg)?;
    let workspace = f.work("workspace", layout.workspace_bytes + 512)?;
    for word in [0, u32::MAX, 0x7fff_ffff] {
        for transform in Transform::all() {
            let data = f.put_frs("data", &values)?;
            f.run(Op::Fill(twinlock_api::op::Fill::new(workspace, word)))?;
            let orders = (transform.input, transform.output);
            f.run(Op::Ntt(Ntt::new(
                &layout,
                data,
                transform.direction,
                transform.coset,
                orders,
                workspace,
            )?))?;
            let what = format!("with a workspace of {word:#x}, {transform:?}");
            first_difference(&what, &f.get_frs(data)?, &ntt_recursive(&values, transform))?;
        }
    }
    passed()
}

/// A quotient's way: products of polynomials over the coset.
fn product(f: &mut Fixture) -> Verdict {
    let n = 64;
    let (a, b) = (random_values(n / 2, &mut f.rng), random_values(n / 2, &mut f.rng));
    let mut expected = vec![Scalar::ZERO; n];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            expected[i + j] += a * b;
        }
    }
    let padded = |values: &[Scalar]| [values, &vec![Scalar::ZERO; n / 2]].concat();
    let a = f.put_frs("a", &padded(&a))?;
    let b = f.put_frs("b", &padded(&b))?;
    let transform = |direction, input, output| Transform { direction, coset: true, input, output };
    let (natural, reversed) = (Order::Natural, Order::BitReversed);
    enqueue(f, a, transform(Direction::Forward, natural, reversed))?;
    enqueue(f, b, transform(Direction::Forward, natural, reversed))?;
    f.run(Op::Vector(twinlock_api::op::Vector::mul(a, b, a)?))?;
    enqueue(f, a, transform(Direction::Inverse, reversed, natural))?;
    first_difference("a product", &f.get_frs(a)?, &expected)?;
    passed()
}

/// Sizes past what can be computed twice: random outputs by Horner's rule, then the way back.
fn large(f: &mut Fixture) -> Verdict {
    let last = f.max_lg.min(26).min(f.device().info().max_lg_domain);
    if last < 13 {
        return Ok(Completion::ignored_with(format!("the largest size asked for is 2^{last}")));
    }
    for lg in 13..=last {
        let layout = f.device().ntt_layout(lg)?;
        let needed = (32u64 << lg) + layout.workspace_bytes;
        let free = f.device().memory()?.free_bytes;
        if needed > free {
            let reason = format!("2^{lg} needs {needed} bytes, {free} are free");
            return Ok(Completion::ignored_with(reason));
        }
        let n = 1usize << lg;
        let values = random_values(n, &mut f.rng);
        let data = FrView::new(f.work("data", 32 << lg)?)?;
        let workspace = f.work("ntt workspace", layout.workspace_bytes)?;
        let bytes = crate::oracle::frs_to_bytes(&values);
        for transform in Transform::all().into_iter().filter(|t| t.input == Order::Natural) {
            f.put(data.view(), &bytes)?;
            let run = |f: &Fixture, direction, (input, output)| {
                let orders = (input, output);
                f.run(Op::Ntt(Ntt::new(
                    &layout,
                    data,
                    direction,
                    transform.coset,
                    orders,
                    workspace,
                )?))
            };
            run(f, transform.direction, (Order::Natural, transform.output))?;
            for k in [0, 1, n - 1, f.rng.gen_range(0..n)] {
                let place = match transform.output {
                    Order::Natural => k,
                    Order::BitReversed => bit_reverse(k, lg),
                };
                let found = f.get_frs(data.slice(place as u64, 1)?)?;
                let expected = output_at(&values, transform.direction, transform.coset, k);
                let what = format!("lg {lg}, output {k}, {transform:?}");
                first_difference(&what, &found, &[expected])?;
            }
            let back = match transform.direction {
                Direction::Forward => Direction::Inverse,
                Direction::Inverse => Direction::Forward,
            };
            run(f, back, (transform.output, Order::Natural))?;
            let what = format!("lg {lg}, {transform:?} and back");
            first_difference(&what, &f.get(data.view())?, &bytes)?;
        }
    }
    passed()
}

fn past_the_limit(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let limit = device.info().max_lg_domain;
    device.ntt_layout(limit).map_err(|error| format!("lg {limit}, the limit itself: {error}"))?;
    for lg in [limit + 1, 33, 63, 64, u32::MAX] {
        let outcome = device.ntt_layout(lg);
        ensure(matches!(outcome, Err(Error::ExceedsLimit { .. })), || {
            format!("lg {lg} with a limit of {limit}: {outcome:?}")
        })?;
    }
    passed()
}
