//! Groth16: keys, assignments, proofs, the prover and the verifier.

pub mod assignment;
pub mod generator;
pub mod params;
pub mod proof;
pub mod prover;
pub(crate) mod r1cs;
pub mod verifier;
