//! Adds bases to their buckets.

use super::batch::{RunSums, Sums};
use super::digits::{NEGATIVE, Plan};
use super::shape::Shape;
use crate::error::{KernelError, expect_len};
use crate::field::{Affine, Coordinate};
use crate::prefetch::prefetch;
use crate::workspace::{carve, carved_bytes, run_units};

/// Which base a scalar goes with.
#[derive(Clone, Copy, Debug)]
pub enum BaseMap<'a> {
    /// The first so many scalars have none; the others follow in order.
    Skip(usize),
    /// Base `indices[i] - first`; none where `indices[i]` is `u32::MAX` or there is no such base.
    Index {
        /// One index a scalar.
        indices: &'a [u32],
        /// The index of the first base at hand.
        first: u32,
    },
}

impl BaseMap<'_> {
    /// The base's index, if there is one.
    #[inline(always)]
    fn base(&self, scalar: usize, num_bases: usize) -> Option<usize> {
        let at = match self {
            Self::Skip(skip) => scalar.checked_sub(*skip)?,
            Self::Index { indices, first } => match *indices.get(scalar)? {
                u32::MAX => return None,
                index => index.checked_sub(*first)? as usize,
            },
        };
        (at < num_bases).then_some(at)
    }

    fn check(&self, num_scalars: usize, num_bases: usize) -> Result<(), KernelError> {
        match self {
            Self::Skip(skip) => expect_len("bases", num_bases, num_scalars.saturating_sub(*skip)),
            Self::Index { indices, .. } => expect_len("base map", indices.len(), num_scalars),
        }
    }
}

/// How many pieces a thread gets, so that the last ones to finish finish about together.
const PIECES_PER_THREAD: usize = 16;
/// How far ahead of the copy bases are fetched.
const PREFETCH_DISTANCE: usize = 8;

/// The most pieces that the windows are cut into.
fn max_pieces(shape: &Shape, threads: usize) -> usize {
    shape.num_windows() + PIECES_PER_THREAD * threads
}

/// Bytes of workspace that [`accumulate`] needs on `threads` threads.
pub fn accumulate_workspace_bytes<F: Coordinate>(shape: &Shape, threads: usize) -> usize {
    threads.max(1) * RunSums::<F>::scratch_bytes()
        + carved_bytes::<[Affine<F>; 2]>(max_pieces(shape, threads.max(1)))
}

/// A stretch of one window's entries.
struct Piece<'a, F> {
    /// The window's offsets.
    offsets: &'a [u32],
    /// The stretch, which starts at this position of the window's entries.
    entries: &'a [u32],
    start: usize,
    /// Buckets of the first and last entry; neighbouring pieces may add to these too.
    first: usize,
    last: usize,
    /// Sums of the buckets between, which are this piece's own.
    inner: &'a mut [Affine<F>],
    /// Sums of the first and the last.
    edges: &'a mut [Affine<F>; 2],
}

/// Where the plan does not hang together, because the buffer was not filled by `digits` for this
/// shape.
const BROKEN_PLAN: KernelError = KernelError::Layout { what: "plan" };

/// Adds, for each entry of the plan, its base (negated if the digit is negative) to its bucket.
///
/// `buckets` holds `shape.num_accumulators()` points and is not cleared: all zeros at first, it
/// collects the bases of several calls. `workspace` must have `accumulate_workspace_bytes` for
/// rayon's current number of threads.
///
/// # Errors
/// Lengths that do not agree, a workspace too short, a plan that `digits` did not make.
pub fn accumulate<F: Coordinate>(
    plan: &Plan<'_>,
    bases: &[Affine<F>],
    map: BaseMap<'_>,
    buckets: &mut [Affine<F>],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    let shape = plan.shape();
    expect_len("buckets", buckets.len(), shape.num_accumulators())?;
    map.check(shape.len(), bases.len())?;
    let threads = rayon::current_num_threads();
    let mut workspace = workspace;
    let mut scratch = Vec::with_capacity(threads);
    for _ in 0..threads {
        let bytes = carve::<u8>("workspace bytes", &mut workspace, RunSums::<F>::scratch_bytes())?;
        scratch.push(RunSums::<F>::new(bytes)?);
    }
    let edges: &mut [[Affine<F>; 2]] =
        carve("workspace bytes", &mut workspace, max_pieces(&shape, threads))?;
    edges.fill([Affine::IDENTITY; 2]);

    let total: usize = (0..shape.num_windows()).map(|w| plan.window(w).1.len()).sum();
    let piece_len = total.div_ceil(PIECES_PER_THREAD * threads).max(2 * F::BATCH_LEN);
    let mut pieces = Vec::with_capacity(max_pieces(&shape, threads));
    let mut edge_keys = Vec::with_capacity(max_pieces(&shape, threads));
    let mut free_edges = edges.iter_mut();
    for (window, window_buckets) in buckets.chunks_mut(shape.num_buckets()).enumerate() {
        let (offsets, entries) = plan.window(window);
        let mut rest = window_buckets;
        let mut taken = 0;
        for (i, entries) in entries.chunks(piece_len).enumerate() {
            let start = i * piece_len;
            let (first, last) =
                (bucket_of(offsets, start), bucket_of(offsets, start + entries.len() - 1));
            // Buckets up to the first are an earlier piece's or shared; those from the last on are
            // a later piece's or shared.
            let skipped = (first + 1).checked_sub(taken).ok_or(BROKEN_PLAN)?;
            let len = last.saturating_sub(first + 1);
            let (_, after) =
                std::mem::take(&mut rest).split_at_mut_checked(skipped).ok_or(BROKEN_PLAN)?;
            let (inner, after) = after.split_at_mut_checked(len).ok_or(BROKEN_PLAN)?;
            // A piece inside the bucket that another ends in takes nothing.
            taken += skipped + len;
            rest = after;
            let edges = free_edges.next().ok_or(BROKEN_PLAN)?;
            edge_keys.push([first, last].map(|b| (window * shape.num_buckets() + b) as u32));
            pieces.push(Piece { offsets, entries, start, first, last, inner, edges });
        }
    }

    run_units(scratch.iter_mut(), pieces.into_iter(), |sums, piece| {
        add_piece(sums, piece, bases, map);
    });

    // What the pieces could not add themselves, in the order of their buckets.
    let Some(sums) = scratch.first_mut() else { return Ok(()) };
    for (keys, edges) in edge_keys.iter().zip(edges.iter()) {
        for (key, edge) in keys.iter().zip(edges) {
            if sums.is_full() {
                sums.flush(buckets);
            }
            if !edge.is_identity() {
                sums.push(*key, edge, false);
            }
        }
    }
    sums.flush(buckets);
    Ok(())
}

/// The bucket that the entry at `position` belongs to.
fn bucket_of(offsets: &[u32], position: usize) -> usize {
    let above = offsets.partition_point(|offset| *offset as usize <= position);
    above.saturating_sub(1).min(offsets.len().saturating_sub(2))
}

/// Adds up one piece.
fn add_piece<F: Coordinate>(
    sums: &mut RunSums<'_, F>,
    piece: Piece<'_, F>,
    bases: &[Affine<F>],
    map: BaseMap<'_>,
) {
    let Piece { offsets, entries, start, first, last, inner, edges } = piece;
    let mut target = PieceSums { first, last, inner, edges };
    let base = |entry: u32| map.base((entry & !NEGATIVE) as usize, bases.len());
    let mut bucket = first;
    for (i, &entry) in entries.iter().enumerate() {
        if let Some(ahead) = entries.get(i + PREFETCH_DISTANCE).and_then(|ahead| base(*ahead)) {
            prefetch(&bases[ahead]);
        }
        while bucket < last && start + i >= offsets[bucket + 1] as usize {
            bucket += 1;
        }
        let Some(base) = base(entry).map(|at| &bases[at]).filter(|base| !base.is_identity()) else {
            continue;
        };
        if sums.is_full() {
            sums.flush(&mut target);
        }
        sums.push(bucket as u32, base, entry & NEGATIVE != 0);
    }
    sums.flush(&mut target);
}

/// Where a piece's sums go.
struct PieceSums<'a, F> {
    first: usize,
    last: usize,
    inner: &'a mut [Affine<F>],
    edges: &'a mut [Affine<F>; 2],
}

impl<F: Coordinate> Sums<F> for PieceSums<'_, F> {
    #[inline(always)]
    fn sum(&mut self, key: u32) -> &mut Affine<F> {
        let bucket = key as usize;
        if bucket == self.first {
            &mut self.edges[0]
        } else if bucket == self.last {
            &mut self.edges[1]
        } else {
            &mut self.inner[bucket - self.first - 1]
        }
    }
}
