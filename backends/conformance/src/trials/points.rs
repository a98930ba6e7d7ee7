//! Points as parameter files hold them.

use group::prime::PrimeCurveAffine;
use libtest_mimic::Failed;
use rand::Rng;
use twinlock_api::op::{DecodePoints, PointCheck};
use twinlock_api::{Op, PointView};

use crate::harness::{Fixture, Trial, Verdict, ensure, first_difference, passed};
use crate::oracle::{CurveOracle, G1, G2, fp_modulus_be, known_bases};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "decode_points_g1::good", run: good::<G1> },
        Trial { name: "decode_points_g1::malformed", run: malformed::<G1> },
        Trial { name: "decode_points_g1::off_the_curve", run: off_the_curve::<G1> },
        Trial { name: "decode_points_g1::status_is_the_first", run: status_is_the_first::<G1> },
        Trial { name: "decode_points_g2::good", run: good::<G2> },
        Trial { name: "decode_points_g2::malformed", run: malformed::<G2> },
        Trial { name: "decode_points_g2::off_the_curve", run: off_the_curve::<G2> },
        Trial { name: "decode_points_g2::status_is_the_first", run: status_is_the_first::<G2> },
    ]
}

const CHECKS: [PointCheck; 2] = [PointCheck::Encoding, PointCheck::OnCurve];

/// Decodes `encoded`, in place or not; the canonical bytes and the status.
fn decode<C: CurveOracle>(
    f: &mut Fixture,
    encoded: &[u8],
    check: PointCheck,
    in_place: bool,
) -> Result<(Vec<u8>, u32), Failed> {
    let source = f.resident("encoded", encoded.len() as u64)?;
    f.put(source, encoded)?;
    let target = if in_place { source } else { f.resident("points", encoded.len() as u64)? };
    let status = f.status()?;
    f.run(Op::DecodePoints(DecodePoints::new(
        PointView::new(source, C::GROUP)?,
        PointView::new(target, C::GROUP)?,
        check,
        status,
    )?))?;
    Ok((f.get(target)?, f.get_status(status)?))
}

fn good<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    for len in [0usize, 1, 2, 31, 32, 33, 255, 256, 257, 1000] {
        let mut points = known_bases::<C>(len, &mut f.rng).points;
        // Infinity at the ends and somewhere between, and both signs of y.
        for place in [0, 7, len.saturating_sub(1)] {
            if len > 1 && place < len {
                points[place] = C::Affine::identity();
            }
        }
        for place in (1..len).step_by(2) {
            points[place] = -points[place];
        }
        let encoded: Vec<u8> = points.iter().flat_map(C::uncompressed).collect();
        for check in CHECKS {
            for in_place in [false, true] {
                let (found, status) = decode::<C>(f, &encoded, check, in_place)?;
                let what = format!("{len} points, {check:?}, in place: {in_place}");
                first_difference(&what, &found, &C::encode_all(&points))?;
                ensure(status == u32::MAX, || format!("{what}: status {status}"))?;
            }
        }
    }
    passed()
}

/// Fails unless `bad` among good points is noticed, and only it.
fn noticed<C: CurveOracle>(
    f: &mut Fixture,
    bad: &[u8],
    check: PointCheck,
    what: &str,
) -> Result<(), Failed> {
    let len = f.rng.gen_range(1..80);
    let place = f.rng.gen_range(0..len);
    let points = known_bases::<C>(len, &mut f.rng).points;
    let mut encoded: Vec<Vec<u8>> = points.iter().map(C::uncompressed).collect();
    encoded[place] = bad.to_vec();
    for in_place in [false, true] {
        let (found, status) = decode::<C>(f, &encoded.concat(), check, in_place)?;
        ensure(status as usize == place, || {
            format!("{what} at {place} of {len} with {check:?}: status {status}")
        })?;
        let expected = points.iter().map(C::encode);
        for (i, (found, expected)) in found.chunks(C::affine_bytes()).zip(expected).enumerate() {
            if i != place {
                first_difference(&format!("point {i} beside {what}"), found, &expected)?;
            }
        }
    }
    Ok(())
}

fn malformed<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let point = C::uncompressed(&known_bases::<C>(1, &mut f.rng).points[0]);
    let infinity = C::uncompressed(&C::Affine::identity());
    let with = |bytes: &[u8], place: usize, change: &dyn Fn(&mut u8)| {
        let mut bytes = bytes.to_vec();
        change(&mut bytes[place]);
        bytes
    };
    let last = point.len() - 1;
    let mut bad = vec![
        ("a compressed flag", with(&point, 0, &|byte| *byte |= 0x80)),
        ("a sign flag", with(&point, 0, &|byte| *byte |= 0x20)),
        ("an infinity flag on a point", with(&point, 0, &|byte| *byte |= 0x40)),
        ("all flags", with(&point, 0, &|byte| *byte |= 0xe0)),
        ("infinity with a sign", with(&infinity, 0, &|byte| *byte |= 0x20)),
        ("compressed infinity", with(&infinity, 0, &|byte| *byte |= 0x80)),
        ("infinity with a last byte", with(&infinity, last, &|byte| *byte = 1)),
        ("infinity with a first byte", with(&infinity, 0, &|byte| *byte |= 1)),
        ("infinity with a middle byte", with(&infinity, last / 2, &|byte| *byte = 0x80)),
        ("all ones", vec![0xff; point.len()]),
    ];
    // Each coordinate (of Fp2 each coefficient) equal to p, just above it, and at its largest.
    let p = fp_modulus_be();
    let (mut next, mut largest) = (p, [0xff; 48]);
    next[47] += 1;
    largest[0] = 0x1f;
    for part in 0..point.len() / 48 {
        for (what, value) in [("p", p), ("p + 1", next), ("2^381 - 1", largest)] {
            let mut bytes = point.clone();
            bytes[part * 48..part * 48 + 48].copy_from_slice(&value);
            bad.push((what, bytes));
        }
        // Bits past the modulus in coordinates that carry no flags.
        if part > 0 {
            bad.push(("a top bit", with(&point, part * 48, &|byte| *byte |= 0x80)));
        }
    }
    for (what, bytes) in bad {
        for check in CHECKS {
            noticed::<C>(f, &bytes, check, what)?;
        }
    }
    passed()
}

fn off_the_curve<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let good = known_bases::<C>(1, &mut f.rng).points[0];
    let file = C::uncompressed(&good);
    let half = file.len() / 2;
    let swapped = [&file[half..], &file[..half]].concat();
    let mut one_bit = file.clone();
    one_bit[file.len() - 1] ^= 1;
    let mut one_bit_of_x = file.clone();
    one_bit_of_x[half - 1] ^= 1;
    let mut bad = vec![
        ("x and y swapped", swapped),
        ("a changed bit of y", one_bit),
        ("a changed bit of x", one_bit_of_x),
    ];
    if half > 48 {
        let mut parts: Vec<_> = file.chunks(48).map(<[u8]>::to_vec).collect();
        parts.swap(2, 3);
        bad.push(("coefficients of y swapped", parts.concat()));
    }
    for (what, bytes) in &bad {
        noticed::<C>(f, bytes, PointCheck::OnCurve, what)?;
        // Without the check it is decoded as it stands.
        let expected = C::from_uncompressed(bytes, false).ok_or("the case itself is malformed")?;
        let (found, status) = decode::<C>(f, bytes, PointCheck::Encoding, false)?;
        first_difference(what, &found, &C::encode(&expected))?;
        ensure(status == u32::MAX, || format!("{what}: status {status} with Encoding"))?;
    }
    let zeros = vec![0; file.len()];
    noticed::<C>(f, &zeros, PointCheck::OnCurve, "zeros without the infinity flag")?;
    passed()
}

fn status_is_the_first<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let len = 600;
    let points: Vec<C::Affine> = vec![C::Affine::generator(); len];
    let mut encoded: Vec<Vec<u8>> = points.iter().map(C::uncompressed).collect();
    let mut first = len;
    // Bad points from the back to the front, so that each decode has more of them.
    for place in [599, 513, 512, 511, 256, 255, 33, 32, 31, 1, 0] {
        encoded[place] = vec![0xff; C::affine_bytes()];
        first = first.min(place);
        let (_, status) = decode::<C>(f, &encoded.concat(), PointCheck::Encoding, true)?;
        ensure(status as usize == first, || format!("status {status}, expected {first}"))?;
    }
    // A status that is lower already stays.
    let view = f.resident("encoded", C::affine_bytes() as u64 * 2)?;
    f.put(view, &encoded[1..3].concat())?;
    let view = PointView::new(view, C::GROUP)?;
    let status = f.status()?;
    for _ in 0..2 {
        f.run(Op::DecodePoints(DecodePoints::new(view, view, PointCheck::Encoding, status)?))?;
    }
    let found = f.get_status(status)?;
    ensure(found == 0, || format!("status {found} after two decodes, expected 0"))?;
    passed()
}
