//! Exact accounting, and requests that cannot be met.

use twinlock_api::op::{
    BaseOf, Convert, Copy, DecodePoints, DigitsShape, Direction, Fill, Gather, Ntt, Order,
    PointCheck, Vector,
};
use twinlock_api::{Error, FrView, MemoryClass, Op, PointView, Result, StagingKind};

use super::{random_bytes, random_values};
use crate::harness::{Fixture, MsmBuffers, Plan, Trial, Verdict, ensure, first_difference, passed};
use crate::oracle::{CurveOracle, G1, G2, known_bases};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "memory::info", run: info },
        Trial { name: "memory::accounting", run: accounting },
        Trial { name: "memory::no_hidden_memory", run: no_hidden_memory },
        Trial { name: "memory::too_large", run: too_large },
    ]
}

fn info(f: &mut Fixture) -> Verdict {
    let info = f.device().info().clone();
    let memory = f.device().memory()?;
    ensure(!info.name.is_empty() && !info.backend.is_empty() && !info.model.is_empty(), || {
        format!("an empty name: {info:?}")
    })?;
    ensure(info.max_lg_domain >= 1 && info.max_lg_domain <= 32, || format!("{info:?}"))?;
    ensure(info.max_region_bytes > 0 && info.max_region_bytes <= info.memory_bytes, || {
        format!("{info:?}")
    })?;
    ensure(memory.free_bytes <= memory.total_bytes, || format!("{memory:?}"))?;
    passed()
}

fn accounting(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let reported = || device.memory().map(|memory| memory.regions_bytes);
    let before = reported()?;
    let mut regions = Vec::new();
    let mut expected = before;
    let sizes = [4, 256, 1000, 4096, 65_536 + 4, (1 << 20) + 252];
    for (index, size_bytes) in sizes.into_iter().enumerate() {
        let class = [MemoryClass::Work, MemoryClass::Resident][index % 2];
        let region = device.allocate("accounting", class, size_bytes)?;
        ensure(region.size_bytes() == size_bytes && region.class() == class, || {
            format!("asked for {size_bytes} bytes of {class:?}, got {region:?}")
        })?;
        expected += size_bytes;
        let found = reported()?;
        ensure(found == expected, || format!("{found} bytes reported, {expected} allocated"))?;
        regions.push(region);
    }
    // Staging is host memory.
    let staging = device.allocate_staging("accounting", StagingKind::Upload, 1 << 20)?;
    let found = reported()?;
    ensure(found == expected, || format!("{found} bytes reported with staging, not {expected}"))?;
    drop(staging);
    for region in regions.into_iter().rev() {
        device.free(region)?;
        expected -= region.size_bytes();
        let found = reported()?;
        ensure(found == expected, || format!("{found} bytes reported after free, not {expected}"))?;
    }
    // Nothing is asked for: an answer of either kind, and no trace of it.
    match device.allocate("nothing", MemoryClass::Work, 0) {
        Ok(region) => device.free(region)?,
        Err(Error::InvalidArgument(_)) => {}
        Err(other) => return Err(format!("a region of 0 bytes: {other}").into()),
    }
    let found = reported()?;
    ensure(found == before, || format!("{found} bytes reported at the end, not {before}"))?;
    passed()
}

/// Every kind of operation once, with the memory accounting looked at after each.
fn no_hidden_memory(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let values = random_values(256, &mut f.rng);
    let a = f.put_frs("a", &values)?;
    let b = f.put_frs("b", &values)?;
    let indices = f.put_indices("indices", &[3; 256])?;
    let status = f.status()?;
    let layout = device.ntt_layout(8)?;
    let workspace = f.work("ntt workspace", layout.workspace_bytes)?;
    let orders = (Order::Natural, Order::BitReversed);
    let mut ops = vec![
        Op::Fill(Fill::zero(b.view())),
        Op::Copy(Copy::new(a.view(), b.view())?),
        Op::Gather(Gather::new(a, indices, b)?),
        Op::Vector(Vector::mul(a, a, b)?),
        Op::Ntt(Ntt::new(&layout, a, Direction::Forward, true, orders, workspace)?),
        Op::FromMontgomery(Convert::new(a, b, status)?),
        Op::ToMontgomery(Convert::new(b, b, status)?),
    ];
    decode_op::<G1>(f, &mut ops)?;
    decode_op::<G2>(f, &mut ops)?;
    let check = |f: &Fixture, what: &str| {
        f.sync()?;
        let (held, found) = (f.regions_bytes(), device.memory()?.regions_bytes);
        ensure(found == held, || format!("{found} bytes reported after {what}, {held} allocated"))
    };
    for op in ops {
        let name = op.name();
        f.run(op)?;
        check(f, name)?;
    }
    let shape = DigitsShape::new(256, device.window_bits(G1::GROUP, 256));
    let mut plan = Plan::new(f, shape)?;
    let bases = known_bases::<G1>(256, &mut f.rng);
    let bases = f.put_points::<G1>("bases", &bases.points)?;
    let buffers = MsmBuffers::new::<G1>(f, shape)?;
    plan.make(&*device, f.stream(), a)?;
    check(f, "digits")?;
    buffers.clear(&*device, f.stream())?;
    buffers.accumulate(&*device, f.stream(), &plan, bases, BaseOf::same())?;
    check(f, "msm_accumulate")?;
    buffers.reduce(&*device, f.stream())?;
    check(f, "msm_reduce")?;
    passed()
}

fn decode_op<C: CurveOracle>(f: &mut Fixture, ops: &mut Vec<Op>) -> Result<()> {
    let points = known_bases::<C>(4, &mut f.rng).points;
    let bytes: Vec<u8> = points.iter().flat_map(C::uncompressed).collect();
    let view = f.work("points", bytes.len() as u64)?;
    f.put(view, &bytes)?;
    let points = PointView::new(view, C::GROUP)?;
    let status = f.status()?;
    ops.push(Op::DecodePoints(DecodePoints::new(points, points, PointCheck::OnCurve, status)?));
    Ok(())
}

fn too_large(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let info = device.info().clone();
    let before = device.memory()?.regions_bytes;
    let past_region = info.max_region_bytes.saturating_add(4);
    for size_bytes in [past_region, info.memory_bytes.saturating_mul(4), u64::MAX - 3] {
        for class in [MemoryClass::Work, MemoryClass::Resident] {
            let outcome = device.allocate("too large", class, size_bytes);
            let refused =
                matches!(outcome, Err(Error::OutOfMemory { .. } | Error::ExceedsLimit { .. }));
            ensure(refused, || format!("a region of {size_bytes} bytes: {outcome:?}"))?;
        }
        let outcome = device.allocate("never", MemoryClass::Work, u64::MAX);
        ensure(
            matches!(outcome, Err(Error::ExceedsLimit { .. } | Error::OutOfMemory { .. })),
            || format!("a region of 2^64 - 1 bytes: {outcome:?}"),
        )?;
    }
    for kind in [StagingKind::Upload, StagingKind::Download] {
        let outcome = device.allocate_staging("too large", kind, u64::MAX - 3).map(drop);
        ensure(
            matches!(outcome, Err(Error::OutOfMemory { .. } | Error::ExceedsLimit { .. })),
            || format!("staging of 2^64 - 4 bytes: {outcome:?}"),
        )?;
    }
    let after = device.memory()?.regions_bytes;
    ensure(before == after, || format!("refused regions count: {before}, then {after} bytes"))?;
    let bytes = random_bytes(4096, &mut f.rng);
    let view = f.work("view", 4096)?;
    f.put(view, &bytes)?;
    first_difference("after refused allocations", &f.get(view)?, &bytes)?;
    let fr = FrView::new(f.work("zeros", 4096)?)?;
    f.run(Op::Fill(Fill::zero(fr.view())))?;
    f.run(Op::Vector(Vector::add(fr, fr, fr)?))?;
    first_difference("zeros", &f.get(fr.view())?, &[0; 4096])?;
    passed()
}
