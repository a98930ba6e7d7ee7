//! Dispatches of the `element` operations: one each.

use twinlock_api::layout::{FR_BYTES, INDEX_BYTES};
use twinlock_api::op::{Convert, Gather, Vector, VectorKind};
use twinlock_api::{Error, Result, View};
use twinlock_shaders::Kernel;
use twinlock_shaders::kernels::element;

use crate::launcher::Launcher;

/// Runs `kernel` on `len` elements; `own` are its parameters behind the length.
fn run(
    launcher: &mut Launcher<'_>,
    kernel: &Kernel,
    views: &[View],
    len: u64,
    own: &[u32],
) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let grid = element::groups(len).zip(u32::try_from(len).ok());
    let ([x, y], words) = grid.ok_or_else(|| Error::ExceedsLimit {
        what: format!("elements of {} in one operation", kernel.name),
        requested: len,
        limit: 1 << 31,
    })?;
    let views = views.iter().map(|view| launcher.view(*view)).collect::<Result<Vec<_>>>()?;
    launcher.dispatch(kernel, &views, &[&[words], own].concat(), [x, y, 1])
}

pub(crate) fn gather(launcher: &mut Launcher<'_>, op: &Gather) -> Result<()> {
    // An index has 32 bits: what lies past 2^32 - 1 elements cannot be named.
    let source_len = u32::try_from(op.source().len_bytes() / FR_BYTES).unwrap_or(u32::MAX);
    let len = op.indices().len_bytes() / INDEX_BYTES;
    let views = [op.source(), op.indices(), op.target()];
    run(launcher, &element::GATHER, &views, len, &[source_len])
}

pub(crate) fn vector(launcher: &mut Launcher<'_>, op: &Vector) -> Result<()> {
    let (a, b, c, target) = (op.a(), op.b(), op.c(), op.target());
    let factor = op.factor();
    let len = target.len_bytes() / FR_BYTES;
    match op.kind() {
        VectorKind::Add => run(launcher, &element::ADD, &[a, b, target], len, &[]),
        VectorKind::Sub => run(launcher, &element::SUB, &[a, b, target], len, &[]),
        VectorKind::Mul => run(launcher, &element::MUL, &[a, b, target], len, &[]),
        VectorKind::Scale => run(launcher, &element::SCALE, &[a, target], len, &factor),
        VectorKind::MulSubScale => {
            run(launcher, &element::MUL_SUB_SCALE, &[a, b, c, target], len, &factor)
        }
    }
}

pub(crate) fn to_montgomery(launcher: &mut Launcher<'_>, op: &Convert) -> Result<()> {
    let len = op.source().len_bytes() / FR_BYTES;
    let views = [op.source(), op.target(), op.status()];
    run(launcher, &element::TO_MONTGOMERY, &views, len, &[])
}

pub(crate) fn from_montgomery(launcher: &mut Launcher<'_>, op: &Convert) -> Result<()> {
    let len = op.source().len_bytes() / FR_BYTES;
    run(launcher, &element::FROM_MONTGOMERY, &[op.source(), op.target()], len, &[])
}
