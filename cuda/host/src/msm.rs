//! Digit plans and MSMs, as the kernels make them.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::field::Limbs;

unsafe extern "C" {
    fn twinlock_cuda_digits(
        window_bits: u32,
        num_windows: u32,
        bin_bits: u32,
        len: u32,
        stride: u64,
        tables: u32,
        at_once: u32,
        scalars: *const c_void,
        offsets: *mut u32,
        entries: *mut u32,
    );
}

/// Bits of a scalar.
const SCALAR_BITS: u32 = 255;

/// Scalars, as digits sorted by window and bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Bits of a window.
    pub window_bits: u32,
    /// Scalars.
    pub len: usize,
    /// Tables of bases.
    pub tables: u32,
    /// Words of a window in `entries`.
    pub stride: usize,
    /// For each window, where each bucket starts among its entries, and their number.
    pub offsets: Vec<u32>,
    /// Indices of scalars, table by table, with the digit's sign in the top bit.
    pub entries: Vec<u32>,
}

impl Plan {
    /// Makes a plan of scalars in Montgomery form. Buckets are partitioned by the upper `bin_bits`
    /// of their number, `at_once` windows at a time.
    pub fn new(scalars: &[Limbs<8>], window_bits: u32, bin_bits: u32, at_once: u32) -> Self {
        Self::for_tables(scalars, 1, window_bits, bin_bits, at_once)
    }

    /// The same for bases with so many tables, each of the one before times 2^`shift_bits`.
    pub fn for_tables(
        scalars: &[Limbs<8>],
        tables: u32,
        window_bits: u32,
        bin_bits: u32,
        at_once: u32,
    ) -> Self {
        let num_windows = SCALAR_BITS.div_ceil(window_bits).div_ceil(tables);
        let len = scalars.len();
        let positions = tables as usize * len;
        let stride = positions.next_multiple_of(64);
        let mut offsets = vec![u32::MAX; num_windows as usize * ((1 << (window_bits - 1)) + 1)];
        let mut entries = vec![u32::MAX; num_windows as usize * stride];
        // SAFETY: reads `len` scalars; writes the table and `stride` words a window, as allocated.
        unsafe {
            twinlock_cuda_digits(
                window_bits,
                num_windows,
                bin_bits.min(window_bits - 1),
                positions as u32,
                stride as u64,
                tables,
                at_once.clamp(1, num_windows),
                scalars.as_ptr().cast(),
                offsets.as_mut_ptr(),
                entries.as_mut_ptr(),
            );
        }
        Self { window_bits, len, tables, stride, offsets, entries }
    }

    /// Windows.
    pub fn num_windows(&self) -> usize {
        SCALAR_BITS.div_ceil(self.window_bits).div_ceil(self.tables) as usize
    }

    /// Doublings from a table to the next.
    pub fn shift_bits(&self) -> u32 {
        self.window_bits * self.num_windows() as u32
    }

    /// Buckets of a window.
    pub fn num_buckets(&self) -> usize {
        1 << (self.window_bits - 1)
    }
}

/// Which base belongs to a scalar.
#[derive(Debug, Clone, Copy)]
pub enum BaseOf<'a> {
    /// Base i less this number.
    Offset(u32),
    /// Base `.0[i] - .1`.
    Indexed(&'a [u32], u32),
}

/// A group, for MSMs.
pub trait Msm: Copy {
    /// Affine points.
    type Affine;
    /// No point.
    const EMPTY: Self;

    /// Adds bases into an accumulator's buckets, on a device that keeps `resident` threads.
    fn accumulate(
        plan: &Plan,
        bases: &[Self::Affine],
        base_of: BaseOf<'_>,
        resident: u32,
        accumulator: &mut [Self],
    );

    /// Sums each window's buckets, `fan` at first: the words of Jacobian points.
    fn reduce(window_bits: u32, accumulator: &[Self], fan: u32) -> Vec<u32>;
}

macro_rules! msm {
    ($xyzz:literal, $affine:literal, $jacobian:literal, $accumulate:ident, $reduce:ident) => {
        unsafe extern "C" {
            fn $accumulate(
                offsets: *const u32,
                entries: *const u32,
                num_windows: u32,
                num_buckets: u32,
                len: u32,
                stride: u64,
                bases: *const c_void,
                indices: *const u32,
                base_first: u32,
                num_bases: u32,
                tables: u32,
                resident: u32,
                accumulator: *mut c_void,
            );
            fn $reduce(
                num_windows: u32,
                rows: u32,
                columns: u32,
                row_parts: u32,
                column_parts: u32,
                accumulator: *const c_void,
                windows: *mut c_void,
            );
        }

        impl Msm for Limbs<$xyzz> {
            type Affine = Limbs<$affine>;
            const EMPTY: Self = Limbs([0; $xyzz]);

            fn accumulate(
                plan: &Plan,
                bases: &[Self::Affine],
                base_of: BaseOf<'_>,
                resident: u32,
                accumulator: &mut [Self],
            ) {
                assert_eq!(accumulator.len(), plan.num_windows() * plan.num_buckets());
                let (first, indices) = match base_of {
                    BaseOf::Offset(leading) => (leading, std::ptr::null()),
                    BaseOf::Indexed(indices, first) => {
                        assert_eq!(indices.len(), plan.len);
                        (first, indices.as_ptr())
                    }
                };
                // SAFETY: reads a plan whose parts have these sizes, the bases, and an index for
                // each scalar; changes as many buckets as the plan has.
                unsafe {
                    $accumulate(
                        plan.offsets.as_ptr(),
                        plan.entries.as_ptr(),
                        plan.num_windows() as u32,
                        plan.num_buckets() as u32,
                        plan.tables * plan.len as u32,
                        plan.stride as u64,
                        bases.as_ptr().cast(),
                        indices,
                        first,
                        bases.len() as u32 / plan.tables,
                        plan.tables,
                        resident,
                        accumulator.as_mut_ptr().cast(),
                    );
                }
            }

            fn reduce(window_bits: u32, accumulator: &[Self], fan: u32) -> Vec<u32> {
                let lg = window_bits - 1;
                let num_windows = (accumulator.len() >> lg) as u32;
                assert_eq!(accumulator.len(), (num_windows as usize) << lg);
                let (rows, columns) = (1u32 << (lg - lg / 2), 1u32 << (lg / 2));
                let mut windows = vec![u32::MAX; $jacobian * num_windows as usize];
                // SAFETY: reads all buckets and writes the words of a point for each window.
                unsafe {
                    $reduce(
                        num_windows,
                        rows,
                        columns,
                        columns / columns.min(fan),
                        rows / rows.min(fan),
                        accumulator.as_ptr().cast(),
                        windows.as_mut_ptr().cast(),
                    );
                }
                windows
            }
        }
    };
}

msm!(48, 24, 36, twinlock_cuda_msm_accumulate_g1, twinlock_cuda_msm_reduce_g1);
msm!(96, 48, 72, twinlock_cuda_msm_accumulate_g2, twinlock_cuda_msm_reduce_g2);
