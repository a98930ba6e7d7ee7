//! Proofs of `mix`.

use std::sync::Arc;

use blstrs::Scalar;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use twinlock_api::{Device, Error as DeviceError};

use super::{Measurement, Plan, Step, median_ms};
use crate::circuits::mix::{Mix, MixShape};
use crate::groth16::assignment::Assignment;
use crate::groth16::generator::generate_parameters_on;
use crate::groth16::params::Parameters;
use crate::groth16::proof::Proof;
use crate::{Error, Prover, ProverOptions, Result};

const SEED: u64 = 2;

pub(super) fn run(
    plan: &Plan,
    lg: u32,
    devices: &[Arc<dyn Device>],
    progress: &dyn Fn(u32, &str),
    out: &mut Vec<Measurement>,
) -> Result<()> {
    let shape = MixShape::new(lg, plan.scalars.profile())?;
    shape.require_key_room()?;
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    progress(lg, "key");
    let params = key(devices, shape, &mut rng)?;
    let assignment = Mix::random(shape, &mut rng).assignment()?;
    let mut first = None;
    for device in devices {
        progress(lg, &device.info().name);
        let (measurement, proof) = measure(plan, lg, device, &params, &assignment)?;
        // Of one witness with the same blinding there is one proof.
        if *first.get_or_insert(proof) != proof {
            return Err(super::wrong(&**device, lg, "proof"));
        }
        out.push(measurement);
    }
    Ok(())
}

/// A key, its points made by the first device that can.
pub(super) fn key(
    devices: &[Arc<dyn Device>],
    shape: MixShape,
    rng: &mut ChaCha20Rng,
) -> Result<Parameters> {
    for device in devices {
        let key =
            generate_parameters_on(Some(device), Mix::blank(shape), &mut rng.clone(), &|_, _| ());
        if !matches!(key, Err(Error::Device { source: DeviceError::Unsupported(_), .. })) {
            return key;
        }
    }
    generate_parameters_on(None, Mix::blank(shape), rng, &|_, _| ())
}

fn measure(
    plan: &Plan,
    lg: u32,
    device: &Arc<dyn Device>,
    params: &Parameters,
    assignment: &Assignment,
) -> Result<(Measurement, Proof)> {
    let options = ProverOptions {
        timeout: plan.timeout,
        base_tables: plan.base_tables,
        ..ProverOptions::default()
    };
    let prover = Prover::with_devices(vec![device.clone()], options)?;
    let key = prover.load(params)?;
    let (mut times, mut checks) = (Vec::new(), Vec::new());
    let mut prove = |blinding: u64| {
        let (r, s) = (Scalar::from(blinding + 1), Scalar::from(blinding + 2));
        let proved = prover.prove(&key, assignment, r, s)?;
        if let [failed, ..] = &proved.failed_attempts[..] {
            return Err(Error::InvalidProof { attempts: failed.clone() });
        }
        times.push(proved.prove_time);
        checks.push(proved.check_time);
        Ok(proved.proof)
    };
    // The prover checks every proof; the first one warms up and is compared between devices.
    let proof = prove(0)?;
    for iteration in 1..=plan.iterations {
        prove(iteration as u64)?;
    }
    times.remove(0);
    checks.remove(0);
    let steps = vec![Step { name: "check", median_ms: median_ms(checks) }];
    let steps = if plan.steps { steps } else { Vec::new() };
    Ok((Measurement::new(lg, &**device, times, steps), proof))
}
