//! Decoding against the conformance suite's oracle.

use group::{Curve, Group};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{CurveOracle, G1, G2, fp_modulus_be};
use twinlock_cuda_host::field::Limbs;
use twinlock_cuda_host::points::Decode;

/// The decoded bytes, or `None` for a bad point, which has to become zeros.
fn decoded<const N: usize>(bytes: &[u8], on_curve: bool) -> Option<Vec<u8>>
where
    Limbs<N>: Decode,
{
    let words: Vec<u32> =
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut point: Limbs<N> = Limbs(words.try_into().expect("a point's bytes"));
    let good = point.decode(on_curve);
    let bytes: Vec<u8> = point.0.iter().flat_map(|word| word.to_le_bytes()).collect();
    if !good {
        assert!(bytes.iter().all(|byte| *byte == 0), "a bad point is not infinity");
    }
    good.then_some(bytes)
}

fn every_encoding<C: CurveOracle, const N: usize>()
where
    Limbs<N>: Decode,
{
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut files = vec![vec![0; C::affine_bytes()], vec![0xff; C::affine_bytes()]];
    for point in [C::Point::random(&mut rng), C::Point::generator(), C::Point::identity()] {
        let file = C::uncompressed(&point.to_affine());
        files.push(C::uncompressed(&-point.to_affine()));
        // Every flag, every byte changed, every coordinate at and past the modulus.
        for flags in 1..8u8 {
            let mut changed = file.clone();
            changed[0] ^= flags << 5;
            files.push(changed);
        }
        for place in 0..file.len() {
            let mut changed = file.clone();
            changed[place] ^= rng.gen_range(1..=255u8);
            files.push(changed);
        }
        for part in 0..file.len() / 48 {
            let mut changed = file.clone();
            changed[48 * part..][..48].copy_from_slice(&fp_modulus_be());
            for last in [-1i8, 0, 1] {
                let mut changed = changed.clone();
                let at = 48 * part + 47;
                changed[at] = changed[at].wrapping_add_signed(last);
                files.push(changed);
            }
        }
        files.push(file);
    }
    for file in &files {
        for on_curve in [false, true] {
            let expected = C::from_uncompressed(file, on_curve).map(|point| C::encode(&point));
            let found = decoded::<N>(file, on_curve);
            assert_eq!(found, expected, "{file:02x?}, on the curve: {on_curve}, seed {seed}");
        }
    }
    // The cases are not all of one kind.
    let good = files.iter().filter(|file| C::from_uncompressed(file, true).is_some()).count();
    assert!((5..files.len() / 2).contains(&good));
}

#[test]
fn every_encoding_in_g1() {
    every_encoding::<G1, 24>();
}

#[test]
fn every_encoding_in_g2() {
    every_encoding::<G2, 48>();
}
