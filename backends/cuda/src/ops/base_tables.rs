//! Launches of `base_tables`, one a table.

use twinlock_api::op::BaseTables;
use twinlock_api::{Group, Result};
use twinlock_cuda_kernels::sizes::normalize::THREADS;

use super::fixed_base::blocks;
use crate::launcher::{Arg, Launcher};

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &BaseTables) -> Result<()> {
    let blocks = blocks("bases of a table", op.len())?;
    let kernel = match op.group() {
        Group::G1 => "base_table_g1",
        Group::G2 => "base_table_g2",
    };
    for number in 1..op.tables() {
        let args = [
            Arg::U64(op.len()),
            Arg::U32(op.shift_bits()),
            Arg::Pointer(launcher.pointer(op.table(number - 1)?)?),
            Arg::Pointer(launcher.pointer(op.table(number)?)?),
        ];
        launcher.launch(kernel, [blocks, 1, 1], THREADS, 0, &args)?;
    }
    Ok(())
}
