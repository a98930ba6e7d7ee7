//! Circuits with empty queries, in sessions.

use blstrs::Scalar;
use ff::Field;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::{Parameters, Query};
use twinlock::groth16::prover::variant::{AssignmentUpload, NttBuffers, Variant, Windows};
use twinlock::groth16::verifier::verify_proof;
use twinlock::{Error, Job, PartitionInput};

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

/// Any layout of device memory, with few or many workers and slots, little or much room, several
/// priorities and perhaps a cancel: nothing is read before it is there or after it is another's.
#[test]
fn odd_circuits_prove_in_any_layout() {
    let mut seeds = rng();
    let mut circuits = [&Odd::BARE[..], &Odd::WITH_X].concat();
    circuits.extend([40, 62, 63].map(Odd::Rows));
    let make = |circuit: &Odd| generate_parameters(*circuit, &mut seeds, &|_, _| ()).unwrap();
    let keys: Vec<_> = circuits.iter().map(make).collect();
    let mut proved = 0;
    for _ in 0..60 {
        let seed = seeds.next_u64();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let at = rng.gen_range(0..circuits.len());
        proved += prove_in_a_layout(circuits[at], &keys[at], seed, &mut rng);
    }
    assert!(proved > 60, "{proved} proofs only");
}

fn prove_in_a_layout(circuit: Odd, params: &Parameters, seed: u64, rng: &mut ChaCha20Rng) -> usize {
    let chunk = [1000, 50, 33, 7][rng.gen_range(0..4)];
    let variant = Variant {
        chunk,
        bases_chunk: rng.gen_range(1..=chunk),
        windows: Windows::OfChunk,
        resident: Query::ALL.into_iter().filter(|_| rng.r#gen()).collect(),
        tables: 1,
        ntt_buffers: [NttBuffers::Two, NttBuffers::Three][rng.gen_range(0..2)],
        assignment: [AssignmentUpload::Prestage, AssignmentUpload::Late][rng.gen_range(0..2)],
        ahead: rng.r#gen(),
    };
    let card = card(1 << 30);
    let budget = rng.r#gen::<bool>().then(|| rng.gen_range(1..40u64) << 16);
    let prover = prover(&card, |options| {
        options.variant = Some(variant);
        options.workers = rng.gen_range(1..5);
        options.staging_slots = rng.gen_range(1..4);
        options.staging_slot_bytes = Some(256 * rng.gen_range(1..6));
        options.memory_bytes = budget;
    });
    let what = format!("seed {seed}: {circuit:?} {variant:?}");
    let key = if rng.r#gen() { prover.load(params) } else { prover.key(params) };
    // Some budgets are too small to load into.
    let Ok(key) = key else { return 0 };
    let assignment = synthesize(circuit).unwrap();
    let proved = prover.serve(|session| {
        let mut job = |priority| {
            let input = |_| {
                let (r, s) = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
                PartitionInput::synthesized(move || synthesize(circuit), 0, r, s)
            };
            let partitions = (0..3).map(input).collect();
            session.submit(Job { key: &key, priority, partitions }).unwrap()
        };
        let jobs = [0, 1, 2].map(&mut job);
        if rng.gen_range(0..3) == 0 {
            jobs[rng.gen_range(0..3)].cancel();
        }
        let mut proved = 0;
        for outcome in jobs.into_iter().flatten() {
            match outcome {
                Ok(made) => {
                    let inputs = assignment.public_inputs();
                    assert!(verify_proof(key.verifying_key(), &made.proof, inputs).unwrap());
                    assert_eq!(made.failed_attempts, [""; 0], "{what}");
                    proved += 1;
                }
                Err(Error::Cancelled) => {}
                Err(error) => assert!(budget.is_some(), "{what}: {error}"),
            }
        }
        proved
    });
    assert_eq!(card.races(), [], "{what}");
    assert_eq!(card.violations(), [], "{what}");
    proved
}
