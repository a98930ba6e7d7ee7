//! How the scratch of MSMs is laid out, and by how many threads buckets are filled and summed;
//! `msm_accumulate.cuh` and `msm_reduce.cuh` say how.

use std::ops::RangeInclusive;

use crate::digits::{ALIGN_BYTES, Shape, WORD_BYTES};
use crate::sizes::msm::{MAX_WAVES, MAX_WINDOWS, MIN_RUN_LEN};

/// Heads that one thread adds up: few, for they come one after the other.
const FOLD_LEN: u32 = 4;
/// Partial sums that one thread adds up.
const PART_FAN: u32 = 4;
/// Buckets that one thread adds up.
const BUCKET_FAN: RangeInclusive<u32> = 8..=64;

/// Threads that a device keeps at once, in blocks of so many.
pub const fn resident(sm_count: u32, blocks_per_sm: u32, threads: u32) -> u64 {
    sm_count as u64 * blocks_per_sm as u64 * threads as u64
}

/// Threads that `msm_runs` may count on for each wave: as few less as there are windows, whose last
/// runs are short, so that no wave begins for those.
pub const fn threads_of_wave(resident: u64) -> u64 {
    resident.saturating_sub(MAX_WINDOWS as u64)
}

/// How accumulation is cut into runs, whose heads are folded level by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heads {
    /// Each level's number of runs, the first's before it is folded, down to one.
    pub levels: Vec<u64>,
}

/// One launch that folds heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    /// Heads that come in, and the number of the first.
    pub runs_in: u64,
    /// Heads that a thread adds up.
    pub run_len: u32,
    /// The number of the first head that comes in.
    pub in_first: u64,
    /// The same of those that go out.
    pub out_first: u64,
    /// Heads that go out, a thread each.
    pub runs_out: u64,
}

impl Heads {
    /// For plans with at most `len` entries a window, by so many threads a wave.
    pub fn new(threads_of_wave: u64, shape: &Shape, len: u64) -> Self {
        let windows = u64::from(shape.num_windows);
        let entries = windows.saturating_mul(len);
        // A run more in each window for the rest.
        let most = u64::from(MAX_WAVES) * threads_of_wave;
        let runs = most.min(entries.div_ceil(MIN_RUN_LEN.into()));
        let mut levels = vec![runs + windows];
        while let Some(&last) = levels.last().filter(|last| **last > 1) {
            levels.push(last.div_ceil(FOLD_LEN.into()));
        }
        Self { levels }
    }

    /// The most runs of the plan.
    pub fn max_runs(&self) -> u64 {
        self.levels.first().copied().unwrap_or(0)
    }

    /// Heads of all levels.
    pub fn total(&self) -> u64 {
        self.levels.iter().sum()
    }

    /// The launches that fold, in order.
    pub fn folds(&self) -> Vec<Fold> {
        let mut in_first = 0;
        let fold = |pair: &[u64]| {
            let &[runs_in, runs_out] = pair else { return None };
            let first = in_first;
            in_first += runs_in;
            Some(Fold {
                runs_in,
                run_len: FOLD_LEN,
                in_first: first,
                out_first: in_first,
                runs_out,
            })
        };
        self.levels.windows(2).filter_map(fold).collect()
    }

    /// Bytes of the workspace's parts, each a multiple of [`ALIGN_BYTES`]: the runs' table, keys,
    /// heads of `xyzz_bytes` each.
    pub fn workspace_parts(&self, shape: &Shape, xyzz_bytes: u64) -> [u64; 3] {
        let parts = [
            (u64::from(shape.num_windows) + 2) * WORD_BYTES,
            self.total() * WORD_BYTES,
            self.total() * xyzz_bytes,
        ];
        parts.map(|bytes| bytes.next_multiple_of(ALIGN_BYTES))
    }
}

/// A window's buckets as a matrix, and the partial sums of its rows and columns in each launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Lines {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
    /// Partial sums of each row.
    pub row_parts: u32,
    /// Partial sums of each column.
    pub column_parts: u32,
}

impl Lines {
    /// All levels, down to one sum a line, on a device that keeps so many threads.
    pub fn levels(resident: u64, shape: &Shape) -> Vec<Self> {
        let threads = u64::from(MAX_WAVES) * resident.max(1);
        let wanted = (2 * shape.all_buckets()).div_ceil(threads);
        let (least, most) = (u64::from(*BUCKET_FAN.start()), u64::from(*BUCKET_FAN.end()));
        Self::levels_by(wanted.next_power_of_two().clamp(least, most) as u32, shape.window_bits)
    }

    /// [`Lines::levels`] of windows of 2 bits or more, with threads that add up `fan` buckets, a
    /// power of two.
    pub fn levels_by(fan: u32, window_bits: u32) -> Vec<Self> {
        let lg = window_bits.saturating_sub(1);
        let (rows, columns) = (1u32 << (lg - lg / 2), 1u32 << (lg / 2));
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
    pub fn num_points(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.row_parts)
            + u64::from(self.columns) * u64::from(self.column_parts)
    }
}

/// Points of a window in the scratch of a reduction: all levels, and the weighed sums of rows and
/// of columns.
pub fn scratch_points(levels: &[Lines]) -> u64 {
    levels.iter().map(Lines::num_points).sum::<u64>() + 2
}
