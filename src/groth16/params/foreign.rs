//! bellperson's keys and proofs, without a copy of the queries.

use std::sync::Arc;

use bellperson::groth16;
use blstrs::Bls12;

use super::key::copy_points;
use super::{ParameterSource, PointEncoding, Query, VerifyingKey};
use crate::Result;
use crate::groth16::proof::Proof;
use crate::views::as_bytes;

/// bellperson's own parameters as a source of ours.
pub struct BellpersonParameters {
    key: Arc<groth16::Parameters<Bls12>>,
    vk: VerifyingKey,
}

impl BellpersonParameters {
    /// Shares `key`; only the verifying key is copied. Nothing is checked.
    pub fn new(key: Arc<groth16::Parameters<Bls12>>) -> Self {
        let vk = VerifyingKey::from(&key.vk);
        Self { key, vk }
    }

    fn query_bytes(&self, query: Query) -> &[u8] {
        match query {
            Query::H => as_bytes(&self.key.h),
            Query::L => as_bytes(&self.key.l),
            Query::A => as_bytes(&self.key.a),
            Query::BG1 => as_bytes(&self.key.b_g1),
            Query::BG2 => as_bytes(&self.key.b_g2),
        }
    }
}

impl ParameterSource for BellpersonParameters {
    fn name(&self) -> &str {
        "bellperson parameters in memory"
    }

    fn verifying_key(&self) -> &VerifyingKey {
        &self.vk
    }

    fn query_len(&self, query: Query) -> usize {
        self.query_bytes(query).len() / query.point_bytes()
    }

    fn encoding(&self) -> PointEncoding {
        PointEncoding::Canonical
    }

    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()> {
        copy_points(self.name(), query, self.query_bytes(query), first, out)
    }
}

impl From<&groth16::VerifyingKey<Bls12>> for VerifyingKey {
    fn from(vk: &groth16::VerifyingKey<Bls12>) -> Self {
        Self {
            alpha_g1: vk.alpha_g1,
            beta_g1: vk.beta_g1,
            beta_g2: vk.beta_g2,
            gamma_g2: vk.gamma_g2,
            delta_g1: vk.delta_g1,
            delta_g2: vk.delta_g2,
            ic: vk.ic.clone(),
        }
    }
}

impl From<groth16::Proof<Bls12>> for Proof {
    fn from(proof: groth16::Proof<Bls12>) -> Self {
        Self { a: proof.a, b: proof.b, c: proof.c }
    }
}

impl From<Proof> for groth16::Proof<Bls12> {
    fn from(proof: Proof) -> Self {
        Self { a: proof.a, b: proof.b, c: proof.c }
    }
}
