//! Dispatches of the `digits` operation, and how a plan is laid out.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES, INDEX_BYTES, SCALAR_BITS};
use twinlock_api::op::{Digits, DigitsLayout, DigitsShape};
use twinlock_api::{Error, Group, Result, View};
use twinlock_shaders::kernels::digits;

use crate::gpu::Gpu;
use crate::launcher::Launcher;
use crate::steps::pieces;

/// Widths of a window.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 2..=20;
/// The most scalars: an entry keeps an index in 31 bits.
const MAX_LEN: u64 = 1 << 31;

/// What follows from a plan's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) window_bits: u32,
    pub(super) num_windows: u32,
    /// Buckets of a window: one for each magnitude of a digit but zero.
    pub(super) num_buckets: u32,
    pub(super) max_len: u64,
    /// Room for a window's entries, in words.
    pub(super) stride: u64,
}

impl Shape {
    pub(super) fn new(shape: DigitsShape) -> Result<Self> {
        let window_bits = shape.window_bits;
        if !WINDOW_BITS.contains(&window_bits) {
            return Err(Error::Unsupported(format!(
                "windows of {window_bits} bits; {WINDOW_BITS:?} on the WGSL backend"
            )));
        }
        if shape.tables != 1 {
            return Err(Error::Unsupported(format!(
                "{} tables of bases on the WGSL backend, only 1",
                shape.tables
            )));
        }
        check_limit("scalars of a digit plan", shape.max_len, MAX_LEN)?;
        Ok(Self {
            window_bits,
            // A magnitude is below 2^254, and the bit above it takes the last digit's sign.
            num_windows: SCALAR_BITS.div_ceil(window_bits),
            num_buckets: 1 << (window_bits - 1),
            max_len: shape.max_len,
            stride: shape.max_len.next_multiple_of(ARENA_ALIGN_BYTES / INDEX_BYTES),
        })
    }

    /// Buckets of all windows.
    fn all_buckets(&self) -> u64 {
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

    fn plan_bytes(&self) -> u64 {
        self.entries_start() + u64::from(self.num_windows) * self.stride * INDEX_BYTES
    }

    fn counts_bytes(&self) -> u64 {
        self.all_buckets() * INDEX_BYTES
    }

    /// The plan's offsets.
    pub(super) fn offsets(&self, plan: View) -> Result<View> {
        plan.slice(0, self.offsets_bytes())
    }

    /// The entries of `windows` windows from `first`.
    pub(super) fn entries(&self, plan: View, first: u32, windows: u32) -> Result<View> {
        let window_bytes = self.stride * INDEX_BYTES;
        plan.slice(
            self.entries_start() + u64::from(first) * window_bytes,
            u64::from(windows) * window_bytes,
        )
    }
}

/// Workgroups of `width` threads for `threads` threads, over x and y.
pub(super) fn grid(launcher: &Launcher<'_>, threads: u64, width: u32) -> Result<[u32; 3]> {
    let most = u64::from(launcher.limits().max_compute_workgroups_per_dimension).max(1);
    let groups = threads.div_ceil(u64::from(width));
    let rows = groups.div_ceil(most).max(1);
    check_limit("threads of a dispatch", threads, u32::MAX.into())?;
    check_limit("workgroups of a dispatch", groups, most.saturating_mul(most))?;
    // Both are within `most`, a u32.
    Ok([groups.div_ceil(rows) as u32, rows as u32, 1])
}

pub(crate) fn layout(gpu: &Gpu, shape: DigitsShape) -> Result<DigitsLayout> {
    let sizes = Shape::new(shape)?;
    // One plan serves both groups, and buckets of either have to fit.
    let (buckets_bytes, limit) = (sizes.buckets_bytes(Group::G2), gpu.info.max_region_bytes);
    if buckets_bytes > limit {
        return Err(Error::Unsupported(format!(
            "windows of {} bits: G2's buckets take {buckets_bytes} bytes, a region has {limit}",
            shape.window_bits
        )));
    }
    check_limit("a digit plan (bytes)", sizes.plan_bytes(), gpu.info.max_region_bytes)?;
    Ok(DigitsLayout {
        shape,
        plan_bytes: sizes.plan_bytes(),
        workspace_bytes: sizes.counts_bytes(),
    })
}

pub(crate) fn encode(launcher: &mut Launcher<'_>, op: &Digits) -> Result<()> {
    let shape = Shape::new(op.shape())?;
    let Shape { window_bits, num_windows, num_buckets, .. } = shape;
    let len = op.scalars().len_bytes() / FR_BYTES;
    let counts = launcher.view(op.workspace().slice(0, shape.counts_bytes())?)?;
    let offsets = launcher.view(shape.offsets(op.plan())?)?;
    let entries = launcher.view(shape.entries(op.plan(), 0, num_windows)?)?;
    let step = launcher.steps().scalars;
    let chunks = || {
        pieces(len, step).map(|(first, chunk_len)| {
            op.scalars()
                .slice(first * FR_BYTES, chunk_len * FR_BYTES)
                .map(|view| (first, chunk_len, view))
        })
    };

    launcher.fill(&counts, 0)?;
    for chunk in chunks() {
        let (_, chunk_len, scalars) = chunk?;
        let groups = grid(launcher, chunk_len, digits::THREADS)?;
        let views = [launcher.view(scalars)?, counts.clone()];
        let params = [chunk_len as u32, window_bits, num_windows];
        launcher.dispatch(&digits::COUNT, &views, &params, groups)?;
    }
    let views = [counts.clone(), offsets];
    launcher.dispatch(&digits::STARTS, &views, &[num_windows, num_buckets], [num_windows, 1, 1])?;
    for chunk in chunks() {
        let (first, chunk_len, scalars) = chunk?;
        let groups = grid(launcher, chunk_len, digits::THREADS)?;
        let views = [launcher.view(scalars)?, counts.clone(), entries.clone()];
        let params = [
            chunk_len as u32,
            window_bits,
            num_windows,
            word("scalars of a digit plan", first)?,
            0,
            num_windows,
            word("entries of a window", shape.stride)?,
        ];
        launcher.dispatch(&digits::PLACE, &views, &params, groups)?;
    }
    Ok(())
}
