//! Number-theoretic transforms over Fr, of any order in and out, on a coset if asked.
//!
//! Two networks of butterflies turn the order round: one takes natural order to bit-reversed, the
//! other the reverse. Forward transforms multiply before the butterfly (Cooley-Tukey), inverse
//! ones after it (Gentleman-Sande). In each of the four pairings the powers of the coset's generator can
//! be put into the twiddles, so that scaling by them costs nothing; 1/n goes into the last stage.
//!
//! | input | direction | twiddle depends on | stages go |
//! |---|---|---|---|
//! | natural | forward | block | from wide to narrow |
//! | natural | inverse | position in the block | from wide to narrow |
//! | bit-reversed | forward | position in the block | from narrow to wide |
//! | bit-reversed | inverse | block | from narrow to wide |
//!
//! Seen as a matrix of 2^lg_columns rows, the wide stages stay within a column and the narrow ones within
//! a row; each column and row is transformed while it lies in a core's cache. The twiddles of a
//! line are those of one small table (`table`) times powers of a number that belongs to the line.

mod butterflies;
mod reverse;
mod table;

use crate::error::{KernelError, expect_len, expect_range};
use crate::field::Fr;
use crate::scatter::Scatter;
use crate::workspace::{carve, carved_bytes, run_units};
use butterflies::Kernel;

pub(crate) use reverse::reverse_order;

/// Order of a vector's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Element i at place i.
    Natural,
    /// Element i at the place whose lg bits are those of i, reversed.
    BitReversed,
}

/// Direction of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Coefficients to values.
    Forward,
    /// Values to coefficients, 1/n included.
    Inverse,
}

/// Which transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    /// Forward or inverse.
    pub direction: Direction,
    /// Whether values are taken at `7 w^i` rather than at `w^i`.
    pub coset: bool,
    /// Order of the input.
    pub input: Order,
    /// Order of the output.
    pub output: Order,
}

/// The largest lg of a transform: the field has no root of unity of a higher order.
pub const MAX_LG: u32 = 32;

/// The coset's generator, `Scalar::MULTIPLICATIVE_GENERATOR` in ff's terms.
pub const COSET_GENERATOR: u64 = 7;

/// Transforms up to this lg are done as one row.
const MAX_SINGLE_ROW_LG: u32 = 9;

/// How the vector is laid out as a matrix, and how much of it a thread works on at a time.
#[derive(Clone, Copy)]
struct Split {
    lg: u32,
    /// lg of a column's length, the number of rows.
    lg_column: u32,
    /// lg of a row's length.
    lg_row: u32,
    /// How many columns are transformed together, for whole cache lines.
    lg_group: u32,
}

impl Split {
    fn new(lg: u32) -> Self {
        let lg_column = if lg <= MAX_SINGLE_ROW_LG { 0 } else { lg / 2 };
        let lg_row = lg - lg_column;
        let lg_group = 13u32.saturating_sub(lg_column).clamp(1, 3).min(lg_row);
        Self { lg, lg_column, lg_row, lg_group }
    }

    fn table_len(self) -> usize {
        1 << self.lg_row.max(self.lg_column)
    }

    fn group_len(self) -> usize {
        if self.lg_column == 0 { 0 } else { 1 << (self.lg_column + self.lg_group) }
    }
}

/// Bytes of workspace that a transform of 2^lg elements needs on `threads` threads: of the order of
/// the root of the vector's size.
pub fn workspace_bytes(lg: u32, threads: usize) -> Result<usize, KernelError> {
    expect_range("lg of the transform", lg.into(), 0, MAX_LG.into())?;
    let split = Split::new(lg);
    let table = carved_bytes::<Fr>(split.table_len());
    Ok(3 * table + threads.max(1) * (table + carved_bytes::<Fr>(split.group_len())))
}

/// What a thread works with: room for twiddles, room for a group of columns.
struct Scratch<'a> {
    twiddles: &'a mut [Fr],
    group: &'a mut [Fr],
}

/// Twiddles of all columns or of all rows.
struct Twiddles<'a> {
    /// The table without factors.
    base: &'a [Fr],
    lines: Lines<'a>,
}

/// How one line's twiddles differ from another's.
#[derive(Clone, Copy)]
enum Lines<'a> {
    /// Not at all.
    Alike(&'a [Fr]),
    /// By powers of `factors[i]` for line i.
    Each(&'a [Fr]),
    /// By powers of `factors[rev(i)]` for line i, where rev reverses so many bits.
    EachReversed(&'a [Fr], u32),
}

impl Twiddles<'_> {
    /// The twiddles of line `i`, of length `2^lg`, in `room` if they have to be worked out.
    fn of_line<'t>(&'t self, i: usize, lg: u32, room: &'t mut [Fr]) -> &'t [Fr] {
        let factor = match self.lines {
            Lines::Alike(table) => return table,
            Lines::Each(factors) => factors[i],
            Lines::EachReversed(factors, bits) => factors[reverse::reverse_bits(i, bits)],
        };
        if factor == Fr::ONE {
            return self.base;
        }
        table::scale(self.base, lg, &factor, room);
        room
    }
}

/// Transforms `values`, 2^lg elements in Montgomery form, in place.
///
/// Forward: `X_i = sum_j x_j (g w^i)^j` with w the field's `ROOT_OF_UNITY` to the power
/// `2^(32 - lg)`, and g = 7 on the coset, 1 otherwise. Inverse: the reverse. `workspace` has
/// `workspace_bytes` for rayon's current number of threads.
///
/// # Errors
/// A length other than 2^lg, an lg past [`MAX_LG`], a workspace too short.
pub fn ntt(
    transform: Transform,
    lg: u32,
    values: &mut [Fr],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    expect_range("lg of the transform", lg.into(), 0, MAX_LG.into())?;
    expect_len("values", values.len(), 1 << lg)?;
    let Transform { direction, coset, input, output } = transform;
    let split = Split::new(lg);
    let threads = rayon::current_num_threads();

    let what = "workspace bytes";
    let mut workspace = workspace;
    let base: &mut [Fr] = carve(what, &mut workspace, split.table_len())?;
    let shared: &mut [Fr] = carve(what, &mut workspace, split.table_len())?;
    let factors: &mut [Fr] = carve(what, &mut workspace, split.table_len())?;
    let mut scratch = Vec::with_capacity(threads);
    for _ in 0..threads {
        scratch.push(Scratch {
            twiddles: carve(what, &mut workspace, split.table_len())?,
            group: carve(what, &mut workspace, split.group_len())?,
        });
    }

    // Inverse transforms have the same twiddles, inverted.
    let invert = |x: Fr| if direction == Direction::Inverse { x.invert() } else { x };
    let root = |lg| Fr::root_of_unity(lg).map(invert).unwrap_or(Fr::ONE);
    let generator = if coset { invert(Fr::from_u64(COSET_GENERATOR)) } else { Fr::ONE };
    let by_block = (input == Order::Natural) == (direction == Direction::Forward);
    table::fill(base, root, by_block);
    table::powers(factors, &generator, &root(lg));
    // Where lines are alike, only the coset's generator makes a factor: columns have its power of
    // the number of columns (the length of a row), rows that of the number of rows.
    let (lg_alike, exponent) = if by_block && split.lg_column > 0 {
        (split.lg_column, 1u64 << split.lg_row)
    } else {
        (split.lg_row, 1u64 << split.lg_column)
    };
    let alike = if coset {
        table::scale(base, lg_alike, &generator.pow(exponent), shared);
        &*shared
    } else {
        &*base
    };
    let (base, factors) = (&*base, &*factors);
    let (columns, rows) = match (by_block, split.lg_column) {
        (_, 0) => (Lines::Alike(alike), Lines::Alike(alike)),
        (true, bits) => (Lines::Alike(alike), Lines::EachReversed(factors, bits)),
        (false, _) => (Lines::Each(factors), Lines::Alike(alike)),
    };
    let columns = Twiddles { base, lines: columns };
    let rows = Twiddles { base, lines: rows };
    let kernel = |last: bool| {
        let scale = last && direction == Direction::Inverse && lg > 0;
        Kernel::new(direction, by_block, scale.then(|| Fr::from_u64(1 << lg).invert()))
    };

    if input == Order::Natural {
        transform_columns(kernel(false), split, values, &columns, &mut scratch);
        transform_rows(kernel(true), split, values, &rows, &mut scratch);
    } else {
        transform_rows(kernel(split.lg_column == 0), split, values, &rows, &mut scratch);
        transform_columns(kernel(true), split, values, &columns, &mut scratch);
    }
    if input == output {
        reverse_order(values);
    }
    Ok(())
}

fn transform_rows(
    kernel: Kernel,
    split: Split,
    values: &mut [Fr],
    twiddles: &Twiddles<'_>,
    scratch: &mut [Scratch<'_>],
) {
    let rows = values.chunks_mut(1 << split.lg_row).enumerate();
    run_units(scratch.iter_mut(), rows, |scratch, (i, row)| {
        kernel.run(row, twiddles.of_line(i, split.lg_row, scratch.twiddles));
    });
}

fn transform_columns(
    kernel: Kernel,
    split: Split,
    values: &mut [Fr],
    twiddles: &Twiddles<'_>,
    scratch: &mut [Scratch<'_>],
) {
    if split.lg_column == 0 {
        return;
    }
    let Split { lg, lg_column, lg_row, lg_group } = split;
    debug_assert_eq!(lg, lg_column + lg_row);
    let (num_rows, group_len) = (1usize << lg_column, 1usize << lg_group);
    let cells = Scatter::new(values);
    let groups = 0..1usize << (lg_row - lg_group);
    run_units(scratch.iter_mut(), groups, |scratch, group| {
        let first = group << lg_group;
        // Each column of the group is brought together, so that it can be worked on as a row.
        for row in 0..num_rows {
            for i in 0..group_len {
                // SAFETY: a group's columns are this unit's alone.
                #[allow(unsafe_code)]
                let cell = unsafe { cells.read((row << lg_row) + first + i) };
                scratch.group[(i << lg_column) + row] = cell.unwrap_or_default();
            }
        }
        for (i, column) in scratch.group.chunks_mut(num_rows).enumerate() {
            kernel.run(column, twiddles.of_line(first + i, lg_column, scratch.twiddles));
        }
        for row in 0..num_rows {
            for i in 0..group_len {
                // SAFETY: as above.
                #[allow(unsafe_code)]
                unsafe {
                    cells.write((row << lg_row) + first + i, scratch.group[(i << lg_column) + row]);
                }
            }
        }
    });
}
