//! Launches of the `element` operations: one each.

use twinlock_api::layout::{FR_BYTES, INDEX_BYTES};
use twinlock_api::op::{Convert, Gather, Vector, VectorKind};
use twinlock_api::{Error, Result};
use twinlock_cuda_kernels::sizes::elements::THREADS;

use crate::launcher::{Arg, Launcher};

/// Blocks for `len` elements, one a thread.
///
/// # Errors
/// `ExceedsLimit` for more than indices and status words can count.
pub(super) fn blocks(what: &str, len: u64) -> Result<u32> {
    let limit = u64::from(u32::MAX);
    if len > limit {
        let what = format!("elements of {what}");
        return Err(Error::ExceedsLimit { what, requested: len, limit });
    }
    Ok((len as u32).div_ceil(THREADS))
}

/// Runs `kernel` on `len` elements; `own` are its arguments behind the length.
fn run(launcher: &mut Launcher<'_>, kernel: &'static str, len: u64, own: &[Arg]) -> Result<()> {
    let blocks = blocks(kernel, len)?;
    launcher.launch(kernel, [blocks, 1, 1], THREADS, 0, &[&[Arg::U64(len)], own].concat())
}

pub(crate) fn gather(launcher: &mut Launcher<'_>, op: &Gather) -> Result<()> {
    let len = op.indices().len_bytes() / INDEX_BYTES;
    let own = [
        Arg::U64(op.source().len_bytes() / FR_BYTES),
        Arg::Pointer(launcher.pointer(op.source())?),
        Arg::Pointer(launcher.pointer(op.indices())?),
        Arg::Pointer(launcher.pointer(op.target())?),
    ];
    run(launcher, "element_gather", len, &own)
}

pub(crate) fn vector(launcher: &mut Launcher<'_>, op: &Vector) -> Result<()> {
    let len = op.target().len_bytes() / FR_BYTES;
    let a = Arg::Pointer(launcher.pointer(op.a())?);
    let b = Arg::Pointer(launcher.pointer(op.b())?);
    let c = Arg::Pointer(launcher.pointer(op.c())?);
    let target = Arg::Pointer(launcher.pointer(op.target())?);
    let factor = Arg::Fr(op.factor());
    match op.kind() {
        VectorKind::Add => run(launcher, "element_add", len, &[a, b, target]),
        VectorKind::Sub => run(launcher, "element_sub", len, &[a, b, target]),
        VectorKind::Mul => run(launcher, "element_mul", len, &[a, b, target]),
        VectorKind::Scale => run(launcher, "element_scale", len, &[a, factor, target]),
        VectorKind::MulSubScale => {
            run(launcher, "element_mul_sub_scale", len, &[a, b, c, factor, target])
        }
    }
}

pub(crate) fn to_montgomery(launcher: &mut Launcher<'_>, op: &Convert) -> Result<()> {
    let len = op.source().len_bytes() / FR_BYTES;
    let own = [
        Arg::Pointer(launcher.pointer(op.source())?),
        Arg::Pointer(launcher.pointer(op.target())?),
        Arg::Pointer(launcher.pointer(op.status())?),
    ];
    run(launcher, "element_to_montgomery", len, &own)
}

pub(crate) fn from_montgomery(launcher: &mut Launcher<'_>, op: &Convert) -> Result<()> {
    let len = op.source().len_bytes() / FR_BYTES;
    let own = [
        Arg::Pointer(launcher.pointer(op.source())?),
        Arg::Pointer(launcher.pointer(op.target())?),
    ];
    run(launcher, "element_from_montgomery", len, &own)
}
