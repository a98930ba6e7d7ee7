//! Zcash Sapling on its production keys, judged by verifiers that are not ours.
#![cfg(feature = "sapling")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "shared/seed.rs"]
mod seed;

use bellman::groth16 as bm;
use bellperson::groth16 as bp;
use blstrs::{Bls12, Scalar};
use ff::Field;
use seed::rng;
use twinlock::circuits::sapling::Sapling;
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::params::{ParameterSource, Parameters};
use twinlock::{Prover, ProverOptions};

fn production_bytes(circuit: Sapling) -> Vec<u8> {
    let (spend, output) = wagyu_zcash_parameters::load_sapling_parameters();
    match circuit {
        Sapling::Spend => spend,
        Sapling::Output => output,
    }
}

/// As many proofs of fresh witnesses as `proofs`, each accepted by bellman and not for other
/// inputs.
fn bellman_accepts(circuit: Sapling, proofs: usize) {
    let mut rng = rng();
    let bytes = production_bytes(circuit);
    let theirs = bm::Parameters::<bls12_381::Bls12>::read(&bytes[..], false).unwrap();
    let theirs = bm::prepare_verifying_key(&theirs.vk);
    let key = circuit.key().unwrap();
    let prover = Prover::new(ProverOptions::default()).unwrap();
    let key = prover.load(&key).unwrap();
    for at in 0..proofs {
        let assignment = synthesize(circuit.random(&mut rng).unwrap()).unwrap();
        let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
        let proof = prover.prove(&key, &assignment, r, s).unwrap().proof;
        let proof = bm::Proof::read(&proof.to_bytes()[..]).unwrap();
        let mut inputs: Vec<_> = (assignment.public_inputs().iter())
            .map(|input| bls12_381::Scalar::from_bytes(&input.to_bytes_le()).unwrap())
            .collect();
        bm::verify_proof(&theirs, &proof, &inputs).unwrap_or_else(|_| panic!("proof {at}"));
        inputs[0] += bls12_381::Scalar::one();
        assert!(bm::verify_proof(&theirs, &proof, &inputs).is_err(), "proof {at}, other inputs");
    }
}

#[test]
fn spend_proofs_pass_bellmans_verifier() {
    bellman_accepts(Sapling::Spend, 20);
}

#[test]
fn output_proofs_pass_bellmans_verifier() {
    bellman_accepts(Sapling::Output, 20);
}

/// Streamed from the file's bytes, loaded onto the device, and from memory: bellperson's bytes.
fn equals_bellperson(circuit: Sapling) {
    let mut rng = rng();
    let theirs = bp::Parameters::<Bls12>::read(&production_bytes(circuit)[..], false).unwrap();
    let witness = circuit.random(&mut rng).unwrap();
    let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
    let mut expected = Vec::new();
    bp::create_proof(witness.clone(), &theirs, r, s).unwrap().write(&mut expected).unwrap();
    drop(theirs);

    let file = circuit.key().unwrap();
    let memory = Parameters::load(&file, false).unwrap();
    let mut options = ProverOptions::default();
    // Not a divisor of any query's length.
    options.msm_chunk = Some(20_011);
    for prover in [ProverOptions::default(), options].map(|o| Prover::new(o).unwrap()) {
        for source in [&file as &dyn ParameterSource, &memory] {
            for key in [prover.key(source).unwrap(), prover.load(source).unwrap()] {
                let proof = prover.create_proof(witness.clone(), &key, r, s).unwrap();
                assert_eq!(proof.to_bytes()[..], expected, "{key:?}");
            }
        }
    }
}

#[test]
fn spend_equals_bellperson() {
    equals_bellperson(Sapling::Spend);
}

#[test]
fn output_equals_bellperson() {
    equals_bellperson(Sapling::Output);
}
