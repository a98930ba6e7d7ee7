//! Circuits with empty queries, in sessions.

use blstrs::Scalar;
use ff::Field;
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::verifier::verify_proof;
use twinlock::{Job, PartitionInput};

use crate::odd::Odd;
use crate::support::{card, prover, rng};

/// Streamed or resident, in chunks of 3 or whole, with room for all partitions or little more than
/// one: each proof is made and verifies.
#[test]
fn odd_circuits_prove_in_sessions() {
    let mut rng = rng();
    for circuit in Odd::BARE {
        let params = generate_parameters(circuit, &mut rng, &|_, _| ()).unwrap();
        for (chunk, stays, budget) in [
            (None, false, None),
            (None, true, Some(1 << 20)),
            (Some(3), true, None),
            (Some(3), false, Some(1 << 20)),
        ] {
            let card = card(1 << 30);
            let prover = prover(&card, |options| {
                options.workers = 3;
                options.msm_chunk = chunk;
                options.memory_bytes = budget;
            });
            let key = if stays { prover.load(&params) } else { prover.key(&params) }.unwrap();
            let input = |_| {
                let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
                PartitionInput::synthesized(move || synthesize(circuit), 0, r, s)
            };
            let partitions = (0..4).map(input).collect();
            let outcomes = prover.serve(|session| {
                session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
            });
            let assignment = synthesize(circuit).unwrap();
            for outcome in outcomes {
                let proved = outcome.unwrap_or_else(|error| panic!("{circuit:?}: {error}"));
                let inputs = assignment.public_inputs();
                assert!(verify_proof(key.verifying_key(), &proved.proof, inputs).unwrap());
                assert_eq!(proved.failed_attempts, [""; 0], "{circuit:?}");
            }
            assert_eq!(card.races(), []);
            assert_eq!(card.violations(), []);
        }
    }
}
