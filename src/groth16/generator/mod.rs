//! Keys for any circuit, **for tests and demonstrations only**.
//!
//! Whoever makes a key this way knows its trapdoor and can prove anything under it. A key that
//! others are to trust comes from a ceremony of several parties.
//!
//! The construction is Groth's (<https://eprint.iacr.org/2016/260>) in the form that bellperson
//! uses, so that either prover works with either's keys; the same trapdoor gives the same key,
//! point for point.

mod assembly;
mod qap;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bellpepper_core::{Circuit, SynthesisError};
use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::Field;
use group::{Curve, Group};
use rand::RngCore;
use rayon::prelude::*;
use twinlock_cpu::field::{Coordinate, Fp, Fp2, Fr};
use twinlock_cpu::fixed_base::FixedBase;

use super::assignment::secret;
use super::params::{Parameters, VerifyingKey};
use crate::views::{self, Canonical};
use crate::{Error, Result};
use assembly::Assembly;
use qap::{Domain, Qap};

/// Points between two reports of progress.
const REPORT_POINTS: usize = 1 << 14;

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

/// [`generate_parameters`] from a given trapdoor.
///
/// # Errors
/// As there, and [`Error::Key`] for a trapdoor with a zero in it, or a tau in the domain.
pub fn generate_parameters_from<C: Circuit<Scalar>>(
    circuit: C,
    waste: &ToxicWaste,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Parameters> {
    waste.check()?;
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
    let meter = Meter { done: AtomicU64::new(0), total: (in_g1 + b.len()) as u64, progress };
    let g1 = FixedBase::<Fp>::new(&affine(&waste.g1.to_affine()), in_g1);
    let g2 = FixedBase::<Fp2>::new(&affine(&waste.g2.to_affine()), b.len());
    let h_query = multiples(&g1, &mut h, &meter)?;
    let (ic, l) = external.split_at_mut(inputs);
    let ic = multiples(&g1, ic, &meter)?;
    let l = multiples(&g1, l, &meter)?;
    let a = multiples(&g1, &mut a, &meter)?;
    let b_g2 = multiples(&g2, &mut b.clone(), &meter)?;
    let b_g1 = multiples(&g1, &mut b, &meter)?;
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
    let g1 = FixedBase::<Fp>::new(&affine(&waste.g1.to_affine()), external.len());
    let meter =
        Meter { done: AtomicU64::new(0), total: external.len() as u64, progress: &|_, _| {} };
    let ic = multiples(&g1, &mut external, &meter)?;
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

/// A point type of blstrs and the field of its coordinates.
trait Point<F>: Canonical + Default {}

impl Point<Fp> for G1Affine {}
impl Point<Fp2> for G2Affine {}

fn affine<F: Coordinate, P: Point<F>>(point: &P) -> twinlock_cpu::field::Affine<F> {
    bytemuck::pod_read_unaligned(views::as_bytes(std::slice::from_ref(point)))
}

struct Meter<'a> {
    done: AtomicU64,
    total: u64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// The multiples of the table's base by `scalars`, which are wiped.
fn multiples<F: Coordinate, P: Point<F>>(
    table: &FixedBase<F>,
    scalars: &mut [Scalar],
    meter: &Meter<'_>,
) -> Result<Vec<P>> {
    let mut points = vec![P::default(); scalars.len()];
    for (points, scalars) in points.chunks_mut(REPORT_POINTS).zip(scalars.chunks(REPORT_POINTS)) {
        let scalars: &[Fr] = bytemuck::cast_slice(views::as_bytes(scalars));
        let out = bytemuck::cast_slice_mut(views::as_bytes_mut(points));
        table.multiples(scalars, out).map_err(|error| Error::Invalid {
            what: "fixed base".into(),
            problem: error.to_string(),
        })?;
        let step = scalars.len() as u64;
        (meter.progress)(meter.done.fetch_add(step, Ordering::Relaxed) + step, meter.total);
    }
    secret::wipe(scalars);
    Ok(points)
}
