//! Dispatches of the `points` operations.

use twinlock_api::error::word;
use twinlock_api::op::{DecodePoints, PointCheck};
use twinlock_api::{Group, Result};
use twinlock_shaders::kernels::points;

use super::digits::grid;
use crate::launcher::Launcher;
use crate::steps::pieces;

pub(crate) fn decode(launcher: &mut Launcher<'_>, op: &DecodePoints) -> Result<()> {
    let kernel = match op.group() {
        Group::G1 => points::DECODE_G1,
        Group::G2 => points::DECODE_G2,
    };
    let on_curve = u32::from(op.check() == PointCheck::OnCurve);
    let status = launcher.view(op.status())?;
    let point_bytes = op.group().affine_bytes();
    for (first, len) in pieces(op.len(), launcher.steps().points) {
        let (start, size) = (first * point_bytes, len * point_bytes);
        let views = [
            launcher.view(op.source().slice(start, size)?)?,
            launcher.view(op.target().slice(start, size)?)?,
            status.clone(),
        ];
        let params = [len as u32, on_curve, word("points of decode_points", first)?];
        let groups = grid(launcher, len, points::THREADS)?;
        launcher.dispatch(&kernel, &views, &params, groups)?;
    }
    Ok(())
}
