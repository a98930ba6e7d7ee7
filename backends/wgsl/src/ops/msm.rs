//! Dispatches of the `msm` operations.

use twinlock_api::error::{check_limit, word};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, INDEX_BYTES, SCALAR_BITS};
use twinlock_api::op::{BaseOf, DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
use twinlock_api::{Group, Result, View};
use twinlock_shaders::Kernel;
use twinlock_shaders::kernels::msm;

use super::digits::{Shape, grid};
use crate::gpu::Gpu;
use crate::launcher::Launcher;

/// The kernels of a group.
struct Kernels {
    accumulate: Kernel,
    fold: Kernel,
    segments: Kernel,
    sum: Kernel,
    finish: Kernel,
}

const fn kernels(group: Group) -> Kernels {
    match group {
        Group::G1 => Kernels {
            accumulate: msm::ACCUMULATE_G1,
            fold: msm::FOLD_G1,
            segments: msm::SEGMENTS_G1,
            sum: msm::SUM_G1,
            finish: msm::FINISH_G1,
        },
        Group::G2 => Kernels {
            accumulate: msm::ACCUMULATE_G2,
            fold: msm::FOLD_G2,
            segments: msm::SEGMENTS_G2,
            sum: msm::SUM_G2,
            finish: msm::FINISH_G2,
        },
    }
}

/// Bytes of a point as kernels keep it: X, Y, ZZ, ZZZ.
const fn xyzz_bytes(group: Group) -> u64 {
    group.affine_bytes() * 2
}

/// Threads that accumulation aims for: more shorten each thread's run, which costs heads.
const ACCUMULATE_THREADS: u64 = 1 << 18;
/// Entries of a thread's run: at least, and at most while memory allows.
const RUN_LEN: std::ops::RangeInclusive<u64> = 16..=64;
/// The longest run, where a device's largest region holds the heads of no shorter ones.
const LONGEST_RUN: u64 = 4096;
/// Heads, or points, that one thread adds up.
const FOLD_LEN: u32 = 8;
/// Buckets that one thread adds up.
const SEGMENT_LEN: u32 = 16;

/// Numbers of points in each level of a fold, the first included, down to one.
fn levels(first: u64) -> Vec<u64> {
    let mut levels = vec![first.max(1)];
    while let Some(&last) = levels.last().filter(|last| **last > 1) {
        levels.push(last.div_ceil(FOLD_LEN.into()));
    }
    levels
}

/// How accumulation is cut into runs.
struct Runs {
    /// Entries of a run.
    len: u64,
    /// Heads of one window, in all levels.
    heads: u64,
}

impl Runs {
    fn new(gpu: &Gpu, group: Group, shape: &Shape) -> Result<Self> {
        Self::within(gpu.info.max_region_bytes, group, shape)
    }

    /// The shortest runs whose heads fit `limit` bytes.
    fn within(limit: u64, group: Group, shape: &Shape) -> Result<Self> {
        let windows = u64::from(shape.num_windows);
        let wanted = (shape.max_len * windows).div_ceil(ACCUMULATE_THREADS);
        let mut len = wanted.next_power_of_two().clamp(*RUN_LEN.start(), *RUN_LEN.end());
        loop {
            let runs = Self { len, heads: levels(shape.max_len.div_ceil(len)).iter().sum() };
            let bytes = runs.keys_bytes(shape) + runs.heads_bytes(group, shape);
            if bytes <= limit {
                return Ok(runs);
            }
            if len >= LONGEST_RUN {
                check_limit("scratch of msm_accumulate (bytes)", bytes, limit)?;
            }
            len *= 2;
        }
    }

    fn keys_bytes(&self, shape: &Shape) -> u64 {
        let keys = u64::from(shape.num_windows) * self.heads;
        (keys * INDEX_BYTES).next_multiple_of(ARENA_ALIGN_BYTES)
    }

    fn heads_bytes(&self, group: Group, shape: &Shape) -> u64 {
        u64::from(shape.num_windows) * self.heads * xyzz_bytes(group)
    }
}

/// How a window's buckets are cut into segments.
struct Segments {
    /// Buckets of a segment.
    len: u32,
    /// Sums of one window, in all levels.
    sums: u64,
}

impl Segments {
    fn new(shape: &Shape) -> Self {
        let len = SEGMENT_LEN.min(shape.num_buckets);
        Self { len, sums: levels(u64::from(shape.num_buckets / len)).iter().sum() }
    }

    fn sums_bytes(&self, group: Group, shape: &Shape) -> u64 {
        u64::from(shape.num_windows) * self.sums * xyzz_bytes(group)
    }
}

/// The width that takes the least additions: one for each scalar and window, and about six's time
/// for each bucket (summing takes about four general ones).
pub(crate) fn window_bits(gpu: &Gpu, _group: Group, len: u64) -> u32 {
    let additions = |window_bits: u32| {
        let num_windows = u64::from(SCALAR_BITS.div_ceil(window_bits));
        num_windows.saturating_mul(len.saturating_add(6 << (window_bits - 1)))
    };
    let fits = |window_bits: &u32| {
        let shape = Shape::new(DigitsShape::new(len, *window_bits));
        shape.is_ok_and(|shape| shape.buckets_bytes(Group::G2) <= gpu.info.max_region_bytes)
    };
    (4..=18).filter(fits).min_by_key(|bits| additions(*bits)).unwrap_or(4)
}

pub(crate) fn layout(gpu: &Gpu, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
    let sizes = Shape::new(shape)?;
    let limit = gpu.info.max_region_bytes;
    let runs = Runs::new(gpu, group, &sizes)?;
    let segments = Segments::new(&sizes);
    let accumulator_bytes = sizes.buckets_bytes(group);
    check_limit("buckets of an MSM (bytes)", accumulator_bytes, limit)?;
    Ok(MsmLayout {
        shape,
        group,
        accumulator_bytes,
        accumulate_workspace_bytes: runs.keys_bytes(&sizes) + runs.heads_bytes(group, &sizes),
        reduce_workspace_bytes: segments.sums_bytes(group, &sizes),
        num_windows: sizes.num_windows,
    })
}

pub(crate) fn accumulate(launcher: &mut Launcher<'_>, op: &MsmAccumulate) -> Result<()> {
    let (shape, group) = (Shape::new(op.shape())?, op.group());
    let kernels = kernels(group);
    let num_bases = op.bases().len_bytes() / group.affine_bytes();
    let (base_first, indices) = match op.base_of() {
        BaseOf::Offset { leading } if leading >= op.len() => return Ok(()),
        BaseOf::Offset { leading } => (word("scalars without a base", leading)?, None),
        BaseOf::Indexed { indices, first } => (first, Some(indices)),
    };
    // So that no index below `base_first` wraps to one of a base.
    let num_bases = num_bases.min(u64::from(u32::MAX - base_first));
    if op.is_empty() || num_bases == 0 {
        return Ok(());
    }
    let runs = Runs::within(launcher.info().max_region_bytes, group, &shape)?;
    let keys_bytes = runs.keys_bytes(&shape);
    let keys = launcher.view(op.workspace().slice(0, keys_bytes)?)?;
    let heads_bytes = runs.heads_bytes(group, &shape);
    let heads = launcher.view(op.workspace().slice(keys_bytes, heads_bytes)?)?;
    let accumulator = launcher.view(op.accumulator())?;

    // Windows and runs of one dispatch.
    let window_runs = op.len().div_ceil(runs.len);
    let most_runs = (launcher.steps().additions(group) / runs.len).max(1);
    let dispatch_runs = window_runs.min(most_runs);
    let dispatch_windows = (most_runs / window_runs).max(1);
    for window_first in (0..shape.num_windows).step_by(dispatch_windows as usize) {
        let windows = (dispatch_windows as u32).min(shape.num_windows - window_first);
        // Of a view with so many bytes a window, those of the windows of this dispatch.
        let of_windows = |view: View, start_bytes: u64, window_bytes: u64| {
            let first = start_bytes + u64::from(window_first) * window_bytes;
            view.slice(first, u64::from(windows) * window_bytes)
        };
        let table_bytes = (u64::from(shape.num_buckets) + 1) * INDEX_BYTES;
        let buckets_bytes = u64::from(shape.num_buckets) * xyzz_bytes(group);
        let heads_bytes = window_runs * xyzz_bytes(group);
        let entries = shape.entries(op.plan(), window_first, windows)?;
        let views = [
            launcher.view(of_windows(shape.offsets(op.plan())?, 0, table_bytes)?)?,
            launcher.view(entries)?,
            launcher.view(op.bases())?,
            launcher.view(of_windows(op.accumulator(), 0, buckets_bytes)?)?,
            launcher.view(of_windows(op.workspace(), keys_bytes, heads_bytes)?)?,
            launcher.view(of_windows(op.workspace(), 0, window_runs * INDEX_BYTES)?)?,
            // Bound for nothing where there are no indices.
            launcher.view(indices.unwrap_or(entries))?,
        ];
        for run_first in (0..window_runs).step_by(dispatch_runs as usize) {
            let here = dispatch_runs.min(window_runs - run_first);
            let total = u64::from(windows) * here;
            let params = [
                word("runs of msm_accumulate", total)?,
                here as u32,
                run_first as u32,
                window_runs as u32,
                runs.len as u32,
                shape.num_buckets,
                word("scalars", op.len())?,
                word("entries of a window", shape.stride)?,
                base_first,
                num_bases as u32,
                u32::from(indices.is_some()),
            ];
            let groups = grid(launcher, total, msm::THREADS)?;
            launcher.dispatch(&kernels.accumulate, &views, &params, groups)?;
        }
    }

    let views = [accumulator, heads, keys];
    let mut in_first = 0;
    for pair in levels(window_runs).windows(2) {
        let &[runs_in, runs_out] = pair else { continue };
        let total = u64::from(shape.num_windows) * runs_out;
        let out_first = in_first + u64::from(shape.num_windows) * runs_in;
        let params = [
            word("runs of heads", total)?,
            runs_in as u32,
            runs_out as u32,
            FOLD_LEN,
            word("heads", in_first)?,
            word("heads", out_first)?,
            shape.num_buckets,
        ];
        launcher.dispatch(&kernels.fold, &views, &params, grid(launcher, total, msm::THREADS)?)?;
        in_first = out_first;
    }
    Ok(())
}

pub(crate) fn reduce(launcher: &mut Launcher<'_>, op: &MsmReduce) -> Result<()> {
    let (shape, group) = (Shape::new(op.shape())?, op.group());
    let kernels = kernels(group);
    let segments = Segments::new(&shape);
    let num_segments = shape.num_buckets / segments.len;
    let sums_bytes = segments.sums_bytes(group, &shape);
    let sums = launcher.view(op.workspace().slice(0, sums_bytes)?)?;

    // A segment takes about four additions a bucket.
    let window_additions = 4 * u64::from(shape.num_buckets);
    let dispatch_windows = (launcher.steps().additions(group) / window_additions).max(1);
    for window_first in (0..shape.num_windows).step_by(dispatch_windows as usize) {
        let windows = (dispatch_windows as u32).min(shape.num_windows - window_first);
        let total = u64::from(windows) * u64::from(num_segments);
        let window_bytes = u64::from(shape.num_buckets) * xyzz_bytes(group);
        let buckets = op
            .accumulator()
            .slice(u64::from(window_first) * window_bytes, u64::from(windows) * window_bytes)?;
        let params = [
            word("segments of buckets", total)?,
            num_segments,
            segments.len,
            shape.num_buckets,
            word("segments", u64::from(window_first) * u64::from(num_segments))?,
        ];
        let views = [launcher.view(buckets)?, sums.clone()];
        let groups = grid(launcher, total, msm::THREADS)?;
        launcher.dispatch(&kernels.segments, &views, &params, groups)?;
    }

    let mut in_first = 0;
    for pair in levels(num_segments.into()).windows(2) {
        let &[runs_in, runs_out] = pair else { continue };
        let total = u64::from(shape.num_windows) * runs_out;
        let out_first = in_first + u64::from(shape.num_windows) * runs_in;
        let params = [
            word("runs of sums", total)?,
            runs_in as u32,
            runs_out as u32,
            FOLD_LEN,
            word("sums", in_first)?,
            word("sums", out_first)?,
        ];
        let groups = grid(launcher, total, msm::THREADS)?;
        launcher.dispatch(&kernels.sum, std::slice::from_ref(&sums), &params, groups)?;
        in_first = out_first;
    }
    let views = [sums, launcher.view(op.windows())?];
    let params = [shape.num_windows, word("sums", in_first)?];
    let groups = grid(launcher, shape.num_windows.into(), msm::THREADS)?;
    launcher.dispatch(&kernels.finish, &views, &params, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_end_at_one_point() {
        assert_eq!(levels(0), [1]);
        assert_eq!(levels(1), [1]);
        assert_eq!(levels(8), [8, 1]);
        assert_eq!(levels(9), [9, 2, 1]);
        assert_eq!(levels(1 << 14), [1 << 14, 1 << 11, 1 << 8, 1 << 5, 4, 1]);
    }

    /// A plan of fewer scalars never needs more room than the layout has.
    #[test]
    fn fewer_scalars_have_fewer_heads() {
        let heads = |len: u64| levels(len).iter().sum::<u64>();
        assert!((0..5000).all(|len| heads(len) <= heads(len + 1)));
    }

    #[test]
    fn runs_grow_until_their_heads_fit() {
        let shape = |lg: u32| Shape::new(DigitsShape::new(1 << lg, 16)).expect("a shape");
        let free = Runs::within(u64::MAX, Group::G1, &shape(22)).expect("runs");
        assert_eq!(free.len, *RUN_LEN.end());
        let small = Runs::within(u64::MAX, Group::G1, &shape(10)).expect("runs");
        assert_eq!(small.len, *RUN_LEN.start());
        let limit = 1 << 27;
        let tight = Runs::within(limit, Group::G2, &shape(22)).expect("runs");
        let bytes = tight.keys_bytes(&shape(22)) + tight.heads_bytes(Group::G2, &shape(22));
        assert!(bytes <= limit && tight.len > free.len, "{} entries, {bytes} bytes", tight.len);
        assert!(Runs::within(1 << 16, Group::G2, &shape(22)).is_err());
    }
}
