//! Keys against bellperson 0.27's, point for point.

use bellpepper_core::{Circuit, Index, SynthesisError};
use bellperson::groth16 as bellperson;
use blstrs::{Bls12, Scalar};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Mutex;
use twinlock::Error;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::generator::{
    ToxicWaste, generate_parameters, generate_parameters_from, generate_parameters_on,
    generate_verifying_key,
};
use twinlock::groth16::params::Parameters;

use crate::fresh_rng;
use crate::odd::{Empty, Parts, Random, Squares, Stray, Unconstrained};

fn silent(_: u64, _: u64) {}

fn assert_equal(ours: &Parameters, theirs: &bellperson::Parameters<Bls12>, what: &str) {
    assert_eq!(ours.vk.alpha_g1, theirs.vk.alpha_g1, "{what}");
    assert_eq!(ours.vk.beta_g1, theirs.vk.beta_g1, "{what}");
    assert_eq!(ours.vk.beta_g2, theirs.vk.beta_g2, "{what}");
    assert_eq!(ours.vk.gamma_g2, theirs.vk.gamma_g2, "{what}");
    assert_eq!(ours.vk.delta_g1, theirs.vk.delta_g1, "{what}");
    assert_eq!(ours.vk.delta_g2, theirs.vk.delta_g2, "{what}");
    assert!(ours.vk.ic == theirs.vk.ic, "ic of {what}");
    assert!(ours.h == *theirs.h, "h of {what}");
    assert!(ours.l == *theirs.l, "l of {what}");
    assert!(ours.a == *theirs.a, "a of {what}");
    assert!(ours.b_g1 == *theirs.b_g1, "b_g1 of {what}");
    assert!(ours.b_g2 == *theirs.b_g2, "b_g2 of {what}");
}

/// The same trapdoor gives both keys; the same generator gives the verifying key alone.
fn compare(circuit: impl Circuit<Scalar> + Clone, rng: &mut StdRng, what: &str) -> Parameters {
    let seed: u64 = rng.r#gen();
    let waste = ToxicWaste::random(&mut StdRng::seed_from_u64(seed));
    let theirs = bellperson::generate_parameters::<Bls12, _>(
        circuit.clone(),
        waste.g1,
        waste.g2,
        waste.alpha,
        waste.beta,
        waste.gamma,
        waste.delta,
        waste.tau,
    )
    .unwrap();
    let ours = generate_parameters_from(circuit.clone(), &waste, &silent).unwrap();
    assert_equal(&ours, &theirs, what);
    let vk = generate_verifying_key(circuit, &mut StdRng::seed_from_u64(seed)).unwrap();
    assert!(vk == ours.vk, "verifying key of {what}");
    ours
}

#[test]
fn mix_keys_equal_bellpersons() {
    let mut rng = fresh_rng();
    for (profile, sizes) in [(Profile::Even, 4..=10), (Profile::Bits, 7..=10)] {
        for lg in sizes {
            let shape = MixShape::new(lg, profile).unwrap();
            let key = compare(Mix::blank(shape), &mut rng, &format!("mix {profile} {lg}"));
            let assignment = Mix::random(shape, &mut rng).assignment().unwrap();
            let inputs = assignment.instance.len();
            assert_eq!(key.h.len(), assignment.domain() - 1);
            assert_eq!(key.l.len(), assignment.witness.len());
            assert_eq!(key.a.len(), inputs + assignment.a_witness_density.count());
            let b = assignment.b_input_density.count() + assignment.b_witness_density.count();
            assert_eq!((key.b_g1.len(), key.b_g2.len()), (b, b));
        }
    }
}

#[test]
fn keys_of_odd_circuits_equal_bellpersons() {
    let mut rng = fresh_rng();
    compare(Empty, &mut rng, "the circuit of nothing");
    compare(Squares { rows: 1, wrong: None }, &mut rng, "one constraint");
    compare(Squares { rows: 4, wrong: None }, &mut rng, "2^k + 1 rows");
    compare(Parts { parts: 6, apart: true }, &mut rng, "parts");
    let mut compared = 0;
    for round in 0..40 {
        let circuit = Random::new(&mut rng, round % 4, round % 17, round % 23);
        // A row with two empty sides leaves its product unconstrained but for C, which is enough.
        let key = compare(circuit.clone(), &mut rng, &format!("random circuit {round}"));
        let assignment = synthesize(circuit).unwrap();
        let inputs = assignment.instance.len();
        assert_eq!(key.a.len(), inputs + assignment.a_witness_density.count());
        compared += 1;
    }
    assert_eq!(compared, 40);
}

#[test]
fn the_same_generator_gives_bellpersons_random_key() {
    let shape = MixShape::new(8, Profile::Bits).unwrap();
    let seed: u64 = rand::random();
    eprintln!("seed: {seed}");
    let ours =
        generate_parameters(Mix::blank(shape), &mut StdRng::seed_from_u64(seed), &silent).unwrap();
    let theirs = bellperson::generate_random_parameters::<Bls12, _, _>(
        Mix::blank(shape),
        &mut StdRng::seed_from_u64(seed),
    )
    .unwrap();
    assert_equal(&ours, &theirs, "mix bits 8");
}

#[test]
fn a_device_makes_the_same_key() {
    let device = twinlock::registry::open("cpu", &twinlock_api::OpenOptions::default()).unwrap();
    for profile in [Profile::Even, Profile::Bits] {
        let shape = MixShape::new(9, profile).unwrap();
        let seed: u64 = rand::random();
        eprintln!("seed: {seed}");
        let key = |device| {
            let rng = &mut StdRng::seed_from_u64(seed);
            generate_parameters_on(device, Mix::blank(shape), rng, &silent).unwrap()
        };
        assert!(key(Some(&device)) == key(None), "mix {profile:?}");
        assert_eq!(device.memory().unwrap().regions_bytes, 0);
    }
}

/// Rows of the prover and columns of the key belong together.
#[test]
fn bellpersons_prover_accepts_our_key() {
    let mut rng = fresh_rng();
    for profile in [Profile::Even, Profile::Bits] {
        let shape = MixShape::new(8, profile).unwrap();
        let key = generate_parameters(Mix::blank(shape), &mut rng, &silent).unwrap();
        let mut bytes = Vec::new();
        key.write(&mut bytes).unwrap();
        let theirs = bellperson::Parameters::<Bls12>::read(&bytes[..], true).unwrap();
        let circuit = Mix::random(shape, &mut rng);
        let inputs = circuit.clone().assignment().unwrap().public_inputs().to_vec();
        let proof = bellperson::create_random_proof(circuit, &theirs, &mut rng).unwrap();
        let prepared = bellperson::prepare_verifying_key(&theirs.vk);
        assert!(bellperson::verify_proof(&prepared, &proof, &inputs).unwrap());
        assert!(!bellperson::verify_proof(&prepared, &proof, &[Scalar::from(7)]).unwrap());
    }
}

#[test]
fn unconstrained_variables_are_refused_as_bellperson_refuses_them() {
    let mut rng = fresh_rng();
    let theirs = bellperson::generate_random_parameters::<Bls12, _, _>(Unconstrained, &mut rng);
    assert!(matches!(theirs, Err(SynthesisError::UnconstrainedVariable)));
    let ours = generate_parameters(Unconstrained, &mut rng, &silent);
    assert!(matches!(ours, Err(Error::Synthesis(SynthesisError::UnconstrainedVariable))));
}

#[test]
fn stray_variables_are_an_error_that_names_them() {
    let error = generate_parameters(Stray(Index::Aux(9)), &mut fresh_rng(), &silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "circuit: a constraint names witness variable 9, but there are 1"
    );
}

#[test]
fn degenerate_trapdoors_are_refused() {
    let circuit = Squares { rows: 3, wrong: None };
    let fresh = || ToxicWaste::random(&mut fresh_rng());
    type Change = (&'static str, fn(&mut ToxicWaste));
    let zeros: [Change; 5] = [
        ("alpha", |waste| waste.alpha = Scalar::from(0)),
        ("beta", |waste| waste.beta = Scalar::from(0)),
        ("gamma", |waste| waste.gamma = Scalar::from(0)),
        ("delta", |waste| waste.delta = Scalar::from(0)),
        ("tau", |waste| waste.tau = Scalar::from(0)),
    ];
    for (name, change) in zeros {
        let mut waste = fresh();
        change(&mut waste);
        let error = generate_parameters_from(circuit.clone(), &waste, &silent).unwrap_err();
        assert_eq!(error.to_string(), format!("refused key: {name} is zero"));
    }
    let mut waste = fresh();
    waste.tau = Scalar::from(1);
    let error = generate_parameters_from(circuit, &waste, &silent).unwrap_err();
    assert_eq!(error.to_string(), "refused key: tau lies in the evaluation domain");
    assert_eq!(format!("{waste:?}"), "ToxicWaste { .. }");
}

#[test]
fn progress_rises_to_the_total() {
    let seen = Mutex::new(Vec::new());
    let shape = MixShape::new(8, Profile::Even).unwrap();
    let key = generate_parameters(Mix::blank(shape), &mut fresh_rng(), &|done, total| {
        seen.lock().unwrap().push((done, total));
    })
    .unwrap();
    let points = key.h.len() + key.l.len() + key.a.len() + key.b_g1.len() + key.b_g2.len();
    let total = (points + key.vk.ic.len()) as u64;
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted() && seen.iter().all(|(_, of)| *of == total), "{seen:?}");
    assert_eq!(seen.last(), Some(&(total, total)));
}
