//! Launches of `fixed_base`.

use twinlock_api::op::FixedBase;
use twinlock_api::{Error, Group, Result};
use twinlock_cuda_kernels::sizes::normalize::THREADS;

use crate::launcher::{Arg, Launcher};

/// Blocks for so many points.
pub(super) fn blocks(what: &str, len: u64) -> Result<u32> {
    let blocks = len.div_ceil(THREADS.into());
    // A grid has 2^31 - 1 blocks at most.
    let blocks = i32::try_from(blocks).ok().and_then(|blocks| u32::try_from(blocks).ok());
    blocks.ok_or_else(|| Error::ExceedsLimit {
        what: what.to_owned(),
        requested: len,
        limit: u64::from(THREADS) * i32::MAX as u64,
    })
}

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &FixedBase) -> Result<()> {
    let blocks = blocks("multiples of a fixed base", op.len())?;
    let kernel = match op.group() {
        Group::G1 => "fixed_base_g1",
        Group::G2 => "fixed_base_g2",
    };
    let args = [
        Arg::U64(op.len()),
        Arg::U32(op.window_bits()),
        Arg::Pointer(launcher.pointer(op.table())?),
        Arg::Pointer(launcher.pointer(op.scalars())?),
        Arg::Pointer(launcher.pointer(op.target())?),
    ];
    launcher.launch(kernel, [blocks, 1, 1], THREADS, 0, &args)
}
