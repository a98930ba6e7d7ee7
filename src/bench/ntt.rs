//! NTTs.

use std::sync::Arc;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;
use twinlock_api::op::{Direction, Ntt, Order};
use twinlock_api::{Device, FrView, MemoryClass, Op};

use super::room::Room;
use super::session::Session;
use super::{Measurement, Plan, Scalars, length, wrong};
use crate::views::as_bytes;
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
    for device in devices {
        room(lg, len, &**device)?.require(lg, &**device)?;
    }
    let input = Scalars::Random.sample(len, SEED);
    for device in devices {
        progress(lg, &device.info().name);
        out.push(measure(plan, lg, device, &input)?);
    }
    Ok(())
}

/// The input, and what comes back of it; on the device the data and the scratch.
fn room(lg: u32, len: usize, device: &dyn Device) -> Result<Room> {
    let data_bytes = (len * size_of::<Scalar>()) as u64;
    let layout = (device.ntt_layout(lg))
        .map_err(|source| Error::Device { device: device.info().name.clone(), source })?;
    let device_bytes = data_bytes.saturating_add(layout.workspace_bytes);
    Ok(Room { host_bytes: 2 * data_bytes, device_bytes })
}

fn measure(
    plan: &Plan,
    lg: u32,
    device: &Arc<dyn Device>,
    input: &[Scalar],
) -> Result<Measurement> {
    let mut session = Session::new(device, plan.timeout, plan.steps)?;
    let named = |source| Error::Device { device: device.info().name.clone(), source };
    let layout = device.ntt_layout(lg).map_err(named)?;
    let lease = session.buffer("ntt_data", MemoryClass::Work, size_of_val(input) as u64);
    let lease = lease.map_err(named)?;
    let data = FrView::new(lease.view()).map_err(named)?;
    let workspace = session.buffer("ntt_workspace", MemoryClass::Work, layout.workspace_bytes);
    let workspace = workspace.map_err(named)?;
    let ntt = |direction, orders| {
        Ntt::new(&layout, data, direction, false, orders, workspace.view()).map(Op::Ntt)
    };
    let forward = ntt(Direction::Forward, (Order::Natural, Order::BitReversed)).map_err(named)?;
    let back = ntt(Direction::Inverse, (Order::BitReversed, Order::Natural)).map_err(named)?;

    session.upload(data.view(), as_bytes(input)).map_err(named)?;
    let times = session.time(
        plan.iterations,
        |session| {
            session.step("ntt", &forward)?;
            session.finish()
        },
        |session, ()| {
            let output = session.download(data.view()).map_err(named)?;
            if !is_spectrum(input, &output, lg) {
                return Err(wrong(&**device, lg, "ntt"));
            }
            let restored = session.step("intt", &back).and_then(|()| session.download(data.view()));
            if restored.map_err(named)? != as_bytes(input) {
                return Err(wrong(&**device, lg, "intt"));
            }
            Ok(())
        },
    )?;
    let steps = session.clock.steps();
    Ok(Measurement::new(lg, &**device, times, steps))
}

/// Whether `output` holds the values of the polynomial `input` at powers of omega, in bit-reversed
/// order: compared at some places. With the way back tested too, little can hide.
fn is_spectrum(input: &[Scalar], output: &[u8], lg: u32) -> bool {
    let omega = (lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
    let len = input.len();
    let spread = 0x9e37_79b9_7f4a_7c15_u64 as usize % len;
    [0, 1 % len, len / 2, spread, len - 1].into_iter().all(|i| {
        let at = if lg == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - lg) };
        let found = output.get(at * size_of::<Scalar>()..).and_then(|rest| rest.first_chunk());
        let value = [evaluate(input, omega.pow_vartime([i as u64]))];
        found.is_some_and(|found: &[u8; 32]| found[..] == *as_bytes(&value))
    })
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
        let omega = (lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
        let mut output = vec![Scalar::ZERO; input.len()];
        for i in 0..input.len() {
            let at = if lg == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - lg) };
            output[at] = (input.iter().enumerate())
                .map(|(j, c)| *c * omega.pow_vartime([(i * j) as u64]))
                .sum();
        }
        output
    }

    #[test]
    fn the_oracle_tells_right_from_wrong() {
        for lg in 0..=6 {
            let input = Scalars::Random.sample(1 << lg, 7);
            let mut output = dft_bit_reversed(&input, lg);
            assert!(is_spectrum(&input, as_bytes(&output), lg), "lg {lg}");
            output[0] += Scalar::ONE;
            assert!(!is_spectrum(&input, as_bytes(&output), lg), "lg {lg}");
            assert!(!is_spectrum(&input, &[], lg), "lg {lg}");
        }
    }

    #[test]
    fn blocks_do_not_show() {
        let input = Scalars::Random.sample(10_000, 8);
        let x = Scalar::from(3);
        let naive = input.iter().rev().fold(Scalar::ZERO, |sum, c| sum * x + c);
        assert_eq!(evaluate(&input, x), naive);
    }
}
