//! The kernels that decode points against blstrs and plain Rust, good encodings and bad.

mod gpu;

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective};
use gpu::Gpu;
use group::{Curve as _, Group};
use rand::{Rng, SeedableRng, rngs::OsRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{Coordinate, Fp};
use twinlock_fields::FP;
use twinlock_shaders::kernels::points;
use twinlock_shaders::{Arithmetic, Kernel};

/// Bytes of an element of Fp.
const FP_BYTES: usize = 48;
/// The first byte's flags.
const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const SIGN: u8 = 0x20;

/// A group's encoding and kernel.
trait Points {
    /// Elements of Fp in a point.
    const LEN: usize;
    const DECODE: Kernel;
    fn random(rng: &mut ChaCha8Rng) -> Vec<u8>;
    /// Whether blst takes it: a canonical encoding of a point of the curve.
    fn is_good(encoded: &[u8]) -> bool;
}

struct G1;
struct G2;

impl Points for G1 {
    const LEN: usize = 2;
    const DECODE: Kernel = points::DECODE_G1;

    fn random(rng: &mut ChaCha8Rng) -> Vec<u8> {
        G1Projective::random(rng).to_affine().to_uncompressed().to_vec()
    }

    fn is_good(encoded: &[u8]) -> bool {
        let encoded = encoded.try_into().expect("a point's length");
        G1Affine::from_uncompressed_unchecked(encoded).is_some().into()
    }
}

impl Points for G2 {
    const LEN: usize = 4;
    const DECODE: Kernel = points::DECODE_G2;

    fn random(rng: &mut ChaCha8Rng) -> Vec<u8> {
        G2Projective::random(rng).to_affine().to_uncompressed().to_vec()
    }

    fn is_good(encoded: &[u8]) -> bool {
        let encoded = encoded.try_into().expect("a point's length");
        G2Affine::from_uncompressed_unchecked(encoded).is_some().into()
    }
}

/// A coordinate's coefficient from its encoding; `None` if it is not below the modulus.
fn coefficient(encoded: &[u8]) -> Option<Fp> {
    Fp::from_be_bytes(encoded)
}

/// What the kernel is to make of an encoding: coefficients in the order of memory, lowest first.
fn twin<P: Points>(encoded: &[u8], on_curve: bool) -> Option<Vec<Fp>> {
    let identity = vec![Fp::ZERO; P::LEN];
    if encoded[0] & (COMPRESSED | INFINITY | SIGN) != 0 {
        let is_infinity = encoded[0] == INFINITY && encoded[1..].iter().all(|byte| *byte == 0);
        return is_infinity.then_some(identity);
    }
    let mut point: Vec<_> = encoded.chunks(FP_BYTES).map(coefficient).collect::<Option<_>>()?;
    for coordinate in point.chunks_mut(P::LEN / 2) {
        coordinate.reverse();
    }
    if on_curve {
        return P::is_good(encoded).then_some(point);
    }
    (point != identity).then_some(point)
}

/// Encodings, and what is wrong with each that has something wrong.
fn encodings<P: Points>(rng: &mut ChaCha8Rng) -> Vec<(Vec<u8>, &'static str)> {
    let bytes = P::LEN * FP_BYTES;
    let modulus: Vec<u8> = FP.modulus.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    let mut all = Vec::new();
    for _ in 0..5 {
        all.extend((0..3).map(|_| (P::random(rng), "")));
        let mut infinity = vec![0; bytes];
        infinity[0] = INFINITY;
        all.push((infinity.clone(), ""));
        *infinity.last_mut().expect("bytes") = 1;
        all.push((infinity.clone(), "infinity with a coordinate"));
        infinity[..].fill(0);
        all.push((infinity, "zeros without the flag of infinity"));
        for flag in [COMPRESSED, INFINITY, SIGN, COMPRESSED | INFINITY, INFINITY | SIGN] {
            let mut point = P::random(rng);
            point[0] |= flag;
            all.push((point, "a flag"));
        }
        for flag in [COMPRESSED, SIGN, COMPRESSED | INFINITY, INFINITY | SIGN] {
            let mut zeros = vec![0; bytes];
            zeros[0] = flag;
            all.push((zeros, "a flag on zeros"));
        }
        for at in 0..P::LEN {
            let mut point = P::random(rng);
            point[at * FP_BYTES..][..FP_BYTES].copy_from_slice(&modulus);
            all.push((point.clone(), "a coefficient that is the modulus"));
            point[at * FP_BYTES] = 0x1f;
            all.push((point.clone(), "a coefficient above the modulus"));
            point[at * FP_BYTES..][..FP_BYTES].copy_from_slice(&modulus);
            point[at * FP_BYTES + FP_BYTES - 1] -= 1;
            all.push((point, "off the curve, a coefficient of -1"));
            let mut point = P::random(rng);
            point[at * FP_BYTES + rng.gen_range(1..FP_BYTES)] ^= 1 << rng.gen_range(0..8);
            all.push((point.clone(), "off the curve, by a bit"));
        }
    }
    all
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4"))).collect()
}

fn check<P: Points>(gpu: &Gpu, arithmetic: Arithmetic, rng: &mut ChaCha8Rng) {
    let pipeline = gpu.pipeline(&P::DECODE.build(arithmetic));
    let all = encodings::<P>(rng);
    // More than a workgroup; from the first good ones alone, too.
    for (len, on_curve, in_place) in
        [(all.len(), true, false), (all.len(), false, true), (3, true, true)]
    {
        let what = format!("{}, {arithmetic:?}, on_curve {on_curve}", P::DECODE.name);
        let source: Vec<u8> = all[..len].iter().flat_map(|(encoded, _)| encoded.clone()).collect();
        let source = gpu.buffer(&words(&source));
        let separate = gpu.buffer(&vec![0x5555_5555; len * P::LEN * FP_BYTES / 4]);
        let target = if in_place { &source } else { &separate };
        let status = gpu.buffer(&[0, u32::MAX]);
        let (index_first, groups) = (1000, (len as u32).div_ceil(points::THREADS));
        let params = [0, 0, 1, len as u32, on_curve.into(), index_first];
        gpu.dispatch(&pipeline, &[&source, target, &status], &params, [groups, 1]);
        let found = gpu.read(target);
        let mut first_bad = u32::MAX;
        for (i, (found, (encoded, kind))) in
            found.chunks(P::LEN * FP_BYTES / 4).zip(&all).enumerate()
        {
            let expected = twin::<P>(encoded, on_curve);
            if expected.is_none() {
                first_bad = first_bad.min(index_first + i as u32);
            }
            let may_be_good = kind.is_empty() || (!on_curve && kind.starts_with("off the curve"));
            assert!(expected.is_none() || may_be_good, "{what}: twin takes {i}, {kind:?}");
            assert!(expected.is_some() || !kind.is_empty(), "{what}: twin refuses {i}");
            let expected = expected.unwrap_or(vec![Fp::ZERO; P::LEN]);
            let expected: &[u32] = bytemuck::cast_slice(&expected);
            assert!(found == expected, "{what}: point {i} {kind}");
        }
        assert_eq!(gpu.read(&status)[..2], [0, first_bad], "{what}: first bad of {len}");
    }
}

#[test]
fn decode_takes_what_blst_takes() {
    let seed = OsRng.r#gen();
    eprintln!("seed {seed}");
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    for arithmetic in Arithmetic::ALL {
        let Some(gpu) = gpu::open(arithmetic) else { continue };
        check::<G1>(&gpu, arithmetic, rng);
        if arithmetic == Arithmetic::Wide {
            check::<G2>(&gpu, arithmetic, rng);
        }
    }
}
