//! Keys for any circuit, **for tests and demonstrations only**.
//!
//! Whoever makes a key this way knows its trapdoor and can prove anything under it. A key that
//! others are to trust comes from a ceremony of several parties.
//!
//! The construction is Groth's (<https://eprint.iacr.org/2016/260>) in the form that bellperson
//! uses, so that either prover works with either's keys; the same trapdoor gives the same key,
//! point for point.

mod assembly;
pub(crate) mod multiples;
mod qap;

use std::fmt;
use std::sync::Arc;

use bellpepper_core::{Circuit, SynthesisError};
use blstrs::{G1Affine, G1Projective, G2Projective, Scalar};
use ff::Field;
use group::{Curve, Group};
use rand::RngCore;
use rayon::prelude::*;
use twinlock_api::Device;

use super::assignment::secret;
use super::params::{Parameters, VerifyingKey};
use crate::{Error, Result};
use assembly::Assembly;
use multiples::{Maker, Meter};
use qap::{Domain, Qap};

/// The trapdoor of a key. Scalars are wiped when it is dropped, and `Debug` shows none.
pub struct ToxicWaste {
    /// The generator of G1 that the key is built on.
    pub g1: G1Projective,
    /// The generator of G2.
    pub g2: G2Projective,
    /// alpha
    pub alpha: Scalar,
    /// beta
    pub beta: Scalar,
    /// gamma
    pub gamma: Scalar,
    /// delta
    pub delta: Scalar,
    /// tau, the point at which the program's polynomials are evaluated.
    pub tau: Scalar,
}

impl ToxicWaste {
    /// Draws a trapdoor, in bellperson's order: the same generator gives the same key as its
    /// `generate_random_parameters`.
    pub fn random(rng: &mut dyn RngCore) -> Self {
        Self {
            g1: G1Projective::random(&mut *rng),
            g2: G2Projective::random(&mut *rng),
            alpha: Scalar::random(&mut *rng),
            beta: Scalar::random(&mut *rng),
            gamma: Scalar::random(&mut *rng),
            delta: Scalar::random(&mut *rng),
            tau: Scalar::random(&mut *rng),
        }
    }

    /// Refuses zeros, with which a key would be degenerate.
    fn check(&self) -> Result<()> {
        let zeros = [
            ("g1", self.g1.is_identity().into()),
            ("g2", self.g2.is_identity().into()),
            ("alpha", self.alpha == Scalar::ZERO),
            ("beta", self.beta == Scalar::ZERO),
            ("gamma", self.gamma == Scalar::ZERO),
            ("delta", self.delta == Scalar::ZERO),
            ("tau", self.tau == Scalar::ZERO),
        ];
        match zeros.into_iter().find(|(_, zero)| *zero) {
            Some((name, _)) => Err(Error::Key(format!("{name} is zero"))),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ToxicWaste {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToxicWaste").finish_non_exhaustive()
    }
}

impl Drop for ToxicWaste {
    fn drop(&mut self) {
        for scalar in
            [&mut self.alpha, &mut self.beta, &mut self.gamma, &mut self.delta, &mut self.tau]
        {
            secret::wipe(std::slice::from_mut(scalar));
        }
    }
}

/// Makes a key for `circuit` from a fresh trapdoor out of `rng`; for tests and demonstrations
/// only (see the [module](self)). The circuit needs no witness. `progress` is called, from any
/// thread, with the points made and the points of the whole key.
///
/// # Errors
/// What the circuit reports; [`Error::Synthesis`] of `UnconstrainedVariable` for a witness
/// variable in no constraint; [`Error::Limit`] for too many rows.
pub fn generate_parameters<C: Circuit<Scalar>>(
    circuit: C,
    rng: &mut dyn RngCore,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Parameters> {
    generate_parameters_from(circuit, &ToxicWaste::random(rng), progress)
}

/// [`generate_parameters`] with a device to make the points, `None` for the host: the same key.
///
/// # Errors
/// As there, and [`Error::Device`] for what the device answers; `Unsupported` where it has no
/// [`FixedBase`](twinlock_api::op::FixedBase).
pub fn generate_parameters_on<C: Circuit<Scalar>>(
    device: Option<&Arc<dyn Device>>,
    circuit: C,
    rng: &mut dyn RngCore,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Parameters> {
    generate(device, circuit, &ToxicWaste::random(rng), progress)
}

/// [`generate_parameters`] from a given trapdoor.
///
/// # Errors
/// As there, and [`Error::Key`] for a trapdoor with a zero in it, or a tau in the domain.
pub fn generate_parameters_from<C: Circuit<Scalar>>(
    circuit: C,
    waste: &ToxicWaste,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Parameters> {
    generate(None, circuit, waste, progress)
}

fn generate<C: Circuit<Scalar>>(
    device: Option<&Arc<dyn Device>>,
    circuit: C,
    waste: &ToxicWaste,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Parameters> {
    waste.check()?;
    let maker = Maker::new(device)?;
    let assembly = Assembly::of(circuit, false)?;
    let domain = Domain::for_rows(assembly.rows());
    let inputs = assembly.inputs;
    let qap = Qap::evaluate(&assembly, inputs + assembly.witness, domain, &waste.tau)?;
    drop(assembly);
    let mut external = external(&qap, inputs, waste)?;
    // A variable that is in no constraint, or whose terms cancel.
    if external.iter().skip(inputs).any(|value| *value == Scalar::ZERO) {
        secret::wipe(&mut external);
        return Err(SynthesisError::UnconstrainedVariable.into());
    }
    let [mut a, mut b] = [0, 1].map(|side: usize| non_zero(&qap.sides[side]));
    drop(qap);
    let scale = domain.vanishing(&waste.tau) * inverse("delta", &waste.delta)?;
    let mut h = domain.scaled_powers(&waste.tau, &scale);

    let in_g1 = h.len() + external.len() + a.len() + b.len();
    let meter = Meter::new((in_g1 + b.len()) as u64, progress);
    let g1 = maker.base(&waste.g1.to_affine(), in_g1);
    let g2 = maker.base(&waste.g2.to_affine(), b.len());
    let mut b_again = b.clone();
    let (ic, l) = external.split_at_mut(inputs);
    let mut points = || -> Result<_> {
        Ok((
            g1.multiples(&mut h, &meter)?,
            g1.multiples(ic, &meter)?,
            g1.multiples(l, &meter)?,
            g1.multiples(&mut a, &meter)?,
            g1.multiples(&mut b, &meter)?,
            g2.multiples(&mut b_again, &meter)?,
        ))
    };
    let points = points();
    // After a failure some are left.
    [h, external, a, b, b_again].iter_mut().for_each(|scalars| secret::wipe(scalars));
    let (h_query, ic, l, a, b_g1, b_g2) = points?;
    Ok(Parameters { vk: verifying_key(waste, ic), h: h_query, l, a, b_g1, b_g2 })
}

/// Makes only the verifying key that [`generate_parameters`] would make from the same `rng`. It
/// costs little more than a synthesis.
///
/// # Errors
/// As [`generate_parameters`], but a witness variable in no constraint is not noticed.
pub fn generate_verifying_key<C: Circuit<Scalar>>(
    circuit: C,
    rng: &mut dyn RngCore,
) -> Result<VerifyingKey> {
    let waste = ToxicWaste::random(rng);
    waste.check()?;
    let assembly = Assembly::of(circuit, true)?;
    let domain = Domain::for_rows(assembly.rows());
    let qap = Qap::evaluate(&assembly, assembly.inputs, domain, &waste.tau)?;
    let mut external = external(&qap, assembly.inputs, &waste)?;
    let maker = Maker::Host;
    let g1 = maker.base(&waste.g1.to_affine(), external.len());
    let meter = Meter::new(external.len() as u64, &|_, _| {});
    let ic = g1.multiples(&mut external, &meter)?;
    Ok(verifying_key(&waste, ic))
}

/// `(beta * A_i + alpha * B_i + C_i)`, over gamma for inputs and over delta for the witness.
fn external(qap: &Qap, inputs: usize, waste: &ToxicWaste) -> Result<Vec<Scalar>> {
    let over_gamma = inverse("gamma", &waste.gamma)?;
    let over_delta = inverse("delta", &waste.delta)?;
    let [a, b, c] = &qap.sides;
    let mut values = vec![Scalar::ZERO; a.len()];
    values.par_iter_mut().zip(a).zip(b).zip(c).enumerate().for_each(
        |(at, (((value, a), b), c))| {
            let over = if at < inputs { over_gamma } else { over_delta };
            *value = (waste.beta * a + waste.alpha * b + c) * over;
        },
    );
    Ok(values)
}

/// The values of the variables that are in a query.
fn non_zero(values: &[Scalar]) -> Vec<Scalar> {
    let mut kept = Vec::with_capacity(values.len());
    kept.extend(values.iter().copied().filter(|value| *value != Scalar::ZERO));
    kept
}

fn inverse(name: &str, value: &Scalar) -> Result<Scalar> {
    Option::from(value.invert()).ok_or_else(|| Error::Key(format!("{name} is zero")))
}

fn verifying_key(waste: &ToxicWaste, ic: Vec<G1Affine>) -> VerifyingKey {
    VerifyingKey {
        alpha_g1: (waste.g1 * waste.alpha).to_affine(),
        beta_g1: (waste.g1 * waste.beta).to_affine(),
        beta_g2: (waste.g2 * waste.beta).to_affine(),
        gamma_g2: (waste.g2 * waste.gamma).to_affine(),
        delta_g1: (waste.g1 * waste.delta).to_affine(),
        delta_g2: (waste.g2 * waste.delta).to_affine(),
        ic,
    }
}
