//! The kernels that make a digit plan against plain Rust.

mod gpu;

use gpu::Gpu;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::Fr;
use twinlock_shaders::kernels::digits;
use twinlock_shaders::{Arithmetic, Kernel};

/// 0, 1, -1, powers of two and their neighbours, both signs, and random ones.
fn scalars(rng: &mut ChaCha8Rng) -> Vec<Fr> {
    let mut scalars = vec![Fr::ZERO, Fr::ONE];
    for exponent in 0..254 {
        let power = Fr::from_u64(2).pow(exponent);
        scalars.extend([power, power.sub(&Fr::ONE), power.add(&Fr::ONE)]);
    }
    let negative: Vec<_> = scalars.iter().map(|scalar| Fr::ZERO.sub(scalar)).collect();
    scalars.extend(negative);
    for _ in 0..500 {
        let mut limbs = [0; 4].map(|_: u64| rng.next_u64());
        limbs[3] >>= 2;
        scalars.push(Fr(limbs));
    }
    scalars.extend([Fr::ONE; 300]);
    scalars
}

/// Entries by window and bucket, each bucket's in order.
type Buckets = Vec<Vec<u32>>;

fn buckets(offsets: &[u32], entries: &[u32], num_buckets: usize) -> Buckets {
    let bucket = |b: usize| {
        let mut entries = entries[offsets[b] as usize..offsets[b + 1] as usize].to_vec();
        entries.sort_unstable();
        entries
    };
    (0..num_buckets).map(bucket).collect()
}

/// The same digits bit by bit.
fn on_cpu(scalars: &[Fr], window_bits: u32) -> Vec<Buckets> {
    let num_windows = 255u32.div_ceil(window_bits);
    let mut windows = vec![vec![Vec::new(); 1 << (window_bits - 1)]; num_windows as usize];
    for (index, scalar) in scalars.iter().enumerate() {
        let positive = scalar.from_montgomery();
        let negative = Fr::ZERO.sub(&positive);
        let flip = negative.0.iter().rev().lt(positive.0.iter().rev());
        let magnitude = if flip { negative } else { positive };
        let bit = |at: i64| {
            let limb = usize::try_from(at).ok().and_then(|at| magnitude.0.get(at / 64));
            limb.map_or(0, |limb| (limb >> (at % 64) & 1) as i64)
        };
        let mut carried = 0;
        for (window, buckets) in windows.iter_mut().enumerate() {
            let low = window as i64 * i64::from(window_bits);
            let value: i64 = (0..i64::from(window_bits)).map(|i| bit(low + i) << i).sum();
            let top = bit(low + i64::from(window_bits) - 1);
            let digit = value + carried - (top << window_bits);
            carried = top;
            if digit != 0 {
                let sign = if (digit < 0) == flip { 0 } else { 1 << 31 };
                buckets[digit.unsigned_abs() as usize - 1].push(index as u32 | sign);
            }
        }
        assert_eq!(carried, 0, "a digit is left over");
    }
    for bucket in windows.iter_mut().flatten() {
        bucket.sort_unstable();
    }
    windows
}

/// In two chunks of scalars, entries placed in two ranges of windows.
fn on_gpu(gpu: &Gpu, arithmetic: Arithmetic, scalars: &[Fr], window_bits: u32) -> Vec<Buckets> {
    let num_windows = 255u32.div_ceil(window_bits);
    let num_buckets = 1u32 << (window_bits - 1);
    let stride = scalars.len() as u32 + 3;
    let pipeline = |kernel: Kernel| gpu.pipeline(&kernel.build(arithmetic));
    let (count, starts, place) =
        (pipeline(digits::COUNT), pipeline(digits::STARTS), pipeline(digits::PLACE));
    let counts = gpu.buffer(&vec![0; (num_windows * num_buckets) as usize]);
    let offsets = gpu.buffer(&vec![u32::MAX; (num_windows * (num_buckets + 1)) as usize]);
    let split = num_windows / 2;
    let ranges = [(0, split), (split, num_windows)];
    let entries = ranges.map(|(first, end)| {
        let words = (end - first).max(1) * stride;
        gpu.buffer(&vec![u32::MAX; words as usize])
    });
    let (low, high) = scalars.split_at(scalars.len() / 3);
    let chunks = [(0, low), (low.len() as u32, high)].map(|(first, chunk)| {
        (
            first,
            chunk.len() as u32,
            gpu.buffer(bytemuck::cast_slice(bytemuck::cast_slice::<_, u64>(
                &chunk.iter().map(|scalar| scalar.0).collect::<Vec<_>>(),
            ))),
        )
    });
    for (_, len, scalars) in &chunks {
        let groups = [len.div_ceil(digits::THREADS), 1];
        let params = [0, 0, *len, window_bits, num_windows];
        gpu.dispatch(&count, &[scalars, &counts], &params, groups);
    }
    let params = [0, 0, num_windows, num_buckets];
    gpu.dispatch(&starts, &[&counts, &offsets], &params, [num_windows, 1]);
    // Counts are cursors from here on: each window may be placed once.
    for ((first, end), entries) in ranges.iter().zip(&entries) {
        for (index_first, len, scalars) in &chunks {
            let groups = [len.div_ceil(digits::THREADS), 1];
            let own = [*len, window_bits, num_windows, *index_first, *first, *end, stride];
            let params = [&[0; 3][..], &own].concat();
            gpu.dispatch(&place, &[scalars, &counts, entries], &params, groups);
        }
    }
    let offsets = gpu.read(&offsets);
    let entries: Vec<u32> = ranges
        .iter()
        .zip(&entries)
        .flat_map(|((first, end), buffer)| {
            let mut words = gpu.read(buffer);
            words.truncate(((end - first) * stride) as usize);
            words
        })
        .collect();
    let windows = offsets.chunks(num_buckets as usize + 1).zip(entries.chunks(stride as usize));
    windows.map(|(offsets, entries)| buckets(offsets, entries, num_buckets as usize)).collect()
}

#[test]
fn plans_hold_every_digit() {
    let seed = rand::rngs::OsRng.next_u64();
    eprintln!("seed {seed}");
    let scalars = scalars(&mut ChaCha8Rng::seed_from_u64(seed));
    for arithmetic in Arithmetic::ALL {
        let Some(gpu) = gpu::open(arithmetic) else { continue };
        for window_bits in [2, 3, 7, 8, 11, 16] {
            let found = on_gpu(&gpu, arithmetic, &scalars, window_bits);
            let expected = on_cpu(&scalars, window_bits);
            assert_eq!(found.len(), expected.len());
            for (window, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    found == expected,
                    "window {window} of {window_bits} bits, {arithmetic:?}: other buckets"
                );
            }
        }
    }
}
