//! MSMs over scalars that broke others: bits, boundaries of r and of windows, growing values.

use blstrs::Scalar;
use ff::Field;
use libtest_mimic::{Completion, Failed};
use rand::Rng;
use twinlock_api::Error;
use twinlock_api::op::DigitsShape;

use super::random_values;
use crate::harness::{Fixture, Trial, Verdict, ensure, passed};
use crate::oracle::{CurveOracle, G1, G2, KnownBases, known_bases, msm_by_logs};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "msm_g1::uniform_scalars", run: uniform_scalars::<G1> },
        Trial { name: "msm_g1::heavy_bucket", run: heavy_bucket::<G1> },
        Trial { name: "msm_g1::small_values", run: small_values::<G1> },
        Trial { name: "msm_g1::half_of_r", run: half_of_r::<G1> },
        Trial { name: "msm_g1::half_of_a_window", run: half_of_a_window::<G1> },
        Trial { name: "msm_g1::powers_of_two", run: powers_of_two::<G1> },
        Trial { name: "msm_g1::every_window_width", run: every_window_width::<G1> },
        Trial { name: "msm_g1::wide_windows_17", run: wide_windows::<G1, 17> },
        Trial { name: "msm_g1::wide_windows_19", run: wide_windows::<G1, 19> },
        Trial { name: "msm_g1::wide_windows_20", run: wide_windows::<G1, 20> },
        Trial { name: "msm_g1::wide_windows_22", run: wide_windows::<G1, 22> },
        Trial { name: "msm_g2::uniform_scalars", run: uniform_scalars::<G2> },
        Trial { name: "msm_g2::heavy_bucket", run: heavy_bucket::<G2> },
        Trial { name: "msm_g2::small_values", run: small_values::<G2> },
        Trial { name: "msm_g2::half_of_r", run: half_of_r::<G2> },
        Trial { name: "msm_g2::half_of_a_window", run: half_of_a_window::<G2> },
        Trial { name: "msm_g2::powers_of_two", run: powers_of_two::<G2> },
        Trial { name: "msm_g2::every_window_width", run: every_window_width::<G2> },
        Trial { name: "msm_g2::wide_windows_17", run: wide_windows::<G2, 17> },
        Trial { name: "msm_g2::wide_windows_19", run: wide_windows::<G2, 19> },
        Trial { name: "msm_g2::wide_windows_20", run: wide_windows::<G2, 20> },
        Trial { name: "msm_g2::wide_windows_22", run: wide_windows::<G2, 22> },
    ]
}

fn expect<C: CurveOracle>(
    f: &mut Fixture,
    what: &str,
    scalars: &[Scalar],
    bases: &KnownBases<C>,
) -> Result<(), Failed> {
    let expected = msm_by_logs::<C>(scalars, &bases.logs);
    f.expect_msm::<C>(what, scalars, &bases.points[..scalars.len()], expected)
}

/// Window widths that the device has, among those asked for.
fn widths(f: &Fixture, among: &[u32]) -> Result<Vec<u32>, Failed> {
    let mut widths = Vec::new();
    for window_bits in among {
        match f.device().digits_layout(DigitsShape::new(64, *window_bits)) {
            Ok(_) => widths.push(*window_bits),
            Err(Error::Unsupported(_)) => {}
            Err(other) => return Err(format!("windows of {window_bits} bits: {other}").into()),
        }
    }
    ensure(!widths.is_empty(), || format!("no window width among {among:?}"))?;
    Ok(widths)
}

fn expect_width<C: CurveOracle>(
    f: &mut Fixture,
    what: &str,
    window_bits: u32,
    scalars: &[Scalar],
    bases: &KnownBases<C>,
) -> Result<(), Failed> {
    let shape = DigitsShape::new(scalars.len() as u64, window_bits);
    let found = f.msm_shaped::<C>(shape, scalars, &bases.points[..scalars.len()])?;
    ensure(found == msm_by_logs::<C>(scalars, &bases.logs), || {
        format!("{what} in windows of {window_bits} bits: the sum is wrong")
    })
}

/// All scalars are one value.
fn uniform_scalars<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let bases = known_bases::<C>(300, &mut f.rng);
    let two = Scalar::from(2);
    let values = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, two, -two, Scalar::random(&mut f.rng)];
    for value in values {
        for len in [1, 2, 300] {
            expect(f, &format!("all {value:?}"), &vec![value; len], &bases)?;
        }
    }
    passed()
}

/// 99% bits, and a witness as PoRep has it.
fn heavy_bucket<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let len = if C::GROUP == twinlock_api::Group::G1 { 20_000 } else { 5000 };
    let bases = known_bases::<C>(len, &mut f.rng);
    for (what, zeros, full) in [("99% bits", 0.495, 0.01), ("PoRep's shares", 0.513, 0.016)] {
        let scalars: Vec<_> = (0..len)
            .map(|_| match f.rng.gen_range(0.0..1.0) {
                share if share < full => Scalar::random(&mut f.rng),
                share if share < full + zeros => Scalar::ZERO,
                _ => Scalar::ONE,
            })
            .collect();
        expect(f, what, &scalars, &bases)?;
    }
    let mut scalars = vec![Scalar::ONE; len];
    scalars[len / 2] = Scalar::random(&mut f.rng);
    expect(f, "ones but for one", &scalars, &bases)?;
    passed()
}

fn small_values<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let len = 1200;
    let bases = known_bases::<C>(len, &mut f.rng);
    let bytes: Vec<_> = (0..len).map(|_| Scalar::from(f.rng.gen_range(0..256u64))).collect();
    expect(f, "values below 2^8", &bytes, &bases)?;
    let negative: Vec<_> = bytes.iter().map(|value| -value).collect();
    expect(f, "values above r - 2^8", &negative, &bases)?;
    let growing: Vec<_> = (0..len as u64).map(Scalar::from).collect();
    expect(f, "slowly growing values", &growing, &bases)?;
    let step = Scalar::random(&mut f.rng);
    let growing: Vec<_> = growing.iter().map(|i| step + i).collect();
    expect(f, "slowly growing large values", &growing, &bases)?;
    passed()
}

/// Around r / 2, where a scalar's sign may be turned; and around r / 4 and 3r / 4.
fn half_of_r<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let fraction = |quarters: u64| {
        let quarter = Option::<Scalar>::from(Scalar::from(4).invert()).unwrap_or_default();
        Scalar::from(quarters) * quarter
    };
    let mut scalars = Vec::new();
    // 1/2 is (r + 1) / 2; 1/4 and 3/4 lie near r / 4 and 3r / 4.
    for middle in [fraction(1), fraction(2), fraction(3)] {
        scalars.extend((0..5).map(|i| middle + Scalar::from(i) - Scalar::from(2)));
    }
    let bases = known_bases::<C>(scalars.len(), &mut f.rng);
    expect(f, "around quarters of r", &scalars, &bases)?;
    for scalar in scalars {
        expect(f, &format!("one scalar {scalar:?}"), &[scalar], &bases)?;
    }
    passed()
}

/// Scalars whose digits are all half the window, one less, one more, or the most there is.
fn digits_at_half(window_bits: u32) -> Vec<Scalar> {
    let base = Scalar::from(1 << window_bits);
    let digits = |digit: u64, count: u32| {
        (0..count).fold(Scalar::ZERO, |sum, _| sum * base + Scalar::from(digit))
    };
    let half = 1u64 << (window_bits - 1);
    // As many digits as stay below r, and one window more than half of them.
    let count = 253 / window_bits;
    let mut scalars = Vec::new();
    for digit in [half - 1, half, half + 1, (half << 1) - 1] {
        let scalar = digits(digit, count);
        scalars.extend([scalar, -scalar, digits(digit, count / 2 + 1), digits(digit, 1)]);
    }
    scalars
}

/// Every digit exactly half the window, one less, one more: carries that run to the top.
fn half_of_a_window<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let bases = known_bases::<C>(16, &mut f.rng);
    for window_bits in widths(f, &[2, 3, 4, 5, 7, 8, 10, 11, 13, 15, 16])? {
        let scalars = digits_at_half(window_bits);
        expect_width(f, "digits at half", window_bits, &scalars, &bases)?;
        // Alone as well, where summing empty buckets is cheap.
        for scalar in
            scalars.iter().filter(|_| window_bits <= 8).step_by(if f.is_naive() { 4 } else { 1 })
        {
            expect_width(f, &format!("{scalar:?}"), window_bits, &[*scalar], &bases)?;
        }
    }
    passed()
}

/// One bit each, at all places: each window alone, the partly filled top one too.
fn powers_of_two<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let bases = known_bases::<C>(510, &mut f.rng);
    let powers = std::iter::successors(Some(Scalar::ONE), |power| Some(power.double()));
    let scalars: Vec<_> = powers.take(255).flat_map(|power| [power, -power]).collect();
    expect(f, "powers of two", &scalars, &bases)?;
    for bit in [0, 1, 31, 32, 63, 64, 127, 128, 191, 192, 253, 254] {
        for scalar in &scalars[bit * 2..bit * 2 + 2] {
            expect(f, &format!("2^{bit} or its negative"), &[*scalar], &bases)?;
        }
    }
    passed()
}

fn every_window_width<C: CurveOracle>(f: &mut Fixture) -> Verdict {
    let bases = known_bases::<C>(150, &mut f.rng);
    let mut scalars = random_values(150, &mut f.rng);
    scalars[..3].copy_from_slice(&[Scalar::ZERO, Scalar::ONE, -Scalar::ONE]);
    let all: Vec<u32> = (1..=16).collect();
    for window_bits in widths(f, &all)? {
        expect_width(f, "random scalars", window_bits, &scalars, &bases)?;
    }
    passed()
}

/// Windows as GPUs take them for long MSMs, where the device is asked for them and has their room:
/// digits at half, and random scalars.
fn wide_windows<C: CurveOracle, const WINDOW_BITS: u32>(f: &mut Fixture) -> Verdict {
    let most = f.max_window_bits;
    if WINDOW_BITS > most {
        let reason = format!("at most {most} bits are asked of the device");
        return Ok(Completion::ignored_with(reason));
    }
    let layout = match f.device().msm_layout(C::GROUP, DigitsShape::new(150, WINDOW_BITS)) {
        Err(Error::Unsupported(reason)) => return Ok(Completion::ignored_with(reason)),
        layout => layout?,
    };
    let bytes = layout.accumulator_bytes
        + layout.accumulate_workspace_bytes
        + layout.reduce_workspace_bytes;
    let room_bytes = f.device().memory()?.free_bytes / 2;
    if bytes > room_bytes.min(f.device().info().max_region_bytes) {
        let reason = format!("buckets and workspaces take {bytes} bytes");
        return Ok(Completion::ignored_with(reason));
    }
    let bases = known_bases::<C>(150, &mut f.rng);
    let mut scalars = digits_at_half(WINDOW_BITS);
    scalars.extend(random_values(150 - scalars.len(), &mut f.rng));
    expect_width(f, "digits at half and random scalars", WINDOW_BITS, &scalars, &bases)?;
    passed()
}
