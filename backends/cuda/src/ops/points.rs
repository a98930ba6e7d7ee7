//! Launches of `decode_points`.

use twinlock_api::op::{DecodePoints, PointCheck};
use twinlock_api::{Group, Result};
use twinlock_cuda_kernels::sizes::points::THREADS;

use crate::launcher::{Arg, Launcher};

pub(crate) fn decode(launcher: &mut Launcher<'_>, op: &DecodePoints) -> Result<()> {
    let kernel = match op.group() {
        Group::G1 => "points_decode_g1",
        Group::G2 => "points_decode_g2",
    };
    let args = [
        Arg::U64(op.len()),
        Arg::U32(u32::from(op.check() == PointCheck::OnCurve)),
        Arg::Pointer(launcher.pointer(op.source())?),
        Arg::Pointer(launcher.pointer(op.target())?),
        Arg::Pointer(launcher.pointer(op.status())?),
    ];
    let blocks = super::element::blocks(kernel, op.len())?;
    launcher.launch(kernel, [blocks, 1, 1], THREADS, 0, &args)
}
