//! The suite notices faults, and so does `Dual`: every mutant makes some trial fail.

mod support;

use std::sync::Arc;

use support::{Mutant, Rewrite};
use twinlock_api::op::{
    BaseOf, Convert, Copy, DecodePoints, Digits, Direction, Fill, Gather, MsmAccumulate, Ntt,
    Order, PointCheck, Vector, VectorKind,
};
use twinlock_api::{Device, FrView, Group, IndexView, Op, PointView, Result, View};
use twinlock_conformance::harness::{Report, check};
use twinlock_conformance::{Dual, Reference, Settings};

fn reference() -> Arc<dyn Device> {
    Arc::new(Reference::new(1 << 30))
}

fn mutant(rewrite: Rewrite) -> Arc<dyn Device> {
    Arc::new(Mutant { inner: reference(), rewrite, hidden_bytes: 0, ignore_offset: false })
}

/// Small sizes: a fault shows there, or the suite is no good.
fn settings() -> Settings {
    Settings { max_lg: 9, ..Settings::default() }
}

fn failures(device: &Arc<dyn Device>, filter: &str) -> Vec<Report> {
    let reports = check(device, filter, &settings());
    assert!(!reports.is_empty(), "no trial is named {filter}");
    reports.into_iter().filter(|report| report.failure.is_some()).collect()
}

/// The suite notices the fault, and a pair with the mutant as its subject says where it is.
fn is_noticed(fault: &str, filter: &str, rewrite: Rewrite) {
    assert!(!failures(&mutant(rewrite), filter).is_empty(), "{fault}: {filter} passes");
    let pair: Arc<dyn Device> = Arc::new(Dual::new(reference(), mutant(rewrite)));
    let failed = failures(&pair, filter);
    let differs = |report: &Report| {
        report.failure.as_ref().is_some_and(|text| {
            text.contains("kernel ")
                && (text.contains("differs at element") || text.contains("window sums"))
        })
    };
    assert!(failed.iter().any(differs), "{fault}: the pair says {failed:?}");
}

fn as_is(op: &Op) -> Result<Vec<Op>> {
    Ok(vec![op.clone()])
}

/// `op`, then one word of `view` overwritten.
fn then_spoil(op: &Op, view: View, at_bytes: u64) -> Result<Vec<Op>> {
    if view.len_bytes() < at_bytes + 4 {
        return as_is(op);
    }
    Ok(vec![op.clone(), Op::Fill(Fill::new(view.slice(at_bytes, 4)?, 0x1234_5678))])
}

fn shorter(view: View, bytes: u64) -> Result<View> {
    view.slice(0, view.len_bytes().saturating_sub(bytes))
}

#[test]
fn without_a_fault_nothing_fails() {
    let device = mutant(|_, op| as_is(op));
    for filter in ["buffers::", "handles::", "memory::", "streams::", "vector::", "convert::"] {
        assert_eq!(failures(&device, filter), []);
    }
}

#[test]
fn a_changed_word_of_a_vector() {
    is_noticed("changed word", "vector::add", |_, op| match op {
        Op::Vector(vector) => then_spoil(op, vector.target(), 96),
        _ => as_is(op),
    });
}

#[test]
fn a_vector_without_its_last_element() {
    is_noticed("last element skipped", "vector::sub", |_, op| match op {
        Op::Vector(vector) if vector.kind() == VectorKind::Sub => {
            let short = |view| FrView::new(shorter(view, 32)?);
            let (a, b) = (short(vector.a())?, short(vector.b())?);
            Ok(vec![Op::Vector(Vector::sub(a, b, short(vector.target())?)?)])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_gather_without_its_last_element() {
    is_noticed("last element skipped", "buffers::gather", |_, op| match op {
        Op::Gather(gather) if !gather.is_empty() => Ok(vec![Op::Gather(Gather::new(
            FrView::new(gather.source())?,
            IndexView::new(shorter(gather.indices(), 4)?)?,
            FrView::new(shorter(gather.target(), 32)?)?,
        )?)]),
        _ => as_is(op),
    });
}

#[test]
fn a_copy_without_its_last_word() {
    is_noticed("last word skipped", "buffers::copy", |_, op| match op {
        Op::Copy(copy) => {
            let (source, target) = (shorter(copy.source(), 4)?, shorter(copy.target(), 4)?);
            Ok(vec![Op::Copy(Copy::new(source, target)?)])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_write_past_a_view() {
    // Nobody reads the word, but the guards are looked at.
    let device = mutant(|_, op| match op {
        Op::Vector(vector) => {
            let target = vector.target();
            match target.region().view("past", target.end_bytes(), 4) {
                Ok(past) => Ok(vec![op.clone(), Op::Fill(Fill::zero(past))]),
                Err(_) => as_is(op),
            }
        }
        _ => as_is(op),
    });
    let failed = failures(&device, "vector::add");
    let guarded = |report: &Report| {
        report.failure.as_ref().is_some_and(|text| text.contains("lie in no view"))
    };
    assert!(failed.iter().any(guarded), "{failed:?}");
}

fn ntt_like(
    device: &dyn Device,
    ntt: &Ntt,
    direction: Direction,
    coset: bool,
    orders: (Order, Order),
) -> Result<Vec<Op>> {
    let layout = device.ntt_layout(ntt.lg_domain())?;
    let data = FrView::new(ntt.data())?;
    Ok(vec![Op::Ntt(Ntt::new(&layout, data, direction, coset, orders, ntt.workspace())?)])
}

#[test]
fn an_ntt_that_ignores_the_coset() {
    is_noticed("coset ignored", "ntt::by_definition", |device, op| match op {
        Op::Ntt(ntt) => ntt_like(device, ntt, ntt.direction(), false, (ntt.input(), ntt.output())),
        _ => as_is(op),
    });
}

#[test]
fn an_ntt_that_ignores_the_order() {
    is_noticed("order ignored", "ntt::by_definition", |device, op| match op {
        Op::Ntt(ntt) => {
            ntt_like(device, ntt, ntt.direction(), ntt.coset(), (ntt.input(), Order::Natural))
        }
        _ => as_is(op),
    });
}

#[test]
fn an_ntt_that_ignores_the_direction() {
    is_noticed("direction ignored", "ntt::by_definition", |device, op| match op {
        Op::Ntt(ntt) => {
            let orders = (ntt.input(), ntt.output());
            ntt_like(device, ntt, Direction::Forward, ntt.coset(), orders)
        }
        _ => as_is(op),
    });
}

#[test]
fn a_conversion_that_says_nothing_of_values_past_r() {
    is_noticed("status ignored", "convert::first_value_not_below_r", |_, op| match op {
        Op::ToMontgomery(convert) => {
            Ok(vec![op.clone(), Op::Fill(Fill::new(convert.status(), u32::MAX))])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_conversion_the_wrong_way() {
    is_noticed("to and from confused", "convert::to_montgomery", |_, op| match op {
        Op::ToMontgomery(convert) => {
            let (source, target) = (FrView::new(convert.source())?, FrView::new(convert.target())?);
            let status = IndexView::new(convert.status())?;
            Ok(vec![Op::FromMontgomery(Convert::new(source, target, status)?)])
        }
        _ => as_is(op),
    });
}

#[test]
fn points_not_checked_to_be_on_the_curve() {
    is_noticed("curve not checked", "decode_points_g2::off_the_curve", |_, op| match op {
        Op::DecodePoints(decode) => {
            let points = |view| PointView::new(view, decode.group());
            let (source, target) = (points(decode.source())?, points(decode.target())?);
            let status = IndexView::new(decode.status())?;
            let encoding = PointCheck::Encoding;
            Ok(vec![Op::DecodePoints(DecodePoints::new(source, target, encoding, status)?)])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_changed_word_of_a_point() {
    is_noticed("changed word", "decode_points_g1::good", |_, op| match op {
        Op::DecodePoints(decode) => then_spoil(op, decode.target(), 96),
        _ => as_is(op),
    });
}

#[test]
fn scalars_without_their_last() {
    // A shorter plan would be refused for its length, so the last scalar becomes zero.
    is_noticed("last scalar lost", "msm_g1::lengths", |_, op| match op {
        Op::Digits(digits) if digits.scalars().len_bytes() > 32 => {
            let scalars = digits.scalars();
            let last = scalars.slice(scalars.len_bytes() - 32, 32)?;
            Ok(vec![Op::Fill(Fill::zero(last)), op.clone()])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_map_without_its_first_index() {
    is_noticed("first ignored", "msm_g1::indexed", |device, op| match op {
        Op::MsmAccumulate(msm) => {
            let BaseOf::Indexed { indices, .. } = msm.base_of() else { return as_is(op) };
            Ok(vec![Op::MsmAccumulate(MsmAccumulate::new(
                &device.msm_layout(msm.group(), msm.shape())?,
                (msm.plan(), msm.len()),
                PointView::new(msm.bases(), msm.group())?,
                BaseOf::indexed(IndexView::new(indices)?, 0),
                msm.accumulator(),
                msm.workspace(),
            )?)])
        }
        _ => as_is(op),
    });
}

#[test]
fn an_accumulator_that_forgets() {
    is_noticed("chunks overwrite", "msm_g2::chunks", |_, op| match op {
        Op::MsmAccumulate(msm) => Ok(vec![Op::Fill(Fill::zero(msm.accumulator())), op.clone()]),
        _ => as_is(op),
    });
}

#[test]
fn a_top_window_that_is_lost() {
    is_noticed("top window lost", "msm_g1::naive", |_, op| match op {
        Op::MsmReduce(msm) => {
            let point = Group::G1.jacobian_bytes();
            let top = msm.windows().slice(msm.windows().len_bytes() - point, point)?;
            Ok(vec![op.clone(), Op::Fill(Fill::zero(top))])
        }
        _ => as_is(op),
    });
}

#[test]
fn a_plan_made_of_fewer() {
    let device = mutant(|device, op| match op {
        Op::Digits(digits) if digits.scalars().len_bytes() > 32 => {
            Ok(vec![Op::Digits(Digits::new(
                &device.digits_layout(digits.shape())?,
                FrView::new(shorter(digits.scalars(), 32)?)?,
                digits.plan(),
                digits.workspace(),
            )?)])
        }
        _ => as_is(op),
    });
    assert!(!failures(&device, "msm_g1::lengths").is_empty());
}

#[test]
fn memory_that_is_not_accounted_for() {
    let device: Arc<dyn Device> = Arc::new(Mutant {
        inner: reference(),
        rewrite: |_, op| as_is(op),
        hidden_bytes: 4096,
        ignore_offset: false,
    });
    assert!(!failures(&device, "memory::no_hidden_memory").is_empty());
}

#[test]
fn an_upload_that_ignores_its_offset() {
    let device: Arc<dyn Device> = Arc::new(Mutant {
        inner: reference(),
        rewrite: |_, op| as_is(op),
        hidden_bytes: 0,
        ignore_offset: true,
    });
    assert!(!failures(&device, "buffers::copies_at_offsets").is_empty());
}
