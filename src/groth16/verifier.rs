//! Verification of proofs, one by one and in batches.

use blstrs::{Bls12, G1Affine, G1Projective, G2Prepared, Gt, Scalar, pairing};
use ff::Field;
use group::Curve;
use pairing::{MillerLoopResult, MultiMillerLoop};
use rand::RngCore;
use rand::rngs::OsRng;
use rayon::prelude::*;

use super::params::VerifyingKey;
use super::proof::Proof;
use crate::{Error, Result, host_threads};

type MillerLoop = <Bls12 as MultiMillerLoop>::Result;

/// A verifying key with what all verifications share computed once.
#[derive(Clone, Debug)]
pub struct PreparedVerifyingKey {
    /// e(alpha, beta)
    alpha_beta: Gt,
    neg_gamma_g2: G2Prepared,
    neg_delta_g2: G2Prepared,
    ic: Vec<G1Projective>,
}

impl PreparedVerifyingKey {
    /// The number of public inputs of a proof, the constant ONE not counted.
    pub fn num_public_inputs(&self) -> usize {
        self.ic.len().saturating_sub(1)
    }
}

/// Validates a verifying key and prepares it.
///
/// # Errors
/// [`Error::Key`] as from [`VerifyingKey::validate`].
pub fn prepare_verifying_key(vk: &VerifyingKey) -> Result<PreparedVerifyingKey> {
    vk.validate()?;
    Ok(PreparedVerifyingKey {
        alpha_beta: pairing(&vk.alpha_g1, &vk.beta_g2),
        neg_gamma_g2: (-vk.gamma_g2).into(),
        neg_delta_g2: (-vk.delta_g2).into(),
        ic: vk.ic.iter().map(G1Projective::from).collect(),
    })
}

/// Whether `proof` proves the statement with these public inputs, the constant ONE left out:
/// e(A, B) = e(alpha, beta) * e(sum of input_i * ic_i, gamma) * e(C, delta).
///
/// A proof with a point off its curve or outside its subgroup, or with an identity, is not valid.
///
/// # Errors
/// [`Error::Shape`] if the number of inputs is not the key's.
pub fn verify_proof(
    pvk: &PreparedVerifyingKey,
    proof: &Proof,
    public_inputs: &[Scalar],
) -> Result<bool> {
    if public_inputs.len() != pvk.num_public_inputs() {
        let (expected, found) = (pvk.num_public_inputs(), public_inputs.len());
        return Err(Error::shape("public inputs", expected, found));
    }
    if proof.validate().is_err() {
        return Ok(false);
    }
    let left = || Bls12::multi_miller_loop(&[(&proof.a, &proof.b.into())]);
    let right = || {
        let scalars = [&[Scalar::ONE], public_inputs].concat();
        let inputs = G1Projective::multi_exp(&pvk.ic, &scalars).to_affine();
        Bls12::multi_miller_loop(&[(&inputs, &pvk.neg_gamma_g2), (&proof.c, &pvk.neg_delta_g2)])
    };
    let (ab, rest) = host_threads::WORK.install(|| rayon::join(left, right));
    Ok((ab + rest).final_exponentiation() == pvk.alpha_beta)
}

/// Whether all proofs are valid, each for the public inputs at its place: one equation, the sum
/// of all with random coefficients of 128 bits from the operating system's generator. Accepts a
/// batch with an invalid proof with probability 2^-128; does not tell which one is invalid.
///
/// # Errors
/// [`Error::Shape`] for an empty batch (verifying nothing is more likely a mistake than a
/// success), another number of input lists than of proofs, or a list whose length is not the
/// key's. [`Error::Io`] if the generator fails.
pub fn verify_proofs_batch<I: AsRef<[Scalar]>>(
    pvk: &PreparedVerifyingKey,
    proofs: &[Proof],
    public_inputs: &[I],
) -> Result<bool> {
    if proofs.is_empty() {
        return Err(Error::shape("proofs in a batch, at least", 1, 0));
    }
    if proofs.len() != public_inputs.len() {
        let found = public_inputs.len();
        return Err(Error::shape("lists of public inputs in a batch", proofs.len(), found));
    }
    let expected = pvk.num_public_inputs();
    for (i, inputs) in public_inputs.iter().enumerate() {
        let found = inputs.as_ref().len();
        if found != expected {
            return Err(Error::shape(format!("public inputs of proof {i}"), expected, found));
        }
    }
    if proofs.par_iter().any(|proof| proof.validate().is_err()) {
        return Ok(false);
    }

    let coefficients = random_coefficients(proofs.len())?;
    let sum: Scalar = coefficients.iter().sum();
    let mut input_scalars = vec![Scalar::ZERO; expected];
    for (inputs, coefficient) in public_inputs.iter().zip(&coefficients) {
        for (scalar, input) in input_scalars.iter_mut().zip(inputs.as_ref()) {
            *scalar += input * coefficient;
        }
    }
    input_scalars.insert(0, sum);
    let inputs = G1Projective::multi_exp(&pvk.ic, &input_scalars).to_affine();
    let c: Vec<G1Projective> = proofs.iter().map(|proof| proof.c.into()).collect();
    let c = G1Projective::multi_exp(&c, &coefficients).to_affine();

    let ab = proofs
        .par_iter()
        .zip(&coefficients)
        .map(|(proof, coefficient)| {
            let a: G1Affine = (proof.a * coefficient).to_affine();
            Bls12::multi_miller_loop(&[(&a, &proof.b.into())])
        })
        .reduce(MillerLoop::default, |x, y| x + y);
    let rest = Bls12::multi_miller_loop(&[(&inputs, &pvk.neg_gamma_g2), (&c, &pvk.neg_delta_g2)]);
    Ok((ab + rest).final_exponentiation() == pvk.alpha_beta * sum)
}

/// Scalars of 128 bits that are not zero.
fn random_coefficients(count: usize) -> Result<Vec<Scalar>> {
    let two_to_64 = Scalar::from(1 << 32).square();
    let mut coefficients = Vec::with_capacity(count);
    while coefficients.len() < count {
        let mut bytes = [0; 16];
        OsRng.try_fill_bytes(&mut bytes).map_err(|e| {
            Error::io("the operating system's random generator", std::io::Error::other(e))
        })?;
        let value = u128::from_le_bytes(bytes);
        if value != 0 {
            let [low, high] = [value as u64, (value >> 64) as u64].map(Scalar::from);
            coefficients.push(low + high * two_to_64);
        }
    }
    Ok(coefficients)
}
