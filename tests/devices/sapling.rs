//! The same blinding factors give the same bytes on every device.

use blstrs::Scalar;
use ff::Field;
use twinlock::Prover;
use twinlock::circuits::sapling::Sapling;
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::verifier::verify_proof;

use crate::{Gpu, options, rng};

/// One witness on the device and on the CPU, the key streamed and resident.
fn equals_the_cpu(circuit: Sapling, device: &str) {
    let mut rng = rng();
    let source = circuit.key().unwrap();
    let assignment = synthesize(circuit.random(&mut rng).unwrap()).unwrap();
    let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
    let cpu = Prover::new(options("cpu")).unwrap();
    let expected = cpu.prove(&cpu.key(&source).unwrap(), &assignment, r, s).unwrap().proof;

    let prover = Prover::new(options(device)).unwrap();
    for key in [prover.key(&source).unwrap(), prover.load(&source).unwrap()] {
        let proved = prover.prove(&key, &assignment, r, s).unwrap();
        assert_eq!(proved.device, device);
        assert!(proved.failed_attempts.is_empty(), "{:?}", proved.failed_attempts);
        assert_eq!(proved.proof.to_bytes(), expected.to_bytes(), "{key:?}");
        let inputs = assignment.public_inputs();
        assert!(verify_proof(key.verifying_key(), &proved.proof, inputs).unwrap());
    }
}

pub fn spend_equals_the_cpu(_: impl Gpu, device: &str) {
    equals_the_cpu(Sapling::Spend, device);
}

pub fn output_equals_the_cpu(_: impl Gpu, device: &str) {
    equals_the_cpu(Sapling::Output, device);
}
