//! Launches of the `digits` operation, and how a plan is laid out.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES, INDEX_BYTES, SCALAR_BITS};
use twinlock_api::op::{Digits, DigitsLayout, DigitsShape};
use twinlock_api::{Error, Group, Result, View};
use twinlock_cuda_kernels::sizes::digits::{
    CUT_THREADS, MAX_BIN_BITS, PARTITION_LEN, PARTITION_THREADS, PLACE_LEN, PLACE_THREADS,
    RECORD_BYTES, SCAN_THREADS,
};

use crate::card::Card;
use crate::launcher::{Arg, Launcher};

/// Widths of a window.
pub(super) const WINDOW_BITS: std::ops::RangeInclusive<u32> = 2..=22;
/// The most entries of a window: each keeps an index in 31 bits.
const MAX_LEN: u64 = 1 << 31;
/// Records that are partitioned at once, unless one window has more.
const RECORDS: u64 = 1 << 25;
/// Blocks that cut scalars, a multiprocessor.
const CUT_BLOCKS_PER_SM: u32 = 8;
/// Lower bits of a bucket's number, while more bins can be had.
const LOW_BITS: u32 = 10;

/// What follows from a plan's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) window_bits: u32,
    pub(super) tables: u32,
    /// Windows of one table.
    pub(super) num_windows: u32,
    /// Buckets of a window: one for each magnitude of a digit but zero.
    pub(super) num_buckets: u32,
    /// The most entries of a window: a scalar has one for each table.
    pub(super) max_entries: u64,
    /// Room for a window's entries, in words.
    pub(super) stride: u64,
    /// Upper bits of a bucket's number, by which its entries are partitioned first.
    bin_bits: u32,
}

impl Shape {
    pub(super) fn new(shape: DigitsShape) -> Result<Self> {
        let window_bits = shape.window_bits;
        if !WINDOW_BITS.contains(&window_bits) {
            return Err(Error::Unsupported(format!(
                "windows of {window_bits} bits; {WINDOW_BITS:?} on the CUDA backend"
            )));
        }
        // A magnitude is below 2^254, and the bit above it takes the last digit's sign.
        let num_digits = SCALAR_BITS.div_ceil(window_bits);
        if !(1..=num_digits).contains(&shape.tables) {
            return Err(Error::Unsupported(format!(
                "{} tables of bases for {num_digits} digits",
                shape.tables
            )));
        }
        let max_entries = shape.max_len.saturating_mul(shape.tables.into());
        check_limit("digits of a window", max_entries, MAX_LEN)?;
        Ok(Self {
            window_bits,
            tables: shape.tables,
            num_windows: num_digits.div_ceil(shape.tables),
            num_buckets: 1 << (window_bits - 1),
            max_entries,
            stride: max_entries.next_multiple_of(ARENA_ALIGN_BYTES / INDEX_BYTES),
            bin_bits: (window_bits - 1).saturating_sub(LOW_BITS).min(MAX_BIN_BITS),
        })
    }

    /// Buckets of all windows.
    pub(super) fn all_buckets(&self) -> u64 {
        u64::from(self.num_windows) * u64::from(self.num_buckets)
    }

    /// Bytes of the buckets of all windows, as X, Y, ZZ, ZZZ.
    pub(super) fn buckets_bytes(&self, group: Group) -> u64 {
        self.all_buckets() * 2 * group.affine_bytes()
    }

    fn offsets_bytes(&self) -> u64 {
        (self.all_buckets() + u64::from(self.num_windows)) * INDEX_BYTES
    }

    fn entries_start(&self) -> u64 {
        self.offsets_bytes().next_multiple_of(ARENA_ALIGN_BYTES)
    }

    fn entries_bytes(&self) -> u64 {
        u64::from(self.num_windows) * self.stride * INDEX_BYTES
    }

    fn plan_bytes(&self) -> u64 {
        self.entries_start() + self.entries_bytes()
    }

    /// The plan's offsets.
    pub(super) fn offsets(&self, plan: View) -> Result<View> {
        plan.slice(0, self.offsets_bytes())
    }

    /// The plan's entries.
    pub(super) fn entries(&self, plan: View) -> Result<View> {
        plan.slice(self.entries_start(), self.entries_bytes())
    }

    const fn num_bins(&self) -> u32 {
        1 << self.bin_bits
    }

    const fn low_bits(&self) -> u32 {
        self.window_bits - 1 - self.bin_bits
    }

    /// Windows that are partitioned at once.
    fn windows_at_once(&self) -> u32 {
        let windows = RECORDS / self.stride.max(1);
        u32::try_from(windows).unwrap_or(u32::MAX).clamp(1, self.num_windows)
    }

    /// Sizes of the workspace's parts: counts of bins, starts of bins, counts of buckets, and
    /// records or, where there are no bins, digits.
    fn workspace_parts(&self) -> [u64; 4] {
        let windows = u64::from(self.num_windows);
        let bins = u64::from(self.num_bins());
        let records = if self.bin_bits == 0 {
            self.entries_bytes()
        } else {
            u64::from(self.windows_at_once()) * self.stride * u64::from(RECORD_BYTES)
        };
        let parts = [
            windows * bins * INDEX_BYTES,
            windows * (bins + 1) * INDEX_BYTES,
            self.all_buckets() * INDEX_BYTES,
            records,
        ];
        parts.map(|bytes| bytes.next_multiple_of(ARENA_ALIGN_BYTES))
    }

    fn workspace(&self, view: View) -> Result<[View; 4]> {
        let [a, b, c, d] = self.workspace_parts();
        Ok([view.slice(0, a)?, view.slice(a, b)?, view.slice(a + b, c)?, view.slice(a + b + c, d)?])
    }
}

/// Blocks of `threads` for `items`, one a thread.
pub(super) fn blocks(what: &str, items: u64, threads: u32) -> Result<u32> {
    word(what, items.div_ceil(threads.into()))
}

pub(crate) fn layout(card: &Card, shape: DigitsShape) -> Result<DigitsLayout> {
    let sizes = Shape::new(shape)?;
    let workspace_bytes = sizes.workspace_parts().iter().sum();
    check_limit("a digit plan (bytes)", sizes.plan_bytes(), card.memory_bytes)?;
    check_limit("scratch of digits (bytes)", workspace_bytes, card.memory_bytes)?;
    Ok(DigitsLayout { shape, plan_bytes: sizes.plan_bytes(), workspace_bytes })
}

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &Digits) -> Result<()> {
    let shape = Shape::new(op.shape())?;
    let num_scalars = word("scalars of a digit plan", op.scalars().len_bytes() / FR_BYTES)?;
    let len = num_scalars.saturating_mul(shape.tables);
    let [bin_counts, bin_starts, counts, records] = shape.workspace(op.workspace())?;
    launcher.fill(bin_counts, 0)?;
    launcher.fill(counts, 0)?;

    let pointer = |view: View| launcher.pointer(view).map(Arg::Pointer);
    let scalars = pointer(op.scalars())?;
    let offsets = pointer(shape.offsets(op.plan())?)?;
    let entries = pointer(shape.entries(op.plan())?)?;
    let [bin_counts, bin_starts] = [pointer(bin_counts)?, pointer(bin_starts)?];
    let [counts, records] = [pointer(counts)?, pointer(records)?];
    // With one bin, digits are not partitioned: they are what is counted and placed.
    let digits = if shape.bin_bits == 0 { records } else { entries };
    let begin = [
        Arg::U32(shape.window_bits),
        Arg::U32(shape.num_windows),
        Arg::U32(shape.low_bits()),
        Arg::U32(shape.bin_bits),
        Arg::U32(len),
        Arg::U64(shape.stride),
    ];
    let sm_count = launcher.info().sm_count;
    let mut launch = |kernel, [x, y]: [u32; 2], threads, shared_bytes, own: &[Arg]| {
        launcher.launch(kernel, [x, y, 1], threads, shared_bytes, &[&begin, own].concat())
    };

    let cut_blocks = num_scalars.div_ceil(CUT_THREADS).min(CUT_BLOCKS_PER_SM * sm_count);
    let counted = if shape.bin_bits == 0 { 0 } else { shape.num_windows << shape.bin_bits };
    let own = [Arg::U32(shape.tables), scalars, digits, bin_counts];
    launch("digits_cut", [cut_blocks, 1], CUT_THREADS, counted * 4, &own)?;
    if shape.bin_bits != 0 {
        let own = [bin_counts, bin_starts];
        launch("digits_bin_starts", [shape.num_windows, 1], SCAN_THREADS, 0, &own)?;
    }
    let tiles = len.div_ceil(PARTITION_THREADS * PARTITION_LEN);
    let chunks = len.div_ceil(PLACE_THREADS * PLACE_LEN);
    let at_once = shape.windows_at_once();
    for first in (0..shape.num_windows).step_by(at_once as usize) {
        let windows = at_once.min(shape.num_windows - first);
        let first = Arg::U32(first);
        if shape.bin_bits != 0 {
            let own = [first, digits, bin_counts, records];
            launch("digits_partition", [tiles, windows], PARTITION_THREADS, 0, &own)?;
        }
        let own = [first, records, bin_starts, counts];
        launch("digits_count", [chunks, windows], PLACE_THREADS, 0, &own)?;
        let own = [first, bin_starts, counts, offsets];
        launch("digits_starts", [shape.num_bins(), windows], SCAN_THREADS, 0, &own)?;
        let own = [first, records, bin_starts, counts, entries];
        launch("digits_place", [chunks, windows], PLACE_THREADS, 0, &own)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlock_cuda_kernels::sizes::digits::MAX_LOW_BITS;
    use twinlock_cuda_kernels::sizes::msm::MAX_WINDOWS;

    /// What the kernels take for granted.
    #[test]
    fn shapes_fit_the_kernels() {
        for window_bits in WINDOW_BITS {
            for (max_len, tables) in
                [0, 1, 63, 64, 1 << 20, 1 << 26, MAX_LEN].into_iter().zip([1, 2, 3, 8, 5, 12, 1])
            {
                let shape = DigitsShape::new(max_len, window_bits).with_tables(tables);
                let shape = Shape::new(shape).expect("a shape");
                assert!(
                    shape.num_windows <= MAX_WINDOWS && shape.stride >= max_len * u64::from(tables)
                );
                let num_digits = SCALAR_BITS.div_ceil(window_bits);
                assert!((0..tables).contains(&(shape.num_windows * tables - num_digits)));
                assert!(shape.low_bits() <= MAX_LOW_BITS && shape.num_bins() <= 1 << MAX_BIN_BITS);
                assert!(shape.num_windows << shape.bin_bits <= 48 << 8, "48 KiB of words");
                let at_once = u64::from(shape.windows_at_once());
                assert!(at_once == 1 || at_once * shape.stride <= RECORDS);
            }
            let too_long = DigitsShape::new(MAX_LEN + 1, window_bits);
            assert!(Shape::new(too_long).is_err());
            let too_long = DigitsShape::new(MAX_LEN / 2 + 1, window_bits).with_tables(2);
            assert!(Shape::new(too_long).is_err());
            let digits = SCALAR_BITS.div_ceil(window_bits);
            for (tables, is_ok) in [(0, false), (digits, true), (digits + 1, false)] {
                let shape = DigitsShape::new(5, window_bits).with_tables(tables);
                assert_eq!(Shape::new(shape).is_ok(), is_ok);
            }
        }
        for window_bits in [0, 1, 23, u32::MAX] {
            assert!(Shape::new(DigitsShape::new(1, window_bits)).is_err());
        }
    }

    #[test]
    fn a_workspace_holds_its_parts() {
        let card = Card::h200();
        let layout = layout(&card, DigitsShape::new(1 << 20, 16));
        let layout = layout.expect("a layout");
        let shape = Shape::new(layout.shape).expect("a shape");
        assert_eq!(layout.workspace_bytes, shape.workspace_parts().iter().sum::<u64>());
        assert!(super::layout(&card, DigitsShape::new(1 << 31, 2)).is_err());
    }
}
