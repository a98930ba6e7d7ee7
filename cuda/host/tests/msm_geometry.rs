//! What the host reserves and launches for digits and MSMs against what the kernels address, for every
//! width and the lengths at which something changes.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cuda_host::msm::{digits_ends, msm_part, msm_runs};
use twinlock_cuda_kernels::digits::{MAX_ENTRIES, Shape, WINDOW_BITS, num_digits};
use twinlock_cuda_kernels::msm::{Heads, Lines, resident, threads_of_wave};
use twinlock_cuda_kernels::sizes::digits::{
    MAX_BIN_BITS, MAX_LOW_BITS, RECORD_BYTES, SORT_LEN, SORT_THREADS,
};
use twinlock_cuda_kernels::sizes::msm::{
    G1_BLOCKS_PER_SM, G1_THREADS, G2_BLOCKS_PER_SM, G2_THREADS, MAX_WINDOWS,
};

/// Around a row of words, one and two tiles, what is partitioned at once, and the most.
const LENGTHS: [u64; 20] = [
    0,
    1,
    63,
    64,
    65,
    8191,
    8192,
    8193,
    16_383,
    16_384,
    16_385,
    (1 << 20) - 1,
    (1 << 20) + 1,
    (1 << 25) - 1,
    (1 << 25) + 1,
    (1 << 26) - 1,
    1 << 26,
    (1 << 26) + 1,
    MAX_ENTRIES - 1,
    MAX_ENTRIES,
];

/// Shared memory that a block may have on every card.
const SHARED_BYTES: u32 = 64 << 10;

/// Every shape of these lengths, of one table and of several.
fn shapes() -> impl Iterator<Item = Shape> {
    WINDOW_BITS.flat_map(|window_bits| {
        [1, 2, 3, 8, num_digits(window_bits)].into_iter().flat_map(move |tables| {
            LENGTHS.into_iter().filter_map(move |len| {
                Shape::new(window_bits, tables, len.min(MAX_ENTRIES / u64::from(tables)))
            })
        })
    })
}

#[test]
fn digits_stay_within_their_parts() {
    let mut count = 0;
    for shape in shapes() {
        count += 1;
        let (windows, stride) = (u64::from(shape.num_windows), shape.stride);
        let [bin_counts, bin_starts, counts, records] = shape.workspace_parts();
        let [bins_end, starts_end, counts_end, offsets_end] = digits_ends(&shape);
        assert!(4 * bins_end <= bin_counts && 4 * starts_end <= bin_starts, "{shape:?}");
        assert!(4 * counts_end <= counts, "{shape:?}");
        assert_eq!(4 * offsets_end, shape.offsets_bytes(), "{shape:?}");
        // A window's part begins `stride` entries after the one before.
        assert!(shape.max_entries <= stride, "{shape:?}");
        let end = |windows: u64| (windows - 1) * stride + shape.max_entries;
        assert!(4 * end(windows) <= shape.entries_bytes(), "{shape:?}");
        let needed = match shape.bin_bits {
            0 => 4 * end(windows),
            _ => u64::from(RECORD_BYTES) * end(shape.at_once.into()),
        };
        assert!(needed <= records, "{shape:?}");
        // What blocks keep in shared memory.
        assert!(shape.num_windows <= MAX_WINDOWS && shape.bin_bits <= MAX_BIN_BITS, "{shape:?}");
        assert!(shape.low_bits() <= MAX_LOW_BITS, "{shape:?}");
        assert!(shape.cut_shared_bytes() <= SHARED_BYTES, "{shape:?}");
        assert!(shape.partition_shared_bytes() <= SHARED_BYTES, "{shape:?}");
        assert!(shape.place_shared_bytes() <= SHARED_BYTES, "{shape:?}");
    }
    assert!(count > 1000, "{count} shapes");
}

#[test]
fn blocks_take_every_digit_once() {
    for shape in shapes() {
        let len = shape.max_entries as u32;
        let covers = |blocks: u32, each: u32| {
            let end = u64::from(blocks) * u64::from(each);
            end >= shape.max_entries && end < shape.max_entries + u64::from(each)
        };
        assert!(covers(Shape::tiles(len), SORT_THREADS * SORT_LEN), "{shape:?}");
        let windows: Vec<u32> = (shape.rounds())
            .flat_map(|(first, count)| {
                assert!(count <= shape.at_once);
                first..first + count
            })
            .collect();
        assert!(windows.into_iter().eq(0..shape.num_windows), "{shape:?}");
        // A grid's second dimension.
        assert!(shape.at_once <= 65_535, "{shape:?}");
    }
}

/// Multiprocessors of no card there is, of a small one, an H200's, and many.
const SM_COUNTS: [u32; 4] = [1, 14, 132, 1000];

#[test]
fn runs_and_heads_stay_within_their_parts() {
    let seed = rand::random();
    eprintln!("seed: {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for shape in shapes() {
        let blocks = [(G1_BLOCKS_PER_SM, G1_THREADS), (G2_BLOCKS_PER_SM, G2_THREADS)];
        for (sm_count, (blocks, threads)) in SM_COUNTS.into_iter().zip(blocks.into_iter().cycle()) {
            let threads = threads_of_wave(resident(sm_count, blocks, threads));
            let heads = Heads::new(threads, &shape, shape.max_entries);
            let [runs, keys, points] = heads.workspace_parts(&shape, 192);
            assert!(4 * (u64::from(shape.num_windows) + 2) <= runs);
            // No plan has more runs than have heads: full windows, empty ones, one entry each, any.
            let most = shape.max_entries as u32;
            let any: Vec<u32> = (0..shape.num_windows)
                .map(|_| most >> rng.gen_range(0..32) & rng.r#gen::<u32>())
                .collect();
            let few = vec![most.min(1); shape.num_windows as usize];
            let mut one = vec![0; shape.num_windows as usize];
            one[0] = most;
            for counts in [vec![most; shape.num_windows as usize], few, one, any] {
                let runs = u64::from(msm_runs(&counts, threads as u32));
                assert!(runs <= heads.max_runs(), "{runs} runs of {shape:?}, {threads} threads");
            }
            // Levels lie one behind the other, down to one head.
            let mut end = heads.max_runs();
            for fold in heads.folds() {
                assert_eq!((fold.out_first, fold.in_first + fold.runs_in), (end, end));
                assert_eq!(fold.runs_out, fold.runs_in.div_ceil(fold.run_len.into()));
                end += fold.runs_out;
            }
            assert_eq!(heads.levels.last(), Some(&1));
            assert!(4 * end <= keys && 192 * end <= points, "{shape:?}");
            assert!(u32::try_from(end).is_ok(), "{shape:?}");
            // Fewer scalars never need more.
            let fewer = Heads::new(threads, &shape, shape.max_entries.saturating_sub(1));
            assert!(fewer.total() <= heads.total(), "{shape:?}");
        }
    }
}

#[test]
fn sums_read_every_point_once() {
    for window_bits in WINDOW_BITS {
        let shape = Shape::new(window_bits, 1, 1).expect("a shape");
        for resident in
            [resident(1, G2_BLOCKS_PER_SM, G2_THREADS), resident(132, G1_BLOCKS_PER_SM, G1_THREADS)]
        {
            let levels = Lines::levels(resident, &shape);
            let window = shape.num_windows - 1;
            let mut from: Option<Lines> = None;
            for to in &levels {
                let points_in = from.map_or(shape.num_buckets.into(), |from| from.num_points());
                let first_in = u64::from(window) * points_in;
                let mut written = vec![false; to.num_points() as usize];
                for at in 0..to.num_points() as u32 {
                    let [first, last, place] = msm_part(from.as_ref(), to, window, at);
                    assert!(first >= first_in && last < first_in + points_in, "{to:?}");
                    assert!(!std::mem::replace(&mut written[place as usize], true), "{to:?}");
                }
                from = Some(*to);
            }
            assert_eq!(from.map(|last| (last.row_parts, last.column_parts)), Some((1, 1)));
        }
    }
}
