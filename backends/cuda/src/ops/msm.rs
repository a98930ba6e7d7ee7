//! Launches of `msm_accumulate` and `msm_reduce`.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, INDEX_BYTES, SCALAR_BITS};
use twinlock_api::op::{BaseOf, DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
use twinlock_api::{Group, Result, View};
use twinlock_cuda_kernels::sizes::msm::{
    G1_BLOCKS_PER_SM, G1_WEIGH_THREADS, G2_BLOCKS_PER_SM, G2_WEIGH_THREADS, MAX_WAVES, MAX_WINDOWS,
    MIN_RUN_LEN, THREADS,
};

use super::digits::{Shape, WINDOW_BITS, blocks};
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
    /// Blocks that one multiprocessor keeps at least, by the kernels' launch bounds.
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
            blocks_per_sm: G2_BLOCKS_PER_SM,
            weigh_threads: G2_WEIGH_THREADS,
        },
    }
}

/// Bytes of a point as kernels keep it: X, Y, ZZ, ZZZ.
const fn xyzz_bytes(group: Group) -> u64 {
    group.affine_bytes() * 2
}

/// Heads that one thread of the first fold adds up: few, for there every run may have one.
const FIRST_FOLD_LEN: u32 = 4;
/// Heads that one thread of a later fold adds up.
const FOLD_LEN: u32 = 8;
/// Partial sums that one thread adds up.
const PART_FAN: u32 = 4;
/// Buckets that one thread adds up.
const BUCKET_FAN: std::ops::RangeInclusive<u32> = 8..=64;

/// Threads that the device keeps at once.
const fn resident(card: &Card, group: Group) -> u64 {
    card.sm_count as u64 * kernels(group).blocks_per_sm as u64 * THREADS as u64
}

/// Threads that `msm_runs` may count on for each wave: as few less as there are windows, whose last
/// runs are short, so that no wave begins for those.
const fn threads_of_wave(card: &Card, group: Group) -> u64 {
    resident(card, group).saturating_sub(MAX_WINDOWS as u64)
}

/// How accumulation is cut into runs, whose heads are folded level by level.
struct Heads {
    /// Each level's number of runs, the first's before it is folded, down to one.
    levels: Vec<u64>,
}

impl Heads {
    /// For plans with so many entries a window at most.
    fn new(card: &Card, group: Group, shape: &Shape, len: u64) -> Self {
        let windows = u64::from(shape.num_windows);
        let entries = windows.saturating_mul(len);
        // A run more in each window for the rest.
        let most = u64::from(MAX_WAVES) * threads_of_wave(card, group);
        let runs = most.min(entries.div_ceil(MIN_RUN_LEN.into()));
        let mut levels = vec![runs + windows];
        while let Some(&last) = levels.last().filter(|last| **last > 1) {
            levels.push(last.div_ceil(Self::fold_len(levels.len() - 1).into()));
        }
        Self { levels }
    }

    /// Runs of a level that are folded into one of the next.
    const fn fold_len(level: usize) -> u32 {
        if level == 0 { FIRST_FOLD_LEN } else { FOLD_LEN }
    }

    fn total(&self) -> u64 {
        self.levels.iter().sum()
    }

    /// Sizes of the workspace's parts: the runs' table, keys, heads.
    fn workspace_parts(&self, group: Group, shape: &Shape) -> [u64; 3] {
        let parts = [
            (u64::from(shape.num_windows) + 2) * INDEX_BYTES,
            self.total() * INDEX_BYTES,
            self.total() * xyzz_bytes(group),
        ];
        parts.map(|bytes| bytes.next_multiple_of(ARENA_ALIGN_BYTES))
    }
}

/// A window's buckets as a matrix, and the partial sums of its rows and columns in each launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    rows: u32,
    columns: u32,
    row_parts: u32,
    column_parts: u32,
}

impl Lines {
    /// All levels, down to one sum a line.
    fn levels(card: &Card, group: Group, shape: &Shape) -> Vec<Self> {
        let lg = shape.window_bits - 1;
        let (rows, columns) = (1u32 << (lg - lg / 2), 1u32 << (lg / 2));
        let wanted =
            (2 * shape.all_buckets()).div_ceil(u64::from(MAX_WAVES) * resident(card, group));
        let (least, most) = (u64::from(*BUCKET_FAN.start()), u64::from(*BUCKET_FAN.end()));
        let fan = wanted.next_power_of_two().clamp(least, most) as u32;
        let mut last = Self {
            rows,
            columns,
            row_parts: columns / columns.min(fan),
            column_parts: rows / rows.min(fan),
        };
        let mut levels = vec![last];
        while last.row_parts > 1 || last.column_parts > 1 {
            last.row_parts /= last.row_parts.min(PART_FAN);
            last.column_parts /= last.column_parts.min(PART_FAN);
            levels.push(last);
        }
        levels
    }

    /// Points of a window.
    fn num_points(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.row_parts)
            + u64::from(self.columns) * u64::from(self.column_parts)
    }

    fn args(&self) -> [Arg; 2] {
        [Arg::U32(self.rows), Arg::U32(self.columns)]
    }

    fn parts(&self) -> [Arg; 2] {
        [Arg::U32(self.row_parts), Arg::U32(self.column_parts)]
    }
}

/// Points of a window in the scratch of a reduction: all levels, and the weighed sums of rows and
/// of columns.
fn scratch_points(levels: &[Lines]) -> u64 {
    levels.iter().map(Lines::num_points).sum::<u64>() + 2
}

/// The width that takes the least products of the field: for each scalar and window ten, and for
/// each bucket 28, of two additions of sums. These are counted twice, for plans where most scalars
/// are bits and hardly any entries remain.
pub(crate) fn window_bits(card: &Card, group: Group, len: u64) -> u32 {
    let work = |window_bits: u32| {
        let num_windows = u64::from(SCALAR_BITS.div_ceil(window_bits));
        num_windows.saturating_mul(len.saturating_mul(10).saturating_add(56 << (window_bits - 1)))
    };
    // Buckets take a small part of the memory that capped devices have.
    let fits = |window_bits: &u32| {
        let shape = Shape::new(DigitsShape::new(1, *window_bits));
        shape.is_ok_and(|shape| shape.buckets_bytes(group) <= card.memory_bytes / 32)
    };
    (4..=*WINDOW_BITS.end()).filter(fits).min_by_key(|bits| work(*bits)).unwrap_or(4)
}

pub(crate) fn layout(card: &Card, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
    let sizes = Shape::new(shape)?;
    let heads = Heads::new(card, group, &sizes, sizes.max_entries);
    let accumulator_bytes = sizes.buckets_bytes(group);
    check_limit("buckets of an MSM (bytes)", accumulator_bytes, card.memory_bytes)?;
    let levels = Lines::levels(card, group, &sizes);
    Ok(MsmLayout {
        shape,
        group,
        accumulator_bytes,
        accumulate_workspace_bytes: heads.workspace_parts(group, &sizes).iter().sum(),
        reduce_workspace_bytes: u64::from(sizes.num_windows)
            * scratch_points(&levels)
            * xyzz_bytes(group),
        num_windows: sizes.num_windows,
    })
}

pub(crate) fn accumulate(launcher: &mut Launcher<'_>, op: &MsmAccumulate) -> Result<()> {
    let (shape, group) = (Shape::new(op.shape())?, op.group());
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
    let heads = Heads::new(launcher.info(), group, &shape, len);
    let [runs_bytes, keys_bytes, heads_bytes] = heads.workspace_parts(group, &shape);
    let pointer = |view: View| launcher.pointer(view).map(Arg::Pointer);
    let runs = pointer(op.workspace().slice(0, runs_bytes)?)?;
    let keys = pointer(op.workspace().slice(runs_bytes, keys_bytes)?)?;
    let head_points = pointer(op.workspace().slice(runs_bytes + keys_bytes, heads_bytes)?)?;
    let accumulator = pointer(op.accumulator())?;
    let bases = pointer(op.bases())?;
    let plan = [
        pointer(shape.offsets(op.plan())?)?,
        pointer(shape.entries(op.plan())?)?,
        Arg::U32(shape.num_windows),
        Arg::U32(shape.num_buckets),
        Arg::U32(word("entries of a window", len)?),
        Arg::U64(shape.stride),
    ];
    let indices = indices.map_or(Ok(Arg::Pointer(0)), pointer)?;
    let threads = word("threads", threads_of_wave(launcher.info(), group))?;
    let args = [&plan[..], &[runs, Arg::U32(threads)]].concat();
    launcher.launch("msm_runs", [1, 1, 1], MAX_WINDOWS, 0, &args)?;
    let max_runs = word("runs of msm_accumulate", heads.levels[0])?;
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
    launcher.launch(kernel, [max_runs.div_ceil(THREADS), 1, 1], THREADS, 0, &args)?;

    let mut in_first = 0;
    for (level, pair) in heads.levels.windows(2).enumerate() {
        let &[runs_in, runs_out] = pair else { continue };
        let out_first = in_first + runs_in;
        let args = [
            accumulator,
            head_points,
            keys,
            Arg::U32(word("runs of heads", runs_in)?),
            Arg::U32(Heads::fold_len(level)),
            Arg::U32(word("heads", in_first)?),
            Arg::U32(word("heads", out_first)?),
        ];
        let grid = [blocks("runs of heads", runs_out, THREADS)?, 1, 1];
        launcher.launch(kernels.fold, grid, THREADS, 0, &args)?;
        in_first = out_first;
    }
    Ok(())
}

pub(crate) fn reduce(launcher: &mut Launcher<'_>, op: &MsmReduce) -> Result<()> {
    let (shape, group) = (Shape::new(op.shape())?, op.group());
    let kernels = kernels(group);
    let levels = Lines::levels(launcher.info(), group, &shape);
    let windows = u64::from(shape.num_windows);
    let num_windows = Arg::U32(shape.num_windows);
    let windows_out = Arg::Pointer(launcher.pointer(op.windows())?);

    let mut points_in = Arg::Pointer(launcher.pointer(op.accumulator())?);
    let mut scratch = launcher.pointer(op.workspace())?;
    let mut last: Option<Lines> = None;
    for lines in &levels {
        let points_out = Arg::Pointer(scratch);
        // Without parts, what comes in are buckets.
        let parts_in = last.map_or([Arg::U32(0); 2], |last| last.parts());
        let args = [
            &[num_windows][..],
            &lines.args(),
            &parts_in,
            &lines.parts(),
            &[points_in, points_out],
        ]
        .concat();
        let sums = windows * lines.num_points();
        let grid = [blocks("sums of buckets", sums, THREADS)?, 1, 1];
        launcher.launch(kernels.sum, grid, THREADS, 0, &args)?;
        scratch += sums * xyzz_bytes(group);
        points_in = points_out;
        last = Some(*lines);
    }
    let weighed = Arg::Pointer(scratch);
    let [rows, columns] = last.map_or([Arg::U32(0); 2], |lines| lines.args());
    let args = [rows, columns, points_in, weighed];
    launcher.launch(
        kernels.weigh,
        [2 * shape.num_windows, 1, 1],
        kernels.weigh_threads,
        0,
        &args,
    )?;
    let args = [num_windows, columns, weighed, windows_out];
    let grid = [shape.num_windows.div_ceil(THREADS), 1, 1];
    launcher.launch(kernels.finish, grid, THREADS, 0, &args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lg: u32, window_bits: u32) -> Shape {
        Shape::new(DigitsShape::new(1 << lg, window_bits)).expect("a shape")
    }

    #[test]
    fn folds_end_at_one_head() {
        let card = Card::h200();
        for group in [Group::G1, Group::G2] {
            for (len, window_bits) in [(0, 2), (1, 4), (513, 8), (1 << 16, 12), (1 << 26, 20)] {
                let heads = Heads::new(&card, group, &shape(26, window_bits), len);
                assert_eq!(heads.levels.last(), Some(&1));
                let folded = heads.levels.windows(2).enumerate().all(|(level, pair)| {
                    pair[1] == pair[0].div_ceil(u64::from(Heads::fold_len(level)))
                });
                assert!(folded, "{:?}", heads.levels);
            }
        }
    }

    /// A plan of fewer scalars never needs more room than the layout has.
    #[test]
    fn fewer_scalars_have_fewer_heads() {
        let card = Card::h200();
        let heads = |len| Heads::new(&card, Group::G1, &shape(20, 4), len).total();
        assert!((0..40_000).all(|len| heads(len) <= heads(len + 1)));
    }

    #[test]
    fn lines_end_at_one_sum() {
        let card = Card::h200();
        for window_bits in 2..=22 {
            let shape = shape(20, window_bits);
            let levels = Lines::levels(&card, Group::G1, &shape);
            let (first, last) = (levels[0], levels[levels.len() - 1]);
            assert_eq!(first.rows * first.columns, shape.num_buckets);
            assert_eq!((last.row_parts, last.column_parts), (1, 1));
            assert!(levels.iter().all(|lines| lines.row_parts > 0 && lines.column_parts > 0));
        }
    }

    #[test]
    fn windows_suit_the_length() {
        let bits = |lg: u32| window_bits(&Card::h200(), Group::G1, 1 << lg);
        assert!((0..30).all(|lg| bits(lg) <= bits(lg + 1)));
        assert!((4..=6).contains(&bits(0)) && (11..=13).contains(&bits(16)));
        assert!((15..=17).contains(&bits(20)) && (17..=20).contains(&bits(24)));
        let capped = Card { memory_bytes: 1 << 30, ..Card::h200() };
        let shape = shape(24, window_bits(&capped, Group::G2, 1 << 24));
        assert!(shape.buckets_bytes(Group::G2) <= 1 << 25);
    }
}
