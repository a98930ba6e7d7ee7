//! Launches of `fixed_base`.

use twinlock_api::op::FixedBase;
use twinlock_api::{Error, Group, Result};

use crate::launcher::{Arg, Launcher};

/// Threads of a block, one multiple each: `fixed_base::THREADS` of the kernels.
const THREADS: u32 = 128;

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &FixedBase) -> Result<()> {
    let blocks = op.len().div_ceil(THREADS.into());
    // A grid has 2^31 - 1 blocks at most.
    let blocks = i32::try_from(blocks).ok().and_then(|blocks| u32::try_from(blocks).ok());
    let blocks = blocks.ok_or_else(|| Error::ExceedsLimit {
        what: "multiples of a fixed base".to_owned(),
        requested: op.len(),
        limit: u64::from(THREADS) * i32::MAX as u64,
    })?;
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
