//! The kernels over vectors against plain Rust on the CPU backend's field.

mod gpu;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{FR_MODULUS, Fr};
use twinlock_shaders::kernels::element::{self, groups};
use twinlock_shaders::{Arithmetic, Kernel};

const LENGTHS: [usize; 7] = [1, 2, 127, 128, 129, 1000, 70_000];

fn values(len: usize, rng: &mut ChaCha8Rng) -> Vec<Fr> {
    let minus_one = Fr::ZERO.sub(&Fr::ONE);
    let edges = [Fr::ZERO, minus_one, Fr::ONE, Fr([1, 0, 0, 0]), Fr::ZERO.sub(&Fr([1, 0, 0, 0]))];
    let draw = |rng: &mut ChaCha8Rng| {
        let mut value = Fr(rng.r#gen());
        value.0[3] >>= 1;
        if value.is_reduced() { value } else { edges[rng.gen_range(0..5)] }
    };
    let mut values: Vec<_> = edges.into_iter().take(len).collect();
    values.resize_with(len, || draw(rng));
    values
}

fn words(values: &[Fr]) -> Vec<u32> {
    bytemuck::cast_slice(values).to_vec()
}

/// Some words in front of a view, so that it has an offset.
fn padded(quads: u32, words: &[u32]) -> Vec<u32> {
    [vec![0x5555; quads as usize * 4], words.to_vec()].concat()
}

/// Vectors a, b, c, factor to what a kernel makes of an element.
type Twin = fn(&Fr, &Fr, &Fr, &Fr) -> Fr;

const VECTORS: [(Kernel, usize, bool, Twin); 6] = [
    (element::ADD, 2, false, |a, b, _, _| a.add(b)),
    (element::SUB, 2, false, |a, b, _, _| a.sub(b)),
    (element::MUL, 2, false, |a, b, _, _| a.mul(b)),
    (element::SCALE, 1, true, |a, _, _, k| a.mul(k)),
    (element::MUL_SUB_SCALE, 3, true, |a, b, c, k| a.mul(b).sub(c).mul(k)),
    (element::FROM_MONTGOMERY, 1, false, |a, _, _, _| a.from_montgomery()),
];

fn vectors(arithmetic: Arithmetic) {
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for (kernel, inputs, scaled, twin) in VECTORS {
        let pipeline = gpu.pipeline(&kernel.build(arithmetic));
        for len in LENGTHS {
            let [a, b, c] = [(); 3].map(|()| values(len, &mut rng));
            let factor = values(6, &mut rng)[rng.gen_range(0..6)];
            let pads = [4u32, 2, 6, 8];
            let vectors = [&a, &b, &c];
            let mut buffers: Vec<_> = vectors[..inputs]
                .iter()
                .zip(pads)
                .map(|(vector, pad)| gpu.buffer(&padded(pad, &words(vector))))
                .collect();
            buffers.push(gpu.buffer(&padded(pads[inputs], &vec![0; len * 8])));
            let mut params = pads[..=inputs].to_vec();
            params.push(len as u32);
            if scaled {
                params.extend(words(&[factor]));
            }
            let bound: Vec<_> = buffers.iter().collect();
            gpu.dispatch(&pipeline, &bound, &params, groups(len as u64).expect("few"));
            let expected: Vec<_> = (0..len).map(|i| twin(&a[i], &b[i], &c[i], &factor)).collect();
            let found = gpu.read(&buffers[inputs]);
            let what = format!("{} of {len}, {arithmetic:?}, seed {seed}", kernel.name);
            assert!(found == padded(pads[inputs], &words(&expected)), "{what}");
            // Over its first input, which is bound twice.
            let bound: Vec<_> = buffers[..inputs].iter().chain([&buffers[0]]).collect();
            params[inputs] = pads[0];
            gpu.dispatch(&pipeline, &bound, &params, groups(len as u64).expect("few"));
            let found = gpu.read(&buffers[0]);
            assert!(found == padded(pads[0], &words(&expected)), "{what} in place");
        }
    }
}

fn to_montgomery(arithmetic: Arithmetic) {
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pipeline = gpu.pipeline(&element::TO_MONTGOMERY.build(arithmetic));
    let mut above = vec![Fr(FR_MODULUS), Fr([u64::MAX; 4]), Fr([0, 0, 0, 1 << 63])];
    for limb in 0..4 {
        let mut value = Fr(FR_MODULUS);
        value.0[limb] += 1;
        above.push(value);
    }
    for bad in above {
        for places in [vec![], vec![0], vec![999], vec![700, 300, 800]] {
            let mut source = values(1000, &mut rng);
            for place in &places {
                source[*place] = bad;
            }
            let buffers =
                [gpu.buffer(&words(&source)), gpu.buffer(&[0; 8000]), gpu.buffer(&[7, !0, 7, 7])];
            let params = [0, 0, 1, 1000];
            gpu.dispatch(&pipeline, &buffers.each_ref(), &params, groups(1000).expect("few"));
            let status = places.iter().copied().min().map_or(!0, |place| place as u32);
            assert_eq!(gpu.read(&buffers[2]), [7, status, 7, 7], "{bad:x?}, seed {seed}");
            let found = gpu.read(&buffers[1]);
            for (i, found) in found.chunks_exact(8).enumerate() {
                let expected = source[i].to_montgomery();
                assert!(
                    places.contains(&i) || found == words(&[expected]),
                    "element {i}, {arithmetic:?}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn vectors_wide() {
    vectors(Arithmetic::Wide);
}

#[test]
fn vectors_narrow() {
    vectors(Arithmetic::Narrow);
}

#[test]
fn to_montgomery_wide() {
    to_montgomery(Arithmetic::Wide);
}

#[test]
fn to_montgomery_narrow() {
    to_montgomery(Arithmetic::Narrow);
}

#[test]
fn words_are_filled_copied_and_gathered() {
    let Some(gpu) = gpu::open(Arithmetic::Narrow) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pipeline = |kernel: Kernel| gpu.pipeline(&kernel.build(Arithmetic::Narrow));
    let [fill, copy, gather] = [element::FILL, element::COPY, element::GATHER].map(pipeline);
    for len in LENGTHS {
        let mut expected: Vec<u32> = (0..len + 10).map(|_| rng.next_u32()).collect();
        let buffer = gpu.buffer(&expected);
        let grid = groups(len as u64).expect("few");
        gpu.dispatch(&fill, &[&buffer], &[3, len as u32, 0xdead_beef], grid);
        expected[3..3 + len].fill(0xdead_beef);
        assert!(gpu.read(&buffer) == expected, "fill of {len}, seed {seed}");

        let mut expected: Vec<u32> = (0..2 * len + 10).map(|_| rng.next_u32()).collect();
        let buffer = gpu.buffer(&expected);
        let params = [1, len as u32 + 7, len as u32];
        gpu.dispatch(&copy, &[&buffer, &buffer], &params, grid);
        expected.copy_within(1..1 + len, len + 7);
        assert!(gpu.read(&buffer) == expected, "copy of {len}, seed {seed}");

        let source = values(300, &mut rng);
        let mut indices: Vec<u32> = (0..len).map(|_| rng.gen_range(0..300)).collect();
        for (index, edge) in indices.iter_mut().rev().zip([299, 300, u32::MAX, 1 << 31, 1 << 28]) {
            *index = edge;
        }
        let expected: Vec<_> = indices
            .iter()
            .map(|index| source.get(*index as usize).copied().unwrap_or_default())
            .collect();
        let source = gpu.buffer(&padded(2, &words(&source)));
        let indices = gpu.buffer(&padded(1, &indices));
        let target = gpu.buffer(&padded(4, &vec![1; len * 8]));
        let params = [2, 4, 4, len as u32, 300];
        gpu.dispatch(&gather, &[&source, &indices, &target], &params, grid);
        let expected = padded(4, &words(&expected));
        assert!(gpu.read(&target) == expected, "gather of {len}, seed {seed}");
    }
}

#[test]
fn grids_cover_every_length() {
    for len in [0, 1, 128, 129, 128 * 65_535, 128 * 65_535 + 1, 1 << 26, 1 << 31] {
        let [x, y] = groups(len).expect("within 2^31");
        assert!(x <= 65_535 && y <= 65_535, "{len}: {x} by {y}");
        assert!(u64::from(x) * u64::from(y) * u64::from(element::THREADS) >= len, "{len}");
    }
    assert_eq!(groups((1 << 31) + 1), None);
}

#[test]
fn vectors_sparse() {
    vectors(Arithmetic::Sparse);
}

#[test]
fn to_montgomery_sparse() {
    to_montgomery(Arithmetic::Sparse);
}
