//! Launches of the `digits` operation; `twinlock_cuda_kernels::digits` says how a plan is laid out.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES};
use twinlock_api::op::{Digits, DigitsLayout, DigitsShape};
use twinlock_api::{Error, Group, Result, View};
use twinlock_cuda_kernels::digits::{ALIGN_BYTES, MAX_ENTRIES, num_digits};
pub(super) use twinlock_cuda_kernels::digits::{Shape, WINDOW_BITS};
use twinlock_cuda_kernels::sizes::digits::{CUT_THREADS, SCAN_THREADS, SORT_THREADS};

use crate::card::Card;
use crate::launcher::{Arg, Launcher};

const _: () = assert!(ALIGN_BYTES == ARENA_ALIGN_BYTES, "parts of a plan begin where views may");

/// What follows from a plan's shape, or why there is no such plan.
pub(super) fn shape(shape: DigitsShape) -> Result<Shape> {
    let DigitsShape { window_bits, tables, max_len } = shape;
    if !WINDOW_BITS.contains(&window_bits) {
        return Err(Error::Unsupported(format!(
            "windows of {window_bits} bits; {WINDOW_BITS:?} on the CUDA backend"
        )));
    }
    let num_digits = num_digits(window_bits);
    let no_tables =
        || Error::Unsupported(format!("{tables} tables of bases for {num_digits} digits"));
    if !(1..=num_digits).contains(&tables) {
        return Err(no_tables());
    }
    check_limit("digits of a window", max_len.saturating_mul(tables.into()), MAX_ENTRIES)?;
    Shape::new(window_bits, tables, max_len).ok_or_else(no_tables)
}

/// Bytes of the buckets of all windows, as X, Y, ZZ, ZZZ.
pub(super) fn buckets_bytes(shape: &Shape, group: Group) -> u64 {
    shape.all_buckets() * 2 * group.affine_bytes()
}

/// The plan's offsets.
pub(super) fn offsets(shape: &Shape, plan: View) -> Result<View> {
    plan.slice(0, shape.offsets_bytes())
}

/// The plan's entries.
pub(super) fn entries(shape: &Shape, plan: View) -> Result<View> {
    plan.slice(shape.entries_start(), shape.entries_bytes())
}

fn workspace(shape: &Shape, view: View) -> Result<[View; 4]> {
    let [a, b, c, d] = shape.workspace_parts();
    Ok([view.slice(0, a)?, view.slice(a, b)?, view.slice(a + b, c)?, view.slice(a + b + c, d)?])
}

/// Blocks of `threads` for `items`, one a thread.
pub(super) fn blocks(what: &str, items: u64, threads: u32) -> Result<u32> {
    word(what, items.div_ceil(threads.into()))
}

pub(crate) fn layout(card: &Card, shape: DigitsShape) -> Result<DigitsLayout> {
    let sizes = self::shape(shape)?;
    let workspace_bytes = sizes.workspace_parts().iter().sum();
    check_limit("a digit plan (bytes)", sizes.plan_bytes(), card.memory_bytes)?;
    check_limit("scratch of digits (bytes)", workspace_bytes, card.memory_bytes)?;
    Ok(DigitsLayout { shape, plan_bytes: sizes.plan_bytes(), workspace_bytes })
}

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &Digits) -> Result<()> {
    let shape = shape(op.shape())?;
    let num_scalars = word("scalars of a digit plan", op.scalars().len_bytes() / FR_BYTES)?;
    let len = num_scalars.saturating_mul(shape.tables);
    let [bin_counts, bin_starts, counts, records] = workspace(&shape, op.workspace())?;
    launcher.fill(bin_counts, 0)?;
    launcher.fill(counts, 0)?;

    let pointer = |view: View| launcher.pointer(view).map(Arg::Pointer);
    let scalars = pointer(op.scalars())?;
    let offsets = pointer(offsets(&shape, op.plan())?)?;
    let entries = pointer(entries(&shape, op.plan())?)?;
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

    let cut_blocks = Shape::cut_blocks(num_scalars, sm_count);
    let own = [Arg::U32(shape.tables), scalars, digits, bin_counts];
    launch("digits_cut", [cut_blocks, 1], CUT_THREADS, shape.cut_shared_bytes(), &own)?;
    if shape.bin_bits != 0 {
        let own = [bin_counts, bin_starts];
        launch("digits_bin_starts", [shape.num_windows, 1], SCAN_THREADS, 0, &own)?;
    }
    let tiles = Shape::tiles(len);
    for (first, windows) in shape.rounds() {
        let first = Arg::U32(first);
        if shape.bin_bits != 0 {
            let own = [first, digits, bin_counts, records];
            let shared_bytes = shape.partition_shared_bytes();
            launch("digits_partition", [tiles, windows], SORT_THREADS, shared_bytes, &own)?;
        }
        let own = [first, records, bin_starts, counts];
        launch("digits_count", [tiles, windows], SORT_THREADS, 0, &own)?;
        let own = [first, bin_starts, counts, offsets];
        launch("digits_starts", [shape.num_bins(), windows], SCAN_THREADS, 0, &own)?;
        let own = [first, records, bin_starts, counts, entries];
        let shared_bytes = shape.place_shared_bytes();
        launch("digits_place", [tiles, windows], SORT_THREADS, shared_bytes, &own)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlock_api::layout::SCALAR_BITS;

    #[test]
    fn shapes_out_of_range_are_told() {
        for window_bits in WINDOW_BITS {
            for (tables, is_ok) in [(1, true), (2, false)] {
                let most = DigitsShape::new(MAX_ENTRIES, window_bits).with_tables(tables);
                assert_eq!(shape(most).is_ok(), is_ok, "{tables} tables");
            }
            assert!(matches!(
                shape(DigitsShape::new(MAX_ENTRIES + 1, window_bits)),
                Err(Error::ExceedsLimit { .. })
            ));
            let digits = SCALAR_BITS.div_ceil(window_bits);
            for (tables, is_ok) in [(0, false), (digits, true), (digits + 1, false)] {
                let plan = DigitsShape::new(5, window_bits).with_tables(tables);
                assert_eq!(shape(plan).is_ok(), is_ok, "{tables} tables");
            }
        }
        for window_bits in [0, 1, 23, u32::MAX] {
            assert!(shape(DigitsShape::new(1, window_bits)).is_err());
        }
    }

    #[test]
    fn a_workspace_holds_its_parts() {
        let card = Card::h200();
        let layout = layout(&card, DigitsShape::new(1 << 20, 16));
        let layout = layout.expect("a layout");
        let shape = shape(layout.shape).expect("a shape");
        assert_eq!(layout.workspace_bytes, shape.workspace_parts().iter().sum::<u64>());
        assert!(super::layout(&card, DigitsShape::new(1 << 31, 2)).is_err());
    }
}
