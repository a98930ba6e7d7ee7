//! An MSM's numbers: how many scalars, how wide a window.

use crate::error::{KernelError, expect_range};

/// Bits of a scalar's magnitude and its sign: |s| <= (r - 1) / 2 < 2^254.
const SIGNED_BITS: u32 = 255;

/// Number of scalars and width of a window, from which all sizes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    len: usize,
    window_bits: u32,
}

impl Shape {
    /// The narrowest window.
    pub const MIN_WINDOW_BITS: u32 = 2;
    /// The widest window.
    pub const MAX_WINDOW_BITS: u32 = 22;
    /// The most scalars: an entry of a plan keeps an index in 31 bits.
    pub const MAX_LEN: usize = 1 << 31;

    /// Checks both numbers.
    pub fn new(len: usize, window_bits: u32) -> Result<Self, KernelError> {
        expect_range("scalars", len as u64, 0, Self::MAX_LEN as u64)?;
        let (least, most) = (Self::MIN_WINDOW_BITS, Self::MAX_WINDOW_BITS);
        expect_range("window_bits", window_bits.into(), least.into(), most.into())?;
        Ok(Self { len, window_bits })
    }

    /// The width that takes the least time for `len` scalars of full size.
    ///
    /// A window costs an addition for each scalar, less one for each bucket (its first point is
    /// only copied), and then two for each bucket to add the buckets up; measured, a bucket costs
    /// a quarter more than that, and a window some running sums besides. For a vector that is
    /// mostly bits, the number of its other elements is the better `len`.
    pub fn best_window_bits(len: usize) -> u32 {
        let quarters = |window_bits: u32| {
            let num_windows = u64::from(SIGNED_BITS.div_ceil(window_bits));
            num_windows * (4 * len as u64 + (5 << (window_bits - 1)) + 256)
        };
        (Self::MIN_WINDOW_BITS..=18).min_by_key(|bits| quarters(*bits)).unwrap_or(8)
    }

    /// How many scalars.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bits of a window.
    pub fn window_bits(&self) -> u32 {
        self.window_bits
    }

    /// How many windows a scalar has.
    pub fn num_windows(&self) -> usize {
        SIGNED_BITS.div_ceil(self.window_bits) as usize
    }

    /// How many buckets a window has: one for each magnitude of a digit but zero.
    pub fn num_buckets(&self) -> usize {
        1 << (self.window_bits - 1)
    }

    /// Points of the accumulator that `accumulate` adds to and `reduce` reads.
    pub fn num_accumulators(&self) -> usize {
        self.num_windows() * self.num_buckets()
    }

    pub(crate) fn num_offsets(&self) -> usize {
        self.num_windows() * (self.num_buckets() + 1)
    }

    pub(crate) fn num_entries(&self) -> usize {
        self.num_windows() * self.len
    }
}
