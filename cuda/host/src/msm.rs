//! Digit plans and MSMs, as the kernels make them, in workspaces as the host has them.
#![allow(unsafe_code)]

use std::ffi::c_void;

use twinlock_cuda_kernels::digits::Shape;
use twinlock_cuda_kernels::msm::{Heads, Lines, scratch_points};

use crate::field::Limbs;

unsafe extern "C" {
    fn twinlock_cuda_digits(
        window_bits: u32,
        num_windows: u32,
        bin_bits: u32,
        len: u32,
        stride: u64,
        tables: u32,
        grid: *const u32,
        scalars: *const c_void,
        offsets: *mut u32,
        entries: *mut u32,
        bin_counts: *mut u32,
        bin_starts: *mut u32,
        counts: *mut u32,
        records: *mut c_void,
    );
    fn twinlock_cuda_digits_ends(
        window_bits: u32,
        num_windows: u32,
        bin_bits: u32,
        len: u32,
        stride: u64,
        out: *mut u64,
    );
    fn twinlock_cuda_msm_runs(
        counts: *const u32,
        num_windows: u32,
        threads: u32,
        words: *mut u32,
    ) -> u32;
    fn twinlock_cuda_msm_part(
        num_parts_in: u32,
        levels_in: *const Lines,
        levels_out: *const Lines,
        window: u32,
        at: u32,
        found: *mut u64,
    );
}

/// Memory with a guard behind it.
#[derive(Debug)]
struct Guarded {
    quads: Vec<u128>,
    size_bytes: usize,
}

impl Guarded {
    const PATTERN: u8 = 0xa5;
    const GUARD_BYTES: usize = 4096;

    fn new(size_bytes: u64) -> Self {
        let size_bytes = size_bytes as usize;
        let quads = (size_bytes + Self::GUARD_BYTES).div_ceil(16);
        Self { quads: vec![u128::from_ne_bytes([Self::PATTERN; 16]); quads], size_bytes }
    }

    fn zeros(size_bytes: u64) -> Self {
        let mut memory = Self::new(size_bytes);
        memory.quads[..size_bytes as usize / 16].fill(0);
        memory
    }

    fn pointer<T>(&mut self, at_bytes: u64) -> *mut T {
        assert!(at_bytes as usize <= self.size_bytes);
        // SAFETY: not past the end.
        unsafe { self.quads.as_mut_ptr().cast::<u8>().add(at_bytes as usize).cast() }
    }

    /// Bytes from one place to another, as words.
    fn words(&self, from: u64, to: u64) -> Vec<u32> {
        let bytes = self.quads.iter().flat_map(|quad| quad.to_ne_bytes());
        let bytes: Vec<u8> = bytes.skip(from as usize).take((to - from) as usize).collect();
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    /// Panics if something has been written behind the end.
    fn check(&self, name: &str) {
        let bytes = self.quads.iter().flat_map(|quad| quad.to_ne_bytes());
        let written = bytes.skip(self.size_bytes).position(|byte| byte != Self::PATTERN);
        assert_eq!(written, None, "bytes behind {name}, of {} bytes", self.size_bytes);
    }
}

/// Scalars, as digits sorted by window and bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What follows from the plan's shape.
    pub shape: Shape,
    /// Scalars.
    pub len: usize,
    /// For each window, where each bucket starts among its entries, and their number.
    pub offsets: Vec<u32>,
    /// Indices of scalars, table by table, with the digit's sign in the top bit.
    pub entries: Vec<u32>,
}

impl Plan {
    /// Makes a plan of scalars in Montgomery form, as on a device of so many multiprocessors. Panics
    /// if a part of the plan or of the workspace is too small.
    pub fn of(shape: &Shape, scalars: &[Limbs<8>], sm_count: u32) -> Self {
        let positions = scalars.len() as u64 * u64::from(shape.tables);
        assert!(positions <= shape.max_entries);
        let positions = positions as u32;
        let [a, b, c, d] = shape.workspace_parts();
        let (mut bin_counts, mut bin_starts) = (Guarded::zeros(a), Guarded::new(b));
        let (mut counts, mut records) = (Guarded::zeros(c), Guarded::new(d));
        let mut plan = Guarded::new(shape.plan_bytes());
        let grid = [
            Shape::cut_blocks(scalars.len() as u32, sm_count),
            shape.cut_shared_bytes(),
            Shape::tiles(positions),
            shape.partition_shared_bytes(),
            shape.place_shared_bytes(),
            shape.at_once,
        ];
        // SAFETY: reads the scalars; what is written is behind the parts' ends at most if these are
        // wrong, which guards tell.
        unsafe {
            twinlock_cuda_digits(
                shape.window_bits,
                shape.num_windows,
                shape.bin_bits,
                positions,
                shape.stride,
                shape.tables,
                grid.as_ptr(),
                scalars.as_ptr().cast(),
                plan.pointer(0),
                plan.pointer(shape.entries_start()),
                bin_counts.pointer(0),
                bin_starts.pointer(0),
                counts.pointer(0),
                records.pointer(0),
            );
        }
        let parts = [&bin_counts, &bin_starts, &counts, &records, &plan];
        for (part, name) in
            parts.iter().zip(["bins", "starts of bins", "counts", "records", "plan"])
        {
            part.check(name);
        }
        let (offsets_bytes, start) = (shape.offsets_bytes(), shape.entries_start());
        let between = plan.words(offsets_bytes, start);
        let pattern = u32::from_ne_bytes([Guarded::PATTERN; 4]);
        assert!(between.iter().all(|word| *word == pattern), "words behind the offsets");
        let offsets = plan.words(0, offsets_bytes);
        let entries = plan.words(start, shape.plan_bytes());
        Self { shape: *shape, len: scalars.len(), offsets, entries }
    }

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
        let shape = Shape::new(window_bits, tables, scalars.len() as u64).expect("a shape");
        let bin_bits = bin_bits.min(window_bits - 1);
        let at_once = at_once.clamp(1, shape.num_windows);
        Self::of(&Shape { bin_bits, at_once, ..shape }, scalars, 1)
    }

    /// Windows.
    pub fn num_windows(&self) -> usize {
        self.shape.num_windows as usize
    }

    /// Doublings from a table to the next.
    pub fn shift_bits(&self) -> u32 {
        self.shape.window_bits * self.shape.num_windows
    }

    /// Buckets of a window.
    pub fn num_buckets(&self) -> usize {
        self.shape.num_buckets as usize
    }
}

/// Words, by the kernels' own addresses, up to the last bin and window of: counts of bins, starts of
/// bins, counts of buckets, and the plan's offsets.
pub fn digits_ends(shape: &Shape) -> [u64; 4] {
    let mut ends = [0; 4];
    // SAFETY: writes four numbers.
    unsafe {
        twinlock_cuda_digits_ends(
            shape.window_bits,
            shape.num_windows,
            shape.bin_bits,
            shape.max_entries as u32,
            shape.stride,
            ends.as_mut_ptr(),
        );
    }
    ends
}

/// How many runs a plan has whose windows have so many entries, by so many threads a wave.
pub fn msm_runs(counts: &[u32], threads: u32) -> u32 {
    let mut words = vec![0; counts.len() + 2];
    let num_windows = counts.len() as u32;
    // SAFETY: reads the counts; writes two words more than there are windows.
    unsafe { twinlock_cuda_msm_runs(counts.as_ptr(), num_windows, threads, words.as_mut_ptr()) }
}

/// What number `at` of a window's partial sums is of: the numbers of the first and the last point
/// that it reads, of buckets without `from`, and the place within the window that it writes.
pub fn msm_part(from: Option<&Lines>, to: &Lines, window: u32, at: u32) -> [u64; 3] {
    let mut found = [0; 3];
    let parts = from.map_or(0, |from| from.row_parts);
    // SAFETY: reads one of each; writes three numbers.
    unsafe {
        twinlock_cuda_msm_part(parts, from.unwrap_or(to), to, window, at, found.as_mut_ptr())
    };
    found
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

    /// Adds bases into an accumulator's buckets, on a device that has `threads` for a wave. Panics if
    /// a part of the workspace is too small.
    fn accumulate(
        plan: &Plan,
        bases: &[Self::Affine],
        base_of: BaseOf<'_>,
        threads: u32,
        accumulator: &mut [Self],
    );

    /// Sums each window's buckets level by level: the words of Jacobian points. `few` threads weigh
    /// them, so that each has several, or as many as on a device. Panics if the workspace is too
    /// small.
    fn reduce(levels: &[Lines], accumulator: &[Self], few: bool) -> Vec<u32>;
}

/// `HeadsWork` of `msm.cpp`.
#[repr(C)]
struct HeadsWork {
    threads_of_wave: u32,
    max_runs: u32,
    num_folds: u32,
    folds: *const [u32; 4],
    runs: *mut u32,
    keys: *mut u32,
    heads: *mut c_void,
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
                accumulator: *mut c_void,
                work: *const HeadsWork,
            );
            fn $reduce(
                levels: *const Lines,
                num_levels: u32,
                num_windows: u32,
                few: u32,
                accumulator: *const c_void,
                scratch: *mut c_void,
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
                threads: u32,
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
                let shape = &plan.shape;
                let len = shape.tables * plan.len as u32;
                let heads = Heads::new(threads.into(), shape, len.into());
                let sizes = heads.workspace_parts(shape, size_of::<Self>() as u64);
                let [mut runs, mut keys, mut points] = sizes.map(Guarded::new);
                let folds: Vec<[u32; 4]> = (heads.folds().iter())
                    .map(|fold| {
                        let [runs_in, in_first, out_first] =
                            [fold.runs_in, fold.in_first, fold.out_first].map(|n| n as u32);
                        [runs_in, fold.run_len, in_first, out_first]
                    })
                    .collect();
                let work = HeadsWork {
                    threads_of_wave: threads,
                    max_runs: heads.max_runs() as u32,
                    num_folds: folds.len() as u32,
                    folds: folds.as_ptr(),
                    runs: runs.pointer(0),
                    keys: keys.pointer(0),
                    heads: points.pointer(0),
                };
                // SAFETY: reads a plan whose parts have these sizes, the bases, and an index for
                // each scalar; changes as many buckets as the plan has, and a workspace that is
                // guarded.
                unsafe {
                    $accumulate(
                        plan.offsets.as_ptr(),
                        plan.entries.as_ptr(),
                        shape.num_windows,
                        shape.num_buckets,
                        len,
                        shape.stride,
                        bases.as_ptr().cast(),
                        indices,
                        first,
                        bases.len() as u32 / shape.tables,
                        shape.tables,
                        accumulator.as_mut_ptr().cast(),
                        &raw const work,
                    );
                }
                for (part, name) in [(runs, "runs"), (keys, "keys"), (points, "heads")] {
                    part.check(name);
                }
            }

            fn reduce(levels: &[Lines], accumulator: &[Self], few: bool) -> Vec<u32> {
                let num_buckets = (levels[0].rows * levels[0].columns) as usize;
                let num_windows = (accumulator.len() / num_buckets) as u32;
                assert_eq!(accumulator.len(), num_windows as usize * num_buckets);
                let points = u64::from(num_windows) * scratch_points(levels);
                let mut scratch = Guarded::new(points * size_of::<Self>() as u64);
                let mut windows = vec![u32::MAX; $jacobian * num_windows as usize];
                // SAFETY: reads all buckets and writes the words of a point for each window, and a
                // workspace that is guarded.
                unsafe {
                    $reduce(
                        levels.as_ptr(),
                        levels.len() as u32,
                        num_windows,
                        few.into(),
                        accumulator.as_ptr().cast(),
                        scratch.pointer(0),
                        windows.as_mut_ptr().cast(),
                    );
                }
                scratch.check("the scratch of a reduction");
                windows
            }
        }
    };
}

msm!(48, 24, 36, twinlock_cuda_msm_accumulate_g1, twinlock_cuda_msm_reduce_g1);
msm!(96, 48, 72, twinlock_cuda_msm_accumulate_g2, twinlock_cuda_msm_reduce_g2);
