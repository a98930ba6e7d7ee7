//! How digit plans, and the scratch of making them, are laid out, and by how many blocks they are
//! made; `digits.cuh` says how.

use std::ops::RangeInclusive;

use twinlock_fields::FR;

use crate::sizes::digits::{
    CUT_THREADS, MAX_BIN_BITS, RECORD_BYTES, SCAN_GROUPS, SCAN_THREADS, SORT_LEN, SORT_THREADS,
};

/// Widths of a window.
pub const WINDOW_BITS: RangeInclusive<u32> = 2..=22;
/// The most entries of a window: each keeps an index in 31 bits.
pub const MAX_ENTRIES: u64 = 1 << 31;
/// What the parts of a plan and of a workspace are aligned to.
pub const ALIGN_BYTES: u64 = 256;
pub(crate) const WORD_BYTES: u64 = 4;
/// Records that are partitioned at once, unless one window has more.
const RECORDS: u64 = 1 << 25;
/// Blocks that cut scalars, a multiprocessor.
const CUT_BLOCKS_PER_SM: u32 = 8;
/// Lower bits of a bucket's number, while more bins can be had.
const LOW_BITS: u32 = 10;

/// Digits of a scalar: a magnitude is below 2^254, and the bit above it takes the last digit's sign.
pub const fn num_digits(window_bits: u32) -> u32 {
    FR.bits.div_ceil(window_bits)
}

/// What follows from a plan's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a window.
    pub window_bits: u32,
    /// Tables of bases.
    pub tables: u32,
    /// Windows of one table.
    pub num_windows: u32,
    /// Buckets of a window: one for each magnitude of a digit but zero.
    pub num_buckets: u32,
    /// The most entries of a window: a scalar has one for each table.
    pub max_entries: u64,
    /// Room for a window's entries, in words.
    pub stride: u64,
    /// Upper bits of a bucket's number, by which its entries are partitioned first.
    pub bin_bits: u32,
    /// Windows that are partitioned at once.
    pub at_once: u32,
}

impl Shape {
    /// Of plans of at most `max_len` scalars. `None` where a width, the number of tables or of
    /// entries is out of range.
    pub fn new(window_bits: u32, tables: u32, max_len: u64) -> Option<Self> {
        if !WINDOW_BITS.contains(&window_bits) || !(1..=num_digits(window_bits)).contains(&tables) {
            return None;
        }
        let num_windows = num_digits(window_bits).div_ceil(tables);
        let max_entries = max_len.saturating_mul(tables.into());
        if max_entries > MAX_ENTRIES {
            return None;
        }
        let stride = max_entries.next_multiple_of(ALIGN_BYTES / WORD_BYTES);
        let at_once = u32::try_from(RECORDS / stride.max(1)).unwrap_or(u32::MAX);
        Some(Self {
            window_bits,
            tables,
            num_windows,
            num_buckets: 1 << (window_bits - 1),
            max_entries,
            stride,
            bin_bits: (window_bits - 1).saturating_sub(LOW_BITS).min(MAX_BIN_BITS),
            at_once: at_once.clamp(1, num_windows),
        })
    }

    /// Buckets of all windows.
    pub fn all_buckets(&self) -> u64 {
        u64::from(self.num_windows) * u64::from(self.num_buckets)
    }

    /// Bytes of a plan's offsets, its first part.
    pub fn offsets_bytes(&self) -> u64 {
        (self.all_buckets() + u64::from(self.num_windows)) * WORD_BYTES
    }

    /// Where a plan's entries are, its other part.
    pub fn entries_start(&self) -> u64 {
        self.offsets_bytes().next_multiple_of(ALIGN_BYTES)
    }

    /// Bytes of a plan's entries.
    pub fn entries_bytes(&self) -> u64 {
        u64::from(self.num_windows) * self.stride * WORD_BYTES
    }

    /// Bytes of a plan.
    pub fn plan_bytes(&self) -> u64 {
        self.entries_start() + self.entries_bytes()
    }

    /// Parts that a bucket's number is partitioned by.
    pub const fn num_bins(&self) -> u32 {
        1 << self.bin_bits
    }

    /// Bits of a bucket's number within its bin.
    pub const fn low_bits(&self) -> u32 {
        self.window_bits - 1 - self.bin_bits
    }

    /// Bytes of the workspace's parts, each a multiple of [`ALIGN_BYTES`]: counts of bins, starts of
    /// bins, counts of buckets, and records or, where there are no bins, digits. Both counts are
    /// zeros before.
    pub fn workspace_parts(&self) -> [u64; 4] {
        let windows = u64::from(self.num_windows);
        let bins = u64::from(self.num_bins());
        let records = if self.bin_bits == 0 {
            self.entries_bytes()
        } else {
            u64::from(self.at_once) * self.stride * u64::from(RECORD_BYTES)
        };
        let parts = [
            windows * bins * WORD_BYTES,
            windows * (bins + 1) * WORD_BYTES,
            self.all_buckets() * WORD_BYTES,
            records,
        ];
        parts.map(|bytes| bytes.next_multiple_of(ALIGN_BYTES))
    }

    /// Blocks that cut so many scalars.
    pub fn cut_blocks(num_scalars: u32, sm_count: u32) -> u32 {
        num_scalars.div_ceil(CUT_THREADS).min(CUT_BLOCKS_PER_SM * sm_count)
    }

    /// Bytes of shared memory of a block that cuts.
    pub fn cut_shared_bytes(&self) -> u32 {
        if self.bin_bits == 0 { 0 } else { (self.num_windows << self.bin_bits) * 4 }
    }

    /// Blocks, for each window, that partition `len` digits, and that count or place its records.
    pub const fn tiles(len: u32) -> u32 {
        len.div_ceil(SORT_THREADS * SORT_LEN)
    }

    /// Bytes of shared memory of a block that sorts by keys of so many bits: six of each item and
    /// key, and the words of a scan.
    const fn sort_shared_bytes(key_bits: u32) -> u32 {
        6 * (SORT_THREADS * SORT_LEN + (1 << key_bits)) + 4 * (SCAN_THREADS + SCAN_GROUPS + 1)
    }

    /// Bytes of shared memory of a block that partitions.
    pub const fn partition_shared_bytes(&self) -> u32 {
        Self::sort_shared_bytes(self.bin_bits)
    }

    /// Bytes of shared memory of a block that places.
    pub const fn place_shared_bytes(&self) -> u32 {
        Self::sort_shared_bytes(self.low_bits())
    }

    /// The windows that are made plans of at once: the first, and how many.
    pub fn rounds(&self) -> impl Iterator<Item = (u32, u32)> {
        let Self { num_windows, at_once, .. } = *self;
        (0..num_windows)
            .step_by(at_once as usize)
            .map(move |first| (first, at_once.min(num_windows - first)))
    }
}
