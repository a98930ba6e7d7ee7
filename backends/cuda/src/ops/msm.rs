//! Launches of `msm_accumulate` and `msm_reduce`.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::SCALAR_BITS;
use twinlock_api::op::{BaseOf, DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
use twinlock_api::{Group, Result, View};
use twinlock_cuda_kernels::msm::{self, Heads, Lines, scratch_points, threads_of_wave};
use twinlock_cuda_kernels::sizes::msm::{
    G1_BLOCKS_PER_SM, G1_THREADS, G1_WEIGH_THREADS, G2_BLOCKS_PER_SM, G2_THREADS, G2_WEIGH_THREADS,
    MAX_WINDOWS,
};

use super::digits::{WINDOW_BITS, blocks, buckets_bytes, entries, offsets, shape};
use crate::card::Card;
use crate::launcher::{Arg, Launcher};

/// The kernels of a group, and what they were compiled for.
struct Kernels {
    accumulate: &'static str,
    /// The same where bases have several tables.
    accumulate_tables: &'static str,
    fold: &'static str,
    sum: &'static str,
    weigh: &'static str,
    finish: &'static str,
    /// Threads of a block of `accumulate`, `fold` and `sum`.
    threads: u32,
    /// Blocks of them that one multiprocessor keeps at least, by the kernels' launch bounds.
    blocks_per_sm: u32,
    /// Threads of a block of `weigh`.
    weigh_threads: u32,
}

const fn kernels(group: Group) -> Kernels {
    match group {
        Group::G1 => Kernels {
            accumulate: "msm_accumulate_g1",
            accumulate_tables: "msm_accumulate_tables_g1",
            fold: "msm_fold_g1",
            sum: "msm_sum_g1",
            weigh: "msm_weigh_g1",
            finish: "msm_finish_g1",
            threads: G1_THREADS,
            blocks_per_sm: G1_BLOCKS_PER_SM,
            weigh_threads: G1_WEIGH_THREADS,
        },
        Group::G2 => Kernels {
            accumulate: "msm_accumulate_g2",
            accumulate_tables: "msm_accumulate_tables_g2",
            fold: "msm_fold_g2",
            sum: "msm_sum_g2",
            weigh: "msm_weigh_g2",
            finish: "msm_finish_g2",
            threads: G2_THREADS,
            blocks_per_sm: G2_BLOCKS_PER_SM,
            weigh_threads: G2_WEIGH_THREADS,
        },
    }
}

/// Bytes of a point as kernels keep it: X, Y, ZZ, ZZZ.
const fn xyzz_bytes(group: Group) -> u64 {
    group.affine_bytes() * 2
}

/// Threads that the device keeps at once.
const fn resident(card: &Card, group: Group) -> u64 {
    let kernels = kernels(group);
    msm::resident(card.sm_count, kernels.blocks_per_sm, kernels.threads)
}

fn args(lines: &Lines) -> [Arg; 2] {
    [Arg::U32(lines.rows), Arg::U32(lines.columns)]
}

fn parts(lines: &Lines) -> [Arg; 2] {
    [Arg::U32(lines.row_parts), Arg::U32(lines.column_parts)]
}

/// The width that takes the least products of the field: an addition of a base takes nine (squares
/// and sums of two products counted by what they take), one of a sum thirteen. There is one of the
/// former for each scalar and window, two of the latter for each bucket.
pub(crate) fn window_bits(card: &Card, group: Group, len: u64) -> u32 {
    let work = |window_bits: u32| {
        let num_windows = u64::from(SCALAR_BITS.div_ceil(window_bits));
        num_windows.saturating_mul(len.saturating_mul(9).saturating_add(26 << (window_bits - 1)))
    };
    // Buckets take a small part of the memory that capped devices have.
    let fits = |window_bits: &u32| {
        let shape = shape(DigitsShape::new(1, *window_bits));
        shape.is_ok_and(|shape| buckets_bytes(&shape, group) <= card.memory_bytes / 32)
    };
    (4..=*WINDOW_BITS.end()).filter(fits).min_by_key(|bits| work(*bits)).unwrap_or(4)
}

pub(crate) fn layout(card: &Card, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
    let sizes = self::shape(shape)?;
    let resident = resident(card, group);
    let heads = Heads::new(threads_of_wave(resident), &sizes, sizes.max_entries);
    let accumulator_bytes = buckets_bytes(&sizes, group);
    check_limit("buckets of an MSM (bytes)", accumulator_bytes, card.memory_bytes)?;
    let levels = Lines::levels(resident, &sizes);
    Ok(MsmLayout {
        shape,
        group,
        accumulator_bytes,
        accumulate_workspace_bytes: heads.workspace_parts(&sizes, xyzz_bytes(group)).iter().sum(),
        reduce_workspace_bytes: u64::from(sizes.num_windows)
            * scratch_points(&levels)
            * xyzz_bytes(group),
        num_windows: sizes.num_windows,
    })
}

pub(crate) fn accumulate(launcher: &mut Launcher<'_>, op: &MsmAccumulate) -> Result<()> {
    let (shape, group) = (shape(op.shape())?, op.group());
    let kernels = kernels(group);
    let table_len = op.num_bases();
    // A base's number counts through all tables.
    check_limit(
        "bases of all tables",
        table_len.saturating_mul(shape.tables.into()),
        u64::from(u32::MAX) - 1,
    )?;
    let (base_first, indices) = match op.base_of() {
        BaseOf::Offset { leading } if leading >= op.len() => return Ok(()),
        BaseOf::Offset { leading } => (word("scalars without a base", leading)?, None),
        BaseOf::Indexed { indices, first } => (first, Some(indices)),
    };
    // So that no index below `base_first` wraps to one of a base.
    let num_bases = table_len.min(u64::from(u32::MAX - base_first)) as u32;
    if op.is_empty() || num_bases == 0 {
        return Ok(());
    }
    let len = op.len().saturating_mul(shape.tables.into());
    let threads = threads_of_wave(resident(launcher.info(), group));
    let heads = Heads::new(threads, &shape, len);
    let [runs_bytes, keys_bytes, heads_bytes] = heads.workspace_parts(&shape, xyzz_bytes(group));
    let pointer = |view: View| launcher.pointer(view).map(Arg::Pointer);
    let runs = pointer(op.workspace().slice(0, runs_bytes)?)?;
    let keys = pointer(op.workspace().slice(runs_bytes, keys_bytes)?)?;
    let head_points = pointer(op.workspace().slice(runs_bytes + keys_bytes, heads_bytes)?)?;
    let accumulator = pointer(op.accumulator())?;
    let bases = pointer(op.bases())?;
    let plan = [
        pointer(offsets(&shape, op.plan())?)?,
        pointer(entries(&shape, op.plan())?)?,
        Arg::U32(shape.num_windows),
        Arg::U32(shape.num_buckets),
        Arg::U32(word("entries of a window", len)?),
        Arg::U64(shape.stride),
    ];
    let indices = indices.map_or(Ok(Arg::Pointer(0)), pointer)?;
    let args = [&plan[..], &[runs, Arg::U32(word("threads", threads)?)]].concat();
    launcher.launch("msm_runs", [1, 1, 1], MAX_WINDOWS, 0, &args)?;
    let max_runs = word("runs of msm_accumulate", heads.max_runs())?;
    let own = [
        runs,
        bases,
        indices,
        Arg::U32(base_first),
        Arg::U32(num_bases),
        Arg::U32(shape.tables),
        Arg::U32(word("bases of a table", table_len)?),
        accumulator,
        head_points,
        keys,
        Arg::U32(max_runs),
    ];
    let args = [&plan[..], &own].concat();
    let kernel = if shape.tables == 1 { kernels.accumulate } else { kernels.accumulate_tables };
    launcher.launch(
        kernel,
        [max_runs.div_ceil(kernels.threads), 1, 1],
        kernels.threads,
        0,
        &args,
    )?;

    for fold in heads.folds() {
        let args = [
            accumulator,
            head_points,
            keys,
            Arg::U32(word("runs of heads", fold.runs_in)?),
            Arg::U32(fold.run_len),
            Arg::U32(word("heads", fold.in_first)?),
            Arg::U32(word("heads", fold.out_first)?),
        ];
        let grid = [blocks("runs of heads", fold.runs_out, kernels.threads)?, 1, 1];
        launcher.launch(kernels.fold, grid, kernels.threads, 0, &args)?;
    }
    Ok(())
}

pub(crate) fn reduce(launcher: &mut Launcher<'_>, op: &MsmReduce) -> Result<()> {
    let (shape, group) = (shape(op.shape())?, op.group());
    let kernels = kernels(group);
    let levels = Lines::levels(resident(launcher.info(), group), &shape);
    let windows = u64::from(shape.num_windows);
    let num_windows = Arg::U32(shape.num_windows);
    let windows_out = Arg::Pointer(launcher.pointer(op.windows())?);

    let mut points_in = Arg::Pointer(launcher.pointer(op.accumulator())?);
    let mut scratch = launcher.pointer(op.workspace())?;
    let mut last: Option<Lines> = None;
    for lines in &levels {
        let points_out = Arg::Pointer(scratch);
        // Without parts, what comes in are buckets.
        let parts_in = last.map_or([Arg::U32(0); 2], |last| parts(&last));
        let args =
            [&[num_windows][..], &args(lines), &parts_in, &parts(lines), &[points_in, points_out]]
                .concat();
        let sums = windows * lines.num_points();
        let grid = [blocks("sums of buckets", sums, kernels.threads)?, 1, 1];
        launcher.launch(kernels.sum, grid, kernels.threads, 0, &args)?;
        scratch += sums * xyzz_bytes(group);
        points_in = points_out;
        last = Some(*lines);
    }
    let weighed = Arg::Pointer(scratch);
    let [rows, columns] = last.map_or([Arg::U32(0); 2], |lines| args(&lines));
    let args = [rows, columns, points_in, weighed];
    launcher.launch(
        kernels.weigh,
        [2 * shape.num_windows, 1, 1],
        kernels.weigh_threads,
        0,
        &args,
    )?;
    let args = [num_windows, columns, weighed, windows_out];
    launcher.launch(kernels.finish, [1, 1, 1], MAX_WINDOWS, 0, &args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_suit_the_length() {
        let bits = |lg: u32| window_bits(&Card::h200(), Group::G1, 1 << lg);
        assert!((0..30).all(|lg| bits(lg) <= bits(lg + 1)));
        assert!((4..=6).contains(&bits(0)) && (11..=13).contains(&bits(16)));
        assert!((15..=17).contains(&bits(20)) && (17..=20).contains(&bits(24)));
        let capped = Card { memory_bytes: 1 << 30, ..Card::h200() };
        let bits = window_bits(&capped, Group::G2, 1 << 24);
        let shape = shape(DigitsShape::new(1 << 24, bits)).expect("a shape");
        assert!(buckets_bytes(&shape, Group::G2) <= 1 << 25);
    }
}
