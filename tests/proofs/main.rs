//! Whole proofs on the CPU device, against bellperson.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod layouts;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../shared/odd.rs"]
mod odd;
#[path = "../shared/seed.rs"]
mod seed;
mod tables;

use seed::rng;
use std::sync::Arc;

use bellpepper_core::Circuit;
use bellperson::groth16 as bp;
use blstrs::{Bls12, Scalar};
use ff::Field;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::assignment::{Assignment, synthesize};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::{ParameterFile, ParameterSource, Parameters};
use twinlock::{Error, Prover, ProverOptions, create_proof, create_random_proof_batch};

use crate::odd::Odd;

fn prover(change: impl FnOnce(&mut ProverOptions)) -> Prover {
    let mut options = ProverOptions::default();
    options.device = "cpu".into();
    change(&mut options);
    Prover::new(options).unwrap()
}

/// The same key for both libraries, by way of bellperson's bytes.
fn key_of<C: Circuit<Scalar>>(
    circuit: C,
    rng: &mut ChaCha20Rng,
) -> (bp::Parameters<Bls12>, Vec<u8>) {
    let params = bp::generate_random_parameters::<Bls12, _, _>(circuit, rng).unwrap();
    let mut bytes = Vec::new();
    params.write(&mut bytes).unwrap();
    (params, bytes)
}

fn bellperson_proof<C: Circuit<Scalar> + Send>(
    circuit: C,
    params: &bp::Parameters<Bls12>,
    (r, s): (Scalar, Scalar),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bp::create_proof(circuit, params, r, s).unwrap().write(&mut bytes).unwrap();
    bytes
}

/// A circuit's key, its assignment, blinding factors and the proof that bellperson makes of them.
struct Known {
    file: ParameterFile,
    assignment: Assignment,
    factors: (Scalar, Scalar),
    expected: Vec<u8>,
}

fn known<C: Circuit<Scalar> + Clone + Send>(circuit: C, rng: &mut ChaCha20Rng) -> Known {
    let (theirs, bytes) = key_of(circuit.clone(), rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let factors = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
    let expected = bellperson_proof(circuit.clone(), &theirs, factors);
    Known { file, assignment: synthesize(circuit).unwrap(), factors, expected }
}

/// Every way of giving the key and the memory gives bellperson's bytes.
fn assert_bit_equal<C: Circuit<Scalar> + Clone + Send>(circuit: C, rng: &mut ChaCha20Rng) {
    let (theirs, bytes) = key_of(circuit.clone(), rng);
    assert_bit_equal_under(circuit, &theirs, bytes, rng);
}

fn assert_bit_equal_under<C: Circuit<Scalar> + Clone + Send>(
    circuit: C,
    theirs: &bp::Parameters<Bls12>,
    bytes: Vec<u8>,
    rng: &mut ChaCha20Rng,
) {
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let memory = Parameters::load(&file, true).unwrap();
    let factors = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
    let expected = bellperson_proof(circuit.clone(), theirs, factors);
    let (r, s) = factors;

    let prover = prover(|_| ());
    for (name, source) in [("file", &file as &dyn ParameterSource), ("memory", &memory)] {
        for key in [prover.key(source).unwrap(), prover.load(source).unwrap()] {
            let proof = prover.create_proof(circuit.clone(), &key, r, s).unwrap();
            assert_eq!(proof.to_bytes()[..], expected, "{name}, resident: {}", key.is_resident());
        }
    }
}

#[test]
fn mix_proofs_equal_bellpersons() {
    let mut rng = rng();
    for profile in [Profile::Even, Profile::Bits] {
        for lg in profile.min_lg()..=10 {
            let shape = MixShape::new(lg, profile).unwrap();
            assert_bit_equal(Mix::random(shape, &mut rng), &mut rng);
        }
    }
}

#[test]
fn chunks_windows_and_slots_of_any_size_give_the_same_proof() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(8, Profile::Bits).unwrap(), &mut rng);
    let (theirs, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
    let expected = bellperson_proof(circuit.clone(), &theirs, (r, s));
    for chunk in [1, 2, 31, 100, 127, 128, 129, 255, 256, 1000] {
        for window_bits in [None, Some(5)] {
            let prover = prover(|options| {
                options.msm_chunk = Some(chunk);
                options.window_bits = window_bits;
                // One G2 point a slot at the least.
                options.staging_slot_bytes = Some(256 * (1 + chunk as u64 % 5));
                options.staging_slots = 1 + chunk % 3;
            });
            for key in [prover.key(&file).unwrap(), prover.load(&file).unwrap()] {
                let proof = prover.create_proof(circuit.clone(), &key, r, s).unwrap();
                assert_eq!(proof.to_bytes()[..], expected, "chunk {chunk}, {window_bits:?}");
            }
        }
    }
}

/// Keys by our own generator, which is faster and tested against bellperson's.
#[test]
fn larger_mix_proofs_equal_bellpersons() {
    let mut rng = rng();
    for profile in [Profile::Even, Profile::Bits] {
        for lg in 11..=14 {
            let shape = MixShape::new(lg, profile).unwrap();
            let ours = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
            let mut bytes = Vec::new();
            ours.write(&mut bytes).unwrap();
            let theirs = bp::Parameters::read(&bytes[..], false).unwrap();
            assert_bit_equal_under(Mix::random(shape, &mut rng), &theirs, bytes, &mut rng);
        }
    }
}

#[test]
fn unusual_circuits_equal_bellpersons() {
    let mut rng = rng();
    let rows = [3, 4, 5, 8, 9, 16, 17, 64, 65].map(Odd::Rows);
    for odd in Odd::WITH_X.into_iter().chain(rows) {
        println!("{odd:?}");
        assert_bit_equal(odd, &mut rng);
    }
}

#[test]
fn a_witness_that_does_not_satisfy_gives_an_error_and_no_proof() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(6, Profile::Even).unwrap(), &mut rng);
    let (_, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let prover = prover(|_| ());
    let key = prover.key(&file).unwrap();
    let mut assignment = synthesize(circuit).unwrap();
    assignment.a[15] += Scalar::ONE;
    let error = prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(matches!(error, Error::InvalidProof { .. }), "{error}");
    assert!(error.to_string().contains("constraint 15"), "{error}");
    // The prover goes on.
    assignment.a[15] -= Scalar::ONE;
    prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).unwrap();
}

#[test]
fn a_key_of_another_circuit_is_refused_with_the_numbers() {
    let mut rng = rng();
    let of = |lg| MixShape::new(lg, Profile::Even).unwrap();
    let (_, bytes) = key_of(Mix::blank(of(5)), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let error =
        create_proof(Mix::random(of(6), &mut rng), &file, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(matches!(error, Error::Shape { expected: 56, found: 24, .. }), "{error}");
}

#[test]
fn batches_are_checked_and_proved() {
    let mut rng = rng();
    let of = |lg| MixShape::new(lg, Profile::Even).unwrap();
    let (_, bytes) = key_of(Mix::blank(of(5)), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let circuits: Vec<_> = (0..3).map(|_| Mix::random(of(5), &mut rng)).collect();
    assert_eq!(create_random_proof_batch(circuits, &file, &mut rng).unwrap().len(), 3);

    let none: Vec<Mix> = Vec::new();
    let error = create_random_proof_batch(none, &file, &mut rng).unwrap_err();
    assert!(matches!(error, Error::Shape { expected: 1, found: 0, .. }), "{error}");

    let unequal = vec![Mix::random(of(5), &mut rng), Mix::random(of(6), &mut rng)];
    let error = create_random_proof_batch(unequal, &file, &mut rng).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");

    let one = vec![Mix::random(of(5), &mut rng)];
    let error = twinlock::create_proof_batch(one, &file, &[], &[Scalar::ONE]).unwrap_err();
    assert!(matches!(error, Error::Shape { expected: 1, found: 0, .. }), "{error}");
}

#[test]
fn an_h_query_of_the_whole_domain_serves_too() {
    let mut rng = rng();
    let shape = MixShape::new(5, Profile::Even).unwrap();
    let circuit = Mix::random(shape, &mut rng);
    let (mut theirs, bytes) = key_of(circuit.clone(), &mut rng);
    let expected = {
        let (r, s) = (Scalar::from(5), Scalar::from(6));
        bellperson_proof(circuit.clone(), &theirs, (r, s))
    };
    drop(bytes);
    let extra = theirs.h[3];
    Arc::get_mut(&mut theirs.h).unwrap().push(extra);
    let mut longer = Vec::new();
    theirs.write(&mut longer).unwrap();
    let file = ParameterFile::from_source("key", longer).unwrap();
    let proof = create_proof(circuit.clone(), &file, Scalar::from(5), Scalar::from(6)).unwrap();
    assert_eq!(proof.to_bytes()[..], expected);
    for base_tables in [1, 2, 8] {
        let prover = tables::with_tables(base_tables, None);
        let key = prover.load(&file).unwrap();
        let proof = prover.create_proof(circuit.clone(), &key, Scalar::from(5), Scalar::from(6));
        assert_eq!(proof.unwrap().to_bytes()[..], expected, "{base_tables} tables");
    }
}

#[test]
fn a_budget_too_small_is_refused_with_the_numbers() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(8, Profile::Even).unwrap(), &mut rng);
    let (_, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let small = prover(|options| options.memory_bytes = Some(20_000));
    let key = small.key(&file).unwrap();
    let error = small.create_proof(circuit, &key, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(error.to_string().contains("exceeds the device's limit of 20000"), "{error}");
}

/// What earlier proofs left reserved never stands in the way of a key or proof that would fit.
#[test]
fn idle_memory_makes_room() {
    let mut rng = rng();
    let of = |lg| MixShape::new(lg, Profile::Even).unwrap();
    let keys = [9, 10].map(|lg| generate_parameters(Mix::blank(of(lg)), &mut rng, &|_, _| ()));
    let [small, large] = keys.map(Result::unwrap);
    let proves = |budget: u64, first_large: bool| -> twinlock::Result<()> {
        let prover = prover(|options| {
            options.msm_chunk = Some(64);
            options.memory_bytes = Some(budget);
        });
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        if first_large {
            let circuit = Mix::random(of(10), &mut rng);
            prover.create_proof(circuit, &prover.key(&large)?, Scalar::ONE, Scalar::ONE)?;
        }
        let key = prover.load(&small)?;
        prover.create_proof(Mix::random(of(9), &mut rng), &key, Scalar::ONE, Scalar::ONE)?;
        Ok(())
    };
    let mut tried = 0;
    for budget in (100_000..3_000_000).step_by(100_000) {
        // Where both fit by themselves, they fit one after the other.
        let alone = prover(|options| {
            options.msm_chunk = Some(64);
            options.memory_bytes = Some(budget);
        });
        let circuit = Mix::random(of(10), &mut rng);
        let key = alone.key(&large).unwrap();
        let large_fits = alone.create_proof(circuit, &key, Scalar::ONE, Scalar::ONE).is_ok();
        if large_fits && proves(budget, false).is_ok() {
            tried += 1;
            proves(budget, true).unwrap_or_else(|error| panic!("{budget}: {error}"));
        }
    }
    assert!(tried > 0);
}

#[test]
fn a_key_loaded_by_another_prover_is_streamed() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(6, Profile::Even).unwrap(), &mut rng);
    let (_, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let [one, other] = [prover(|_| ()), prover(|_| ())];
    let key = one.load(&file).unwrap();
    let expected = one.create_proof(circuit.clone(), &key, Scalar::ONE, Scalar::ONE).unwrap();
    let proof = other.create_proof(circuit, &key, Scalar::ONE, Scalar::ONE).unwrap();
    assert_eq!(proof, expected);
}

#[test]
fn without_the_self_check_an_unsatisfied_witness_is_refused_too() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(6, Profile::Even).unwrap(), &mut rng);
    let (_, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let prover = prover(|options| options.self_check = false);
    let mut assignment = synthesize(circuit).unwrap();
    assignment.c[15] += Scalar::ONE;
    let key = prover.key(&file).unwrap();
    let error = prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(error.to_string().contains("constraint 15"), "{error}");
}

#[test]
fn a_key_with_a_wrong_point_gives_no_proof_and_a_hint() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(6, Profile::Even).unwrap(), &mut rng);
    let (mut theirs, _) = key_of(circuit.clone(), &mut rng);
    // Of the first packing, whose value is a sum with a random element: not zero.
    let wrong = theirs.l[4];
    Arc::get_mut(&mut theirs.l).unwrap()[6] = wrong;
    let mut bytes = Vec::new();
    theirs.write(&mut bytes).unwrap();
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let error = create_proof(circuit, &file, Scalar::ONE, Scalar::ONE).unwrap_err();
    assert!(matches!(error, Error::InvalidProof { .. }), "{error}");
    assert!(error.to_string().contains("params check"), "{error}");
}

#[test]
fn provers_are_shared_between_threads() {
    let mut rng = rng();
    let shape = MixShape::new(6, Profile::Even).unwrap();
    let (theirs, bytes) = key_of(Mix::blank(shape), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    let prover = prover(|_| ());
    let key = prover.load(&file).unwrap();
    let circuits: Vec<_> = (0..8).map(|_| Mix::random(shape, &mut rng)).collect();
    std::thread::scope(|scope| {
        for circuit in circuits {
            let (prover, key, theirs) = (&prover, &key, &theirs);
            scope.spawn(move || {
                for i in 0..4 {
                    let (r, s) = (Scalar::from(i), Scalar::from(i + 1));
                    let proof = prover.create_proof(circuit.clone(), key, r, s).unwrap();
                    let expected = bellperson_proof(circuit.clone(), theirs, (r, s));
                    assert_eq!(proof.to_bytes()[..], expected);
                }
            });
        }
    });
}
