//! From a window's buckets to its sum, and from the windows' sums to the result.

use super::batch::RunSums;
use super::shape::Shape;
use crate::error::{KernelError, expect_len};
use crate::field::{Affine, Coordinate, Jacobian};
use crate::workspace::{carve, carved_bytes, run_units};
use rayon::prelude::*;

/// A window's buckets as a table: bucket b lies in row b >> column_bits.
#[derive(Clone, Copy)]
struct Table {
    row_bits: u32,
    column_bits: u32,
}

impl Table {
    fn new(shape: &Shape) -> Self {
        let bits = shape.window_bits() - 1;
        Self { row_bits: bits / 2, column_bits: bits - bits / 2 }
    }

    fn num_rows(self) -> usize {
        1 << self.row_bits
    }

    fn num_columns(self) -> usize {
        1 << self.column_bits
    }
}

/// Bytes of workspace that [`reduce`] needs on `threads` threads.
pub fn reduce_workspace_bytes<F: Coordinate>(shape: &Shape, threads: usize) -> usize {
    let table = Table::new(shape);
    let sums = shape.num_windows() * (table.num_rows() + table.num_columns());
    threads.max(1) * RunSums::<F>::scratch_bytes() + carved_bytes::<Affine<F>>(sums)
}

/// Some rows or columns of one window.
struct Piece<'a, F> {
    buckets: &'a [Affine<F>],
    /// The first row or column.
    start: usize,
    by_row: bool,
    sums: &'a mut [Affine<F>],
}

/// Sums each window's buckets by weight: window w becomes sum over b of (b + 1) B_(w,b), as a
/// Jacobian point with z = 1, or the identity with all zeros, so that equal inputs give equal
/// bytes. `buckets` is left as it is.
///
/// With b = row * columns + column, the sum is that of (column + 1) times the column's sum and
/// of columns * row times the row's sum. So all but a few of the additions go to sums of rows and of
/// columns, which are batched affine additions as in `accumulate`.
pub fn reduce<F: Coordinate>(
    shape: &Shape,
    buckets: &[Affine<F>],
    windows: &mut [Jacobian<F>],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    expect_len("buckets", buckets.len(), shape.num_accumulators())?;
    expect_len("windows", windows.len(), shape.num_windows())?;
    let threads = rayon::current_num_threads();
    let table = Table::new(shape);
    let what = "workspace bytes";
    let mut workspace = workspace;
    let mut scratch = Vec::with_capacity(threads);
    for _ in 0..threads {
        let bytes = carve::<u8>(what, &mut workspace, RunSums::<F>::scratch_bytes())?;
        scratch.push(RunSums::<F>::new(bytes)?);
    }
    let per_window = table.num_rows() + table.num_columns();
    let sums: &mut [Affine<F>] = carve(what, &mut workspace, shape.num_windows() * per_window)?;
    sums.fill(Affine::IDENTITY);

    // With fewer windows than threads want, rows and columns are split.
    let splits = (4 * threads).div_ceil(shape.num_windows()).min(table.num_rows());
    let pieces =
        buckets.chunks(shape.num_buckets()).zip(sums.chunks_mut(per_window)).flat_map(
            |(buckets, sums)| {
                let (rows, columns) = sums.split_at_mut(table.num_rows());
                let (row_step, column_step) =
                    (rows.len().div_ceil(splits), columns.len().div_ceil(splits));
                let rows = rows.chunks_mut(row_step).enumerate().map(move |(i, sums)| Piece {
                    buckets,
                    start: i * row_step,
                    by_row: true,
                    sums,
                });
                let columns = columns.chunks_mut(column_step).enumerate().map(move |(i, sums)| {
                    Piece { buckets, start: i * column_step, by_row: false, sums }
                });
                rows.chain(columns)
            },
        );
    run_units(scratch.iter_mut(), pieces, |sums, piece| sum_lines(sums, table, piece));

    windows.par_iter_mut().zip(sums.par_chunks(per_window)).for_each(|(window, sums)| {
        let (rows, columns) = sums.split_at(table.num_rows());
        let mut sum = weigh(rows, 0);
        for _ in 0..table.column_bits {
            sum = F::jacobian_double(&sum);
        }
        *window = F::jacobian_add(&sum, &weigh(columns, 1)).to_affine().into();
    });
    Ok(())
}

/// Sums the rows or columns of a piece.
fn sum_lines<F: Coordinate>(run_sums: &mut RunSums<'_, F>, table: Table, piece: Piece<'_, F>) {
    let Piece { buckets, start, by_row, sums } = piece;
    let (line_len, line_stride, step) = if by_row {
        (table.num_columns(), table.num_columns(), 1)
    } else {
        (table.num_rows(), 1, table.num_columns())
    };
    for line in 0..sums.len() {
        for i in 0..line_len {
            let point = &buckets[(start + line) * line_stride + i * step];
            if point.is_identity() {
                continue;
            }
            if run_sums.is_full() {
                run_sums.flush(sums);
            }
            run_sums.push(line as u32, point, false);
        }
    }
    run_sums.flush(sums);
}

/// Sum of (i + first) times the i-th point, by a running sum.
fn weigh<F: Coordinate>(points: &[Affine<F>], first: usize) -> Jacobian<F> {
    let (mut running, mut sum) = (Jacobian::IDENTITY, Jacobian::IDENTITY);
    for (i, point) in points.iter().enumerate().rev() {
        if !point.is_identity() {
            running = F::jacobian_add(&running, &Jacobian::from(*point));
        }
        if i + first > 0 {
            sum = F::jacobian_add(&sum, &running);
        }
    }
    sum
}

/// Sum over w of 2^(window_bits w) windows\[w\]: the MSM's result.
pub fn combine<F: Coordinate>(windows: &[Jacobian<F>], window_bits: u32) -> Jacobian<F> {
    let mut sum = Jacobian::IDENTITY;
    for window in windows.iter().rev() {
        for _ in 0..window_bits {
            sum = F::jacobian_double(&sum);
        }
        sum = F::jacobian_add(&sum, window);
    }
    sum
}
