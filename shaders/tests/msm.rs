//! The kernels that fill buckets and sum them, each against what its documentation says, in plain
//! Rust on blstrs. Points are compared as elements of the group: one has many representations.

mod gpu;
mod xyzz;

use group::Group;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{Fp, Jacobian};
use twinlock_shaders::Arithmetic;
use twinlock_shaders::kernels::msm::NO_KEY;
use xyzz::{Case, G1, G2, Points, UNUSED, modulus, with, xyzz_words};

/// A digit plan of some windows, and what goes with it.
struct Plan {
    num_windows: u32,
    num_buckets: u32,
    len: u32,
    stride: u32,
    offsets: Vec<u32>,
    entries: Vec<u32>,
}

impl Plan {
    /// A window with a heavy bucket and empty ones, one with all in the last, one with few entries,
    /// one with none.
    fn random(rng: &mut ChaCha8Rng) -> Self {
        let (num_buckets, len, stride) = (12, 150, 155);
        let (mut offsets, mut entries) = (Vec::new(), Vec::new());
        for window in 0..4 {
            let mut buckets = vec![Vec::new(); num_buckets as usize];
            for scalar in 0..len {
                let bucket = match window {
                    0 if rng.r#gen() => 4,
                    0 => rng.gen_range(1..num_buckets - 1),
                    1 => num_buckets - 1,
                    2 if scalar % 13 == 0 => rng.gen_range(0..num_buckets),
                    _ => continue,
                };
                buckets[bucket as usize].push(scalar | rng.gen_range(0..2) << 31);
            }
            let mut offset = 0;
            offsets.push(0);
            for bucket in &buckets {
                offset += bucket.len() as u32;
                offsets.push(offset);
            }
            entries.extend(buckets.concat());
            entries.resize((window + 1) * stride as usize, UNUSED);
        }
        Self { num_windows: 4, num_buckets, len, stride, offsets, entries }
    }

    /// Of a window, each entry with its bucket and that bucket's first position.
    fn window(&self, window: u32) -> Vec<(u32, u32, u32)> {
        let at = |bucket: u32| self.offsets[(window * (self.num_buckets + 1) + bucket) as usize];
        let bucket_entries = |bucket: u32| {
            let first = at(bucket);
            (first..at(bucket + 1)).map(move |position| {
                let entry = self.entries[(window * self.stride + position) as usize];
                (entry, bucket, first)
            })
        };
        (0..self.num_buckets).flat_map(bucket_entries).collect()
    }
}

fn accumulates<P: Points>(case: &mut Case) {
    let pipeline = case.pipeline(P::ACCUMULATE);
    for (run_len, indexed) in [(2, false), (5, true), (8, false)] {
        let plan = Plan::random(&mut case.rng);
        let Plan { num_windows, num_buckets, len, stride, .. } = plan;
        let (base_first, num_bases) = (4, len - 11);
        let bases = case.points::<P>(num_bases as usize);
        let index = |_| match case.rng.gen_range(0..8) {
            0 => u32::MAX,
            _ => case.rng.gen_range(0..len),
        };
        let indices: Vec<u32> = (0..len).map(index).collect();
        let base_of = |entry: u32| {
            let scalar = entry & (u32::MAX >> 1);
            let index = if indexed { indices[scalar as usize] } else { scalar };
            let base = index.checked_sub(base_first).and_then(|at| bases.get(at as usize));
            let base = base.copied().unwrap_or(P::Point::identity());
            if entry >> 31 == 1 { -base } else { base }
        };

        let mut accumulator = case.points::<P>((num_windows * num_buckets) as usize);
        let before = case.xyzz::<P>(&accumulator);
        let runs = len.div_ceil(run_len);
        let mut heads = vec![None; (num_windows * runs) as usize];
        let mut keys = vec![NO_KEY; heads.len()];
        for window in 0..num_windows {
            for (position, (entry, bucket, first)) in (0..).zip(plan.window(window)) {
                let run = position / run_len;
                let point = if first < run * run_len {
                    let head = (window * runs + run) as usize;
                    keys[head] = bucket;
                    heads[head].get_or_insert(P::Point::identity())
                } else {
                    &mut accumulator[(window * num_buckets + bucket) as usize]
                };
                *point += base_of(entry);
            }
        }

        let base_words: Vec<_> = bases.iter().map(P::affine).collect();
        let unused_heads = vec![UNUSED; heads.len() * xyzz_words::<P>()];
        let bound = [
            case.words(&plan.offsets),
            case.words(&plan.entries),
            case.elements(bytemuck::cast_slice(&base_words)),
            case.elements(&before),
            case.elements(&unused_heads),
            case.words(&vec![UNUSED; keys.len()]),
            case.words(&indices),
        ];
        let split = runs / 3;
        for (run_first, here) in [(0, split), (split, runs - split)] {
            #[rustfmt::skip]
            let params = [
                num_windows * here, here, run_first, runs, run_len, num_buckets, len, stride,
                base_first, num_bases, indexed.into(),
            ];
            case.dispatch(&pipeline, &bound.each_ref(), &params);
        }
        let what = format!("runs of {run_len}");
        let expected: Vec<_> = accumulator.into_iter().map(Some).collect();
        assert!(case.read(&bound[5]) == keys, "{what}, {:?}: keys", case.arithmetic);
        case.compare::<P>(&what, [&before, &case.read(&bound[3])], &expected);
        case.compare::<P>(&what, [&unused_heads, &case.read(&bound[4])], &heads);
    }
}

#[test]
fn accumulate_adds_bases_into_buckets_and_heads() {
    with(Arithmetic::Wide, accumulates::<G1>);
    with(Arithmetic::Wide, accumulates::<G2>);
    with(Arithmetic::Sparse, accumulates::<G2>);
    with(Arithmetic::Narrow, accumulates::<G1>);
}

fn folds<P: Points>(case: &mut Case) {
    let pipeline = case.pipeline(P::FOLD);
    let (num_windows, num_buckets, runs_in, in_first) = (3, 30, 29, 3);
    for run_len in [2, 5, 8] {
        let runs_out = u32::div_ceil(runs_in, run_len);
        let out_first = in_first + num_windows * runs_in;
        let mut keys = vec![UNUSED; in_first as usize];
        for window in 0..num_windows {
            // Runs without heads between, and one bucket that many runs have heads of.
            let (mut key, end) = (0, keys.len() + runs_in as usize);
            while keys.len() < end {
                let longest = if window == 0 { 20 } else { 4 };
                let (gap, same) = (case.rng.gen_range(0..3), case.rng.gen_range(1..longest));
                keys.extend(vec![NO_KEY; if window == 2 { 9 * gap } else { gap }]);
                keys.extend(vec![key; same]);
                key += case.rng.gen_range(1..3);
            }
            keys.truncate(end);
        }
        keys.resize((out_first + num_windows * runs_out + 2) as usize, UNUSED);
        let heads = case.points::<P>(keys.len());
        let mut accumulator = case.points::<P>((num_windows * num_buckets) as usize);
        let before = [case.xyzz::<P>(&accumulator), case.xyzz::<P>(&heads)];
        let bound = [case.elements(&before[0]), case.elements(&before[1]), case.words(&keys)];

        let mut next = vec![None; heads.len()];
        for window in 0..num_windows {
            let first = in_first + window * runs_in;
            let (mut previous, mut group_first) = (NO_KEY, 0);
            for run in 0..runs_out {
                let out = (out_first + window * runs_out + run) as usize;
                keys[out] = NO_KEY;
                for i in run * run_len..runs_in.min((run + 1) * run_len) {
                    let key = keys[(first + i) as usize];
                    if key != previous {
                        (previous, group_first) = (key, i);
                    }
                    if key == NO_KEY {
                        continue;
                    }
                    let point = if group_first < run * run_len {
                        keys[out] = key;
                        next[out].get_or_insert(P::Point::identity())
                    } else {
                        &mut accumulator[(window * num_buckets + key) as usize]
                    };
                    *point += heads[(first + i) as usize];
                }
            }
        }

        let total = num_windows * runs_out;
        let params = [total, runs_in, runs_out, run_len, in_first, out_first, num_buckets];
        case.dispatch(&pipeline, &bound.each_ref(), &params);
        let what = format!("runs of {run_len}");
        let expected: Vec<_> = accumulator.into_iter().map(Some).collect();
        assert!(case.read(&bound[2]) == keys, "{what}, {:?}: keys", case.arithmetic);
        case.compare::<P>(&what, [&before[0], &case.read(&bound[0])], &expected);
        case.compare::<P>(&what, [&before[1], &case.read(&bound[1])], &next);
    }
}

#[test]
fn fold_adds_heads_into_buckets_and_heads() {
    with(Arithmetic::Wide, folds::<G1>);
    with(Arithmetic::Wide, folds::<G2>);
    with(Arithmetic::Narrow, folds::<G1>);
}

fn sums_segments<P: Points>(case: &mut Case) {
    let pipeline = case.pipeline(P::SEGMENTS);
    let (num_windows, num_buckets, sums_first) = (3, 23, 5);
    for segment_len in [2, 7, 8, 23] {
        let segments = u32::div_ceil(num_buckets, segment_len);
        let mut buckets = case.points::<P>((num_windows * num_buckets) as usize);
        buckets[..num_buckets as usize].fill(P::Point::identity());
        let total = num_windows * segments;
        let mut expected = vec![None; (sums_first + total + 2) as usize];
        for id in 0..total {
            let (window, start) = (id / segments, id % segments * segment_len);
            let in_segment = start..num_buckets.min(start + segment_len);
            let times = |bucket: u32| {
                let scalar = <P::Point as Group>::Scalar::from(u64::from(bucket) + 1);
                buckets[(window * num_buckets + bucket) as usize] * scalar
            };
            expected[(sums_first + id) as usize] = Some(in_segment.map(times).sum());
        }
        let before = vec![UNUSED; expected.len() * xyzz_words::<P>()];
        let bucket_words = case.xyzz::<P>(&buckets);
        let bound = [case.elements(&bucket_words), case.elements(&before)];
        let params = [total, segments, segment_len, num_buckets, sums_first];
        case.dispatch(&pipeline, &bound.each_ref(), &params);
        let what = format!("segments of {segment_len}");
        assert!(case.read(&bound[0]) == bucket_words, "{what}: buckets have changed");
        case.compare::<P>(&what, [&before, &case.read(&bound[1])], &expected);
    }
}

#[test]
fn segments_weigh_buckets() {
    with(Arithmetic::Wide, sums_segments::<G1>);
    with(Arithmetic::Narrow, sums_segments::<G1>);
}

/// On its own, for software drivers compile no other kernel here for as long.
#[test]
fn segments_weigh_buckets_of_g2() {
    with(Arithmetic::Wide, sums_segments::<G2>);
}

fn sums<P: Points>(case: &mut Case) {
    let pipeline = case.pipeline(P::SUM);
    let (num_windows, runs_in, in_first) = (3, 37, 3);
    for run_len in [2, 5, 8, 37] {
        let runs_out = u32::div_ceil(runs_in, run_len);
        let out_first = in_first + num_windows * runs_in;
        let total = num_windows * runs_out;
        let mut points = case.points::<P>((out_first + total + 2) as usize);
        points[in_first as usize..][..9].fill(P::Point::identity());
        let before = case.xyzz::<P>(&points);
        let mut expected = vec![None; points.len()];
        for id in 0..total {
            let (window, begin) = (id / runs_out, id % runs_out * run_len);
            let in_run = begin..runs_in.min(begin + run_len);
            let at = |i: u32| points[(in_first + window * runs_in + i) as usize];
            expected[(out_first + id) as usize] = Some(in_run.map(at).sum());
        }
        let bound = case.elements(&before);
        let params = [total, runs_in, runs_out, run_len, in_first, out_first];
        case.dispatch(&pipeline, &[&bound], &params);
        case.compare::<P>(&format!("runs of {run_len}"), [&before, &case.read(&bound)], &expected);
    }
}

#[test]
fn sum_adds_runs() {
    with(Arithmetic::Wide, sums::<G1>);
    with(Arithmetic::Wide, sums::<G2>);
    with(Arithmetic::Sparse, sums::<G2>);
    with(Arithmetic::Narrow, sums::<G1>);
}

fn finishes<P: Points>(case: &mut Case) {
    let pipeline = case.pipeline(P::FINISH);
    // More than a workgroup.
    let (total, in_first) = (70, 2);
    let points = case.points::<P>((in_first + total) as usize);
    let sums = case.xyzz::<P>(&points);
    let point_words = size_of::<Jacobian<P::Field>>() / 4;
    let unused = vec![UNUSED; (total as usize + 1) * point_words];
    let bound = [case.elements(&sums), case.elements(&unused)];
    case.dispatch(&pipeline, &bound.each_ref(), &[total, in_first]);
    assert!(case.read(&bound[0]) == sums, "the sums have changed");
    let found = case.read(&bound[1]);
    let (found, behind) = found.split_at(total as usize * point_words);
    assert!(behind.iter().all(|word| *word == UNUSED), "words behind the windows");
    let modulus = modulus();
    for (i, words) in found.chunks(point_words).enumerate() {
        let mut jacobian = [Jacobian::<P::Field>::default()];
        bytemuck::cast_slice_mut(&mut jacobian).copy_from_slice(words);
        let reduced = |value: &Fp| value.0.iter().rev().lt(modulus.iter().rev());
        let what = format!("{}, {:?}: window {i}", P::FINISH.name, case.arithmetic);
        assert!(bytemuck::cast_slice(&jacobian).iter().all(reduced), "{what}: not canonical");
        let expected = P::affine(&points[in_first as usize + i]);
        assert!(jacobian[0].to_affine() == expected, "{what}");
    }
}

#[test]
fn finish_gives_jacobian_points() {
    with(Arithmetic::Wide, finishes::<G1>);
    with(Arithmetic::Wide, finishes::<G2>);
    with(Arithmetic::Sparse, finishes::<G2>);
    with(Arithmetic::Narrow, finishes::<G1>);
}
