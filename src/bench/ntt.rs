//! NTTs.

use std::borrow::Cow;
use std::sync::Arc;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rand::rngs::OsRng;
use rayon::prelude::*;
use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::op::{Copy, Direction, Ntt, Order};
use twinlock_api::{Device, Error as DeviceError, FrView, MemoryClass, Op};

use super::room::Room;
use super::session::Session;
use super::{Measurement, Plan, Scalars, length, wrong};
use crate::views::{as_bytes, as_bytes_mut};
use crate::{Error, Result};

const SEED: u64 = 1;

pub(super) fn run(
    plan: &Plan,
    lg: u32,
    devices: &[Arc<dyn Device>],
    progress: &dyn Fn(u32, &str),
    out: &mut Vec<Measurement>,
) -> Result<()> {
    let len = length(lg)?;
    let mut kept = Vec::new();
    for device in devices {
        let named = |source| Error::Device { device: device.info().name.clone(), source };
        let outputs = Kept::of(plan, (len * size_of::<Scalar>()) as u64, &**device);
        kept.push(outputs.map_err(named)?);
    }
    for (device, kept) in devices.iter().zip(&kept) {
        room(*kept, lg, len, &**device)?.require(lg, &**device)?;
    }
    let input = Scalars::Random.sample(len, SEED);
    for (device, kept) in devices.iter().zip(kept) {
        progress(lg, &device.info().name);
        out.push(measure(plan, kept, lg, device, &input)?);
    }
    Ok(())
}

/// The outputs of runs that the device keeps until the host checks them.
#[derive(Clone, Copy)]
struct Kept {
    count: usize,
    /// From one to the next.
    stride_bytes: u64,
}

impl Kept {
    /// As many as fit in a quarter of the free memory and in one region, at least one.
    fn of(plan: &Plan, data_bytes: u64, device: &dyn Device) -> Result<Self, DeviceError> {
        let stride_bytes = data_bytes.next_multiple_of(ARENA_ALIGN_BYTES);
        let most_bytes = (device.memory()?.free_bytes / 4).min(device.info().max_region_bytes);
        let fit = usize::try_from(most_bytes / stride_bytes.max(1)).unwrap_or(usize::MAX);
        Ok(Self { count: fit.clamp(1, plan.iterations.max(1)), stride_bytes })
    }

    fn size_bytes(self) -> u64 {
        self.stride_bytes.saturating_mul(self.count as u64)
    }
}

/// The input, and an output that came back; on the device the data, the outputs and the scratch.
fn room(kept: Kept, lg: u32, len: usize, device: &dyn Device) -> Result<Room> {
    let data_bytes = (len * size_of::<Scalar>()) as u64;
    let named = |source| Error::Device { device: device.info().name.clone(), source };
    let layout = device.ntt_layout(lg).map_err(named)?;
    let device_bytes = [kept.size_bytes(), layout.workspace_bytes]
        .into_iter()
        .fold(data_bytes, u64::saturating_add);
    Ok(Room { host_bytes: 2 * data_bytes, device_bytes })
}

fn measure(
    plan: &Plan,
    kept: Kept,
    lg: u32,
    device: &Arc<dyn Device>,
    input: &[Scalar],
) -> Result<Measurement> {
    let data_bytes = size_of_val(input) as u64;
    let named = |source| Error::Device { device: device.info().name.clone(), source };
    let mut session = Session::new(device, plan.timeout, plan.steps)?;
    let layout = device.ntt_layout(lg).map_err(named)?;
    let lease = session.buffer("ntt_data", MemoryClass::Work, data_bytes).map_err(named)?;
    let data = FrView::new(lease.view()).map_err(named)?;
    let workspace = session.buffer("ntt_workspace", MemoryClass::Work, layout.workspace_bytes);
    let workspace = workspace.map_err(named)?;
    let outputs = session.buffer("ntt_outputs", MemoryClass::Work, kept.size_bytes());
    let outputs = outputs.map_err(named)?;
    let output = |at: usize| outputs.view().slice(at as u64 * kept.stride_bytes, data_bytes);
    let ntt = |direction, orders| {
        Ntt::new(&layout, data, direction, false, orders, workspace.view()).map(Op::Ntt)
    };
    let forward = ntt(Direction::Forward, (Order::Natural, Order::BitReversed)).map_err(named)?;
    let back = ntt(Direction::Inverse, (Order::BitReversed, Order::Natural)).map_err(named)?;

    session.upload(data.view(), as_bytes(input)).map_err(named)?;
    let mut found = vec![Scalar::ZERO; input.len()];
    let times = session.time(
        (plan.iterations, kept.count),
        |session| {
            session.step("ntt", &forward)?;
            session.finish()
        },
        |session, at, ()| {
            session.step("keep", &Op::Copy(Copy::new(data.view(), output(at)?)?))?;
            // An input that does not come back shows in the next output.
            session.step("back", &back)?;
            session.finish()
        },
        |session, at, ()| {
            let output = output(at).map_err(named)?;
            session.download_into(output, as_bytes_mut(&mut found)).map_err(named)?;
            match is_spectrum(input, &found, Scalar::random(OsRng)) {
                true => Ok(()),
                false => Err(wrong(&**device, lg, "ntt")),
            }
        },
    )?;
    let steps = session.clock.steps();
    Ok(Measurement::new(lg, &**device, times, steps))
}

/// Whether `output` holds the values of the polynomial `input` at powers of omega, in bit-reversed
/// order: the polynomial of these values is compared with `input` at `x`. Of a random `x` a wrong
/// output passes with a probability of less than 2^-220.
fn is_spectrum(input: &[Scalar], output: &[Scalar], x: Scalar) -> bool {
    const LG_BLOCK: u32 = 12;
    output.len() == input.len()
        && are_reduced(output)
        && interpolate(output, x, LG_BLOCK) == evaluate(input, x)
}

/// Whether memory that a device wrote holds numbers below r.
fn are_reduced(elements: &[Scalar]) -> bool {
    let most = (-Scalar::ONE).to_repr();
    // Little-endian: the last byte counts most.
    let most = || most.as_ref().iter().rev();
    let bytes = as_bytes(elements).par_chunks(size_of::<Scalar>());
    bytes.all(|element| element.iter().rev().le(most()))
}

/// The primitive root of unity of order 2^`lg`.
fn root_of_unity(lg: u32) -> Scalar {
    (lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square())
}

/// The `bits` lowest bits of `i`, the other way round.
fn reversed(i: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

/// The value at `x` of the polynomial f of degree below n whose values at the n-th roots of unity
/// are given, in bit-reversed order; n is a power of two.
///
/// f(x) = g(x^2) for the g of half the degree with
/// 2 g(y^2) = (f(y) + f(-y)) + (f(y) - f(-y)) x / y. In bit-reversed order f(y) and f(-y) are
/// neighbours and the values of g come out in bit-reversed order again. Blocks of 2^`lg_block`
/// values, each those at c times the roots of that order, shrink to one value apart.
fn interpolate(values: &[Scalar], mut x: Scalar, lg_block: u32) -> Scalar {
    let mut lg = values.len().max(1).ilog2();
    let mut scale = Scalar::from(values.len() as u64);
    scale = scale.invert().unwrap_or(Scalar::ZERO);
    let mut values = Cow::Borrowed(values);
    while lg > 0 {
        let lg_within = lg.min(lg_block.max(1));
        let lg_blocks = lg - lg_within;
        let half = 1 << (lg_within - 1);
        // Inverses of what blocks start with and of the roots within; powers of roots are never 0.
        let between = root_of_unity(lg).invert().unwrap_or(Scalar::ZERO);
        let within = root_of_unity(lg_within).invert().unwrap_or(Scalar::ZERO);
        let inverses: Vec<Scalar> =
            (0..half).map(|j| within.pow_vartime([reversed(j, lg_within - 1) as u64])).collect();
        let shrink = |(number, block): (usize, &[Scalar])| {
            let mut factor = x * between.pow_vartime([reversed(number, lg_blocks) as u64]);
            let mut block = block.to_vec();
            while block.len() > 1 {
                let pairs = block.chunks_exact(2).zip(&inverses);
                block = pairs
                    .map(|(pair, inverse)| {
                        pair[0] + pair[1] + (pair[0] - pair[1]) * inverse * factor
                    })
                    .collect();
                factor = factor.square();
            }
            block.first().copied().unwrap_or_default()
        };
        values = values.par_chunks(2 * half).enumerate().map(shrink).collect::<Vec<_>>().into();
        x = (0..lg_within).fold(x, |x, _| x.square());
        lg = lg_blocks;
    }
    scale * values.first().copied().unwrap_or_default()
}

/// The polynomial with these coefficients at `x`, by Horner's rule on blocks.
fn evaluate(coefficients: &[Scalar], x: Scalar) -> Scalar {
    const BLOCK: usize = 1 << 12;
    let block = |(at, block): (usize, &[Scalar])| {
        let value = block.iter().rev().fold(Scalar::ZERO, |sum, c| sum * x + c);
        value * x.pow_vartime([(at * BLOCK) as u64])
    };
    coefficients.par_chunks(BLOCK).enumerate().map(block).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Straight from the definition.
    fn dft_bit_reversed(input: &[Scalar], lg: u32) -> Vec<Scalar> {
        let omega = root_of_unity(lg);
        let mut output = vec![Scalar::ZERO; input.len()];
        for i in 0..input.len() {
            output[reversed(i, lg)] = (input.iter().enumerate())
                .map(|(j, c)| *c * omega.pow_vartime([(i * j) as u64]))
                .sum();
        }
        output
    }

    #[test]
    fn the_oracle_tells_right_from_wrong() {
        for lg in 0..=6 {
            let input = Scalars::Random.sample(1 << lg, 7);
            let x = Scalar::random(OsRng);
            let right = dft_bit_reversed(&input, lg);
            assert!(is_spectrum(&input, &right, x), "lg {lg}");
            for at in 0..right.len() {
                let mut output = right.clone();
                output[at] += Scalar::ONE;
                assert!(!is_spectrum(&input, &output, x), "lg {lg}, {at}");
            }
            assert!(!is_spectrum(&input, &[], x), "lg {lg}");
        }
    }

    #[test]
    fn interpolation_does_not_depend_on_blocks() {
        for lg in 0..=8 {
            let input = Scalars::Random.sample(1 << lg, 9);
            let output = dft_bit_reversed(&input, lg);
            // Also at a root of unity, where a quotient would have no value.
            for x in [Scalar::random(OsRng), Scalar::ZERO, Scalar::ONE, root_of_unity(lg)] {
                for lg_block in [1, 2, 3, 5, 12] {
                    let found = interpolate(&output, x, lg_block);
                    assert_eq!(found, evaluate(&input, x), "lg {lg}, blocks of 2^{lg_block}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_r_and_more_are_seen() {
        let mut element = [-Scalar::ONE];
        assert!(are_reduced(&element) && are_reduced(&[Scalar::ZERO]));
        let mut bytes = (-Scalar::ONE).to_repr();
        as_bytes_mut(&mut element).copy_from_slice(bytes.as_ref());
        assert!(are_reduced(&element));
        // r is odd, so r - 1 + 1 carries nothing.
        bytes.as_mut()[0] += 1;
        as_bytes_mut(&mut element).copy_from_slice(bytes.as_ref());
        assert!(!are_reduced(&element));
        assert!(!is_spectrum(&[Scalar::ZERO], &element, Scalar::ONE));
    }

    #[test]
    fn blocks_do_not_show() {
        let input = Scalars::Random.sample(10_000, 8);
        let x = Scalar::from(3);
        let naive = input.iter().rev().fold(Scalar::ZERO, |sum, c| sum * x + c);
        assert_eq!(evaluate(&input, x), naive);
    }
}
