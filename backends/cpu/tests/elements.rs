//! Vector operations and decoding of points, against blstrs.

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::{Field, PrimeField};
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use twinlock_cpu::decode::decode_points;
use twinlock_cpu::field::{Coordinate, FR_MODULUS, Fp, Fp2, Fr};
use twinlock_cpu::vector::{self, Input};

fn fr(scalar: &Scalar) -> Fr {
    Fr(bytemuck::cast::<[u8; 32], [u64; 4]>(scalar.to_repr())).to_montgomery()
}

fn seeded() -> (u64, StdRng) {
    let seed = rand::random();
    (seed, StdRng::seed_from_u64(seed))
}

#[test]
fn vector_operations_agree_with_blstrs_in_place_or_not() {
    let (seed, mut rng) = seeded();
    for n in [0, 1, 1023, 1024, 1025, 5000] {
        let mut draw = || (0..n).map(|_| Scalar::random(&mut rng)).collect::<Vec<_>>();
        let (a, b, c) = (draw(), draw(), draw());
        let k = Scalar::from(0x1234_5678_9abc_def1).square();
        let ours = |x: &[Scalar]| x.iter().map(fr).collect::<Vec<_>>();
        let (a_fr, b_fr, c_fr, k_fr) = (ours(&a), ours(&b), ours(&c), fr(&k));
        let expect = |f: &dyn Fn(usize) -> Scalar| (0..n).map(|i| fr(&f(i))).collect::<Vec<_>>();
        let (a_in, b_in, c_in) = (Input::Slice(&a_fr), Input::Slice(&b_fr), Input::Slice(&c_fr));
        let sum = expect(&|i| a[i] + b[i]);
        let difference = expect(&|i| a[i] - b[i]);
        let product = expect(&|i| a[i] * b[i]);
        let scaled = expect(&|i| a[i] * k);
        let quotient = expect(&|i| (a[i] * b[i] - c[i]) * k);

        let mut out = vec![Fr::ONE; n];
        vector::add(&mut out, a_in, b_in).expect("add");
        assert!(out == sum, "seed {seed}, n {n}");
        vector::sub(&mut out, a_in, b_in).expect("sub");
        assert!(out == difference, "seed {seed}, n {n}");
        vector::mul(&mut out, a_in, b_in).expect("mul");
        assert!(out == product, "seed {seed}, n {n}");
        vector::scale(&mut out, a_in, &k_fr).expect("scale");
        assert!(out == scaled, "seed {seed}, n {n}");
        vector::mul_sub_scale(&mut out, a_in, b_in, c_in, &k_fr).expect("mul_sub_scale");
        assert!(out == quotient, "seed {seed}, n {n}");

        let mut out = a_fr.clone();
        vector::sub(&mut out, Input::Target, b_in).expect("sub");
        assert!(out == difference, "seed {seed}, n {n}");
        let mut out = b_fr.clone();
        vector::sub(&mut out, a_in, Input::Target).expect("sub");
        assert!(out == difference, "seed {seed}, n {n}");
        let mut out = a_fr.clone();
        vector::scale(&mut out, Input::Target, &k_fr).expect("scale");
        assert!(out == scaled, "seed {seed}, n {n}");
        let mut out = c_fr.clone();
        vector::mul_sub_scale(&mut out, a_in, b_in, Input::Target, &k_fr).expect("quotient");
        assert!(out == quotient, "seed {seed}, n {n}");
        let mut out = a_fr.clone();
        vector::mul(&mut out, Input::Target, Input::Target).expect("mul");
        assert!(out == expect(&|i| a[i].square()), "seed {seed}, n {n}");
    }
    let short = [Fr::ONE; 3];
    assert!(vector::add(&mut [Fr::ONE; 4], Input::Slice(&short), Input::Target).is_err());
    assert!(vector::scale(&mut [Fr::ONE; 4], Input::Slice(&short), &Fr::ONE).is_err());
}

#[test]
fn conversions_go_there_and_back_and_name_the_first_past_the_modulus() {
    let (seed, mut rng) = seeded();
    let scalars: Vec<_> = (0..3000).map(|_| Scalar::random(&mut rng)).collect();
    let integers: Vec<_> = scalars.iter().map(|s| Fr(bytemuck::cast(s.to_repr()))).collect();
    let expected: Vec<_> = scalars.iter().map(fr).collect();
    let mut out = vec![Fr::ZERO; 3000];
    assert_eq!(vector::to_montgomery(&mut out, Input::Slice(&integers)), Ok(None));
    assert!(out == expected, "seed {seed}");
    vector::from_montgomery(&mut out, Input::Target).expect("lengths");
    assert!(out == integers, "seed {seed}");

    let mut past = FR_MODULUS;
    past[0] += 1;
    for bad in [FR_MODULUS, past, [u64::MAX; 4]] {
        let mut values = integers.clone();
        values[2900] = Fr(bad);
        assert_eq!(vector::to_montgomery(&mut values, Input::Target), Ok(Some(2900)));
        let mut values = integers.clone();
        (values[7], values[2000]) = (Fr(bad), Fr(bad));
        assert_eq!(vector::to_montgomery(&mut values, Input::Target), Ok(Some(7)));
    }
    let mut largest = [Fr([FR_MODULUS[0] - 1, FR_MODULUS[1], FR_MODULUS[2], FR_MODULUS[3]])];
    assert_eq!(vector::to_montgomery(&mut largest, Input::Target), Ok(None));
    assert_eq!(largest[0], fr(&-Scalar::ONE));
}

#[test]
fn gather_fill_and_copy() {
    let (_, mut rng) = seeded();
    let source: Vec<_> = (0..100).map(|i| Fr::from_u64(i + 1)).collect();
    let indices: Vec<u32> = (0..5000).map(|_| rng.gen_range(0..120)).collect();
    let mut target = vec![Fr::ONE; 5000];
    vector::gather(&mut target, &source, &indices).expect("lengths");
    for (target, index) in target.iter().zip(&indices) {
        let expected = source.get(*index as usize).copied().unwrap_or(Fr::ZERO);
        assert_eq!(*target, expected);
    }
    vector::gather(&mut target[..1], &source, &[u32::MAX]).expect("lengths");
    assert_eq!(target[0], Fr::ZERO);
    assert!(vector::gather(&mut target, &source, &indices[1..]).is_err());

    let mut bytes = vec![9u8; 1_000_004];
    for word in [0, u32::MAX, 0x0102_0304] {
        vector::fill(&mut bytes, word);
        assert!(bytes.chunks(4).all(|chunk| chunk == word.to_ne_bytes()));
    }
    let copied: Vec<u8> = (0..1_000_004).map(|i| (i % 251) as u8).collect();
    vector::copy(&mut bytes, &copied).expect("lengths");
    assert!(bytes == copied);
    assert!(vector::copy(&mut bytes, &copied[1..]).is_err());
}

/// Encodings, and the canonical bytes that blstrs keeps for the same points.
struct Encoded {
    encoded: Vec<u8>,
    canonical: Vec<u64>,
}

fn words_g1(point: &G1Affine) -> Vec<u64> {
    let point: &blst::blst_p1_affine = point.as_ref();
    [point.x, point.y].iter().flat_map(|x| x.l).collect()
}

fn words_g2(point: &G2Affine) -> Vec<u64> {
    let point: &blst::blst_p2_affine = point.as_ref();
    [point.x, point.y].iter().flat_map(|x| [x.fp[0].l, x.fp[1].l]).flatten().collect()
}

fn g1(n: usize, rng: &mut StdRng) -> Encoded {
    let mut out = Encoded { encoded: vec![], canonical: vec![] };
    for i in 0..n {
        let point = match i % 7 {
            3 => G1Affine::identity(),
            _ => (G1Projective::generator() * Scalar::random(&mut *rng)).to_affine(),
        };
        out.encoded.extend(point.to_uncompressed());
        out.canonical.extend(words_g1(&point));
    }
    out
}

fn g2(n: usize, rng: &mut StdRng) -> Encoded {
    let mut out = Encoded { encoded: vec![], canonical: vec![] };
    for i in 0..n {
        let point = match i % 7 {
            3 => G2Affine::identity(),
            _ => (G2Projective::generator() * Scalar::random(&mut *rng)).to_affine(),
        };
        out.encoded.extend(point.to_uncompressed());
        out.canonical.extend(words_g2(&point));
    }
    out
}

fn decode<F: Coordinate>(encoded: &[u8], on_curve: bool) -> (Option<usize>, Vec<u64>) {
    let mut target = vec![!0u64; encoded.len() / 8];
    let bad = decode_points::<F>(bytemuck::cast_slice_mut(&mut target), Some(encoded), on_curve)
        .expect("lengths");
    let mut in_place = vec![0u64; encoded.len() / 8];
    bytemuck::cast_slice_mut(&mut in_place).copy_from_slice(encoded);
    let again = decode_points::<F>(bytemuck::cast_slice_mut(&mut in_place), None, on_curve)
        .expect("lengths");
    assert_eq!(bad, again);
    assert!(target == in_place, "in place or not");
    (bad, target)
}

fn check_decoding<F: Coordinate>(points: &Encoded) {
    let Encoded { encoded, canonical } = points;
    let size = 4 * size_of::<F>() / 2;
    for on_curve in [false, true] {
        let (bad, decoded) = decode::<F>(encoded, on_curve);
        assert_eq!(bad, None);
        assert!(decoded == *canonical);
        // What is done to point 12, and whether it still passes without and with the equation.
        let p_bytes = "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf\
                       6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";
        let p: Vec<u8> = (0..48)
            .map(|i| u8::from_str_radix(&p_bytes[2 * i..2 * i + 2], 16).expect("hex"))
            .collect();
        type Spoil<'a> = &'a dyn Fn(&mut [u8]);
        let coordinate_at_end = size - 48;
        let cases: [(&str, Spoil<'_>, bool, bool); 10] = [
            ("compressed", &|b| b[0] |= 0x80, false, false),
            ("sign", &|b| b[0] |= 0x20, false, false),
            ("infinity flag, not zero", &|b| b[0] |= 0x40, false, false),
            ("infinity and sign", &|b| (b.fill(0), b[0] = 0x60).1, false, false),
            ("zeros without a flag", &|b| b.fill(0), false, false),
            ("x = p", &|b| b[..48].copy_from_slice(&p), false, false),
            ("y = p", &|b| b[coordinate_at_end..].copy_from_slice(&p), false, false),
            ("x too large", &|b| b[..48].fill(0x1f), false, false),
            ("another y", &|b| b[size - 1] ^= 1, true, false),
            ("identity", &|b| (b.fill(0), b[0] = 0x40).1, true, true),
        ];
        for (what, spoil, encoding_passes, equation_holds) in cases {
            let mut bytes = encoded.clone();
            spoil(&mut bytes[12 * size..13 * size]);
            let passes = if on_curve { equation_holds } else { encoding_passes };
            let (bad, decoded) = decode::<F>(&bytes, on_curve);
            assert_eq!(bad, (!passes).then_some(12), "{what}, on_curve {on_curve}");
            assert!(decoded[..12 * size / 8] == canonical[..12 * size / 8], "{what}");
            assert!(decoded[13 * size / 8..] == canonical[13 * size / 8..], "{what}");
        }
        let mut bytes = encoded.clone();
        bytes[size * 290] |= 0x80;
        bytes[size * 4] |= 0x80;
        assert_eq!(decode::<F>(&bytes, on_curve).0, Some(4), "the first is named");
    }
    let mut target = vec![0u64; 48];
    let target: &mut [u8] = bytemuck::cast_slice_mut(&mut target);
    assert!(decode_points::<F>(target, Some(&encoded[..size]), true).is_err());
    assert!(decode_points::<F>(&mut target[..40], None, true).is_err());
    assert_eq!(decode_points::<F>(&mut [], None, true), Ok(None));
}

#[test]
fn g1_points_decode_as_blstrs_has_them() {
    let (_, mut rng) = seeded();
    check_decoding::<Fp>(&g1(300, &mut rng));
}

#[test]
fn g2_points_decode_as_blstrs_has_them() {
    let (_, mut rng) = seeded();
    check_decoding::<Fp2>(&g2(300, &mut rng));
}
