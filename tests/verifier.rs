//! Our verifier against bellperson's: on valid, mutated, swapped and misattributed proofs.

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use bellperson::groth16;
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use ff::Field;
use group::Curve;
use group::prime::PrimeCurveAffine;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::Error;
use twinlock::groth16::params::VerifyingKey;
use twinlock::groth16::proof::Proof;
use twinlock::groth16::verifier::{
    PreparedVerifyingKey, prepare_verifying_key, verify_proof, verify_proofs_batch,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;
type Peer = groth16::Proof<Bls12>;

/// The inputs are `x * y_i` for a secret x and secret y_i.
struct Products {
    x: Scalar,
    y: Vec<Scalar>,
}

impl Products {
    fn random(inputs: usize, rng: &mut impl RngCore) -> Self {
        let mut next = || Scalar::random(&mut *rng);
        Self { x: next(), y: (0..inputs).map(|_| next()).collect() }
    }

    fn public_inputs(&self) -> Vec<Scalar> {
        self.y.iter().map(|y| self.x * y).collect()
    }
}

impl Circuit<Scalar> for Products {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let x = cs.alloc(|| "x", || Ok(self.x))?;
        cs.enforce(|| "x", |lc| lc + x, |lc| lc + CS::one(), |lc| lc + x);
        for (i, y) in self.y.into_iter().enumerate() {
            let product = cs.alloc_input(|| format!("product {i}"), || Ok(self.x * y))?;
            let y = cs.alloc(|| format!("y {i}"), || Ok(y))?;
            cs.enforce(|| format!("row {i}"), |lc| lc + x, |lc| lc + y, |lc| lc + product);
        }
        Ok(())
    }
}

/// A generator whose seed is printed when the test fails.
fn seeded() -> ChaCha20Rng {
    let seed = rand::thread_rng().r#gen();
    eprintln!("seed {seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

/// A key in both forms, and proofs of it with their public inputs.
struct Setup {
    ours: PreparedVerifyingKey,
    theirs: groth16::PreparedVerifyingKey<Bls12>,
    vk: VerifyingKey,
    proofs: Vec<Proof>,
    inputs: Vec<Vec<Scalar>>,
}

fn ours(proof: &Peer) -> Proof {
    Proof { a: proof.a, b: proof.b, c: proof.c }
}

fn peer(proof: &Proof) -> Peer {
    Peer { a: proof.a, b: proof.b, c: proof.c }
}

fn setup(inputs: usize, proofs: usize, rng: &mut ChaCha20Rng) -> Setup {
    let key =
        groth16::generate_random_parameters::<Bls12, _, _>(Products::random(inputs, rng), rng)
            .expect("a circuit for a key");
    let mut bytes = Vec::new();
    key.vk.write(&mut bytes).expect("memory takes all");
    let vk = VerifyingKey::read("test.vk", &bytes).expect("bellperson's key");
    let mut setup = Setup {
        ours: prepare_verifying_key(&vk).expect("bellperson's key"),
        theirs: groth16::prepare_verifying_key(&key.vk),
        vk,
        proofs: Vec::new(),
        inputs: Vec::new(),
    };
    for _ in 0..proofs {
        let circuit = Products::random(inputs, rng);
        setup.inputs.push(circuit.public_inputs());
        let proof = groth16::create_random_proof(circuit, &key, rng).expect("a satisfied circuit");
        setup.proofs.push(ours(&proof));
    }
    setup
}

impl Setup {
    /// What our verifier says, held against bellperson's.
    fn verify(&self, proof: &Proof, inputs: &[Scalar]) -> bool {
        let valid = verify_proof(&self.ours, proof, inputs).expect("the right number of inputs");
        let theirs = groth16::verify_proof(&self.theirs, &peer(proof), inputs).expect("the same");
        assert_eq!(valid, theirs);
        valid
    }

    /// The same for a batch.
    fn verify_batch(&self, proofs: &[Proof], inputs: &[Vec<Scalar>]) -> bool {
        let valid = verify_proofs_batch(&self.ours, proofs, inputs).expect("lengths that agree");
        let peers: Vec<Peer> = proofs.iter().map(peer).collect();
        let peers: Vec<&Peer> = peers.iter().collect();
        let mut rng = rand::thread_rng();
        let theirs = groth16::verify_proofs_batch(&self.theirs, &mut rng, &peers, inputs);
        assert_eq!(valid, theirs.expect("the same"));
        valid
    }
}

/// The proof with one element replaced by another point of its group.
fn mutations(proof: &Proof, rng: &mut impl RngCore) -> Vec<Proof> {
    let factor = Scalar::random(rng);
    vec![
        Proof { a: -proof.a, ..*proof },
        Proof { b: -proof.b, ..*proof },
        Proof { c: -proof.c, ..*proof },
        Proof { a: (proof.a * factor).to_affine(), ..*proof },
        Proof { b: (proof.b * factor).to_affine(), ..*proof },
        Proof { c: (proof.c * factor).to_affine(), ..*proof },
        Proof { a: proof.c, c: proof.a, ..*proof },
        Proof { a: G1Affine::generator(), b: G2Affine::generator(), c: G1Affine::generator() },
    ]
}

#[test]
fn single_proofs_are_judged_as_by_bellperson() {
    let mut rng = seeded();
    for inputs in [0, 1, 2, 31, 32, 70] {
        let setup = setup(inputs, 2, &mut rng);
        assert_eq!(setup.ours.num_public_inputs(), inputs);
        for (proof, own) in setup.proofs.iter().zip(&setup.inputs) {
            assert!(setup.verify(proof, own), "{inputs} inputs");
            for mutated in mutations(proof, &mut rng) {
                assert!(!setup.verify(&mutated, own), "{inputs} inputs, {mutated:?}");
            }
            for i in [0, inputs / 2, inputs.saturating_sub(1)] {
                let mut wrong = own.clone();
                let Some(input) = wrong.get_mut(i) else { continue };
                *input += Scalar::ONE;
                assert!(!setup.verify(proof, &wrong), "input {i} of {inputs}");
                wrong[i] = Scalar::ZERO;
                assert!(!setup.verify(proof, &wrong), "input {i} of {inputs}");
            }
        }
        // Without inputs both proofs prove the same.
        assert_eq!(setup.verify(&setup.proofs[0], &setup.inputs[1]), inputs == 0);
        assert!(!verify_proof(&setup.ours, &Proof::default(), &setup.inputs[0]).expect("lengths"));
    }
}

#[test]
fn batches_are_judged_as_by_bellperson() {
    let mut rng = seeded();
    for count in [1, 2, 3, 33] {
        let setup = setup(2, count, &mut rng);
        assert!(setup.verify_batch(&setup.proofs, &setup.inputs), "{count} proofs");
        for at in [0, count / 2, count - 1] {
            for mutated in mutations(&setup.proofs[at], &mut rng) {
                let mut proofs = setup.proofs.clone();
                proofs[at] = mutated;
                assert!(!setup.verify_batch(&proofs, &setup.inputs), "{at} of {count}");
            }
            let mut inputs = setup.inputs.clone();
            inputs[at][1] = inputs[at][1].double();
            assert!(!setup.verify_batch(&setup.proofs, &inputs), "{at} of {count}");
        }
        if count > 1 {
            let mut proofs = setup.proofs.clone();
            proofs.swap(0, count - 1);
            assert!(!setup.verify_batch(&proofs, &setup.inputs), "swapped");
            let mut inputs = setup.inputs.clone();
            inputs.swap(0, 1);
            assert!(!setup.verify_batch(&setup.proofs, &inputs), "swapped");
            // The same proof over and over.
            let proofs = vec![setup.proofs[0]; count];
            assert!(setup.verify_batch(&proofs, &vec![setup.inputs[0].clone(); count]));
        }
    }
}

#[test]
fn errors_of_one_proof_do_not_cancel_those_of_another() -> TestResult {
    // C + D and C - D: a sum without random coefficients would accept these two.
    let setup = setup(1, 2, &mut seeded());
    let mut proofs = setup.proofs.clone();
    let offset = G1Affine::generator();
    proofs[0].c = (proofs[0].c + blstrs::G1Projective::from(offset)).to_affine();
    proofs[1].c = (proofs[1].c - blstrs::G1Projective::from(offset)).to_affine();
    assert!(!verify_proofs_batch(&setup.ours, &proofs, &setup.inputs)?);
    Ok(())
}

fn shape(error: Error) -> (String, u64, u64) {
    match error {
        Error::Shape { what, expected, found } => (what, expected, found),
        other => panic!("not about lengths: {other}"),
    }
}

#[test]
fn lengths_that_do_not_agree_are_errors_with_both_numbers() {
    let setup = setup(2, 3, &mut seeded());
    let (proofs, inputs) = (&setup.proofs, &setup.inputs);
    for found in [0, 1, 3] {
        let wrong = vec![Scalar::ONE; found];
        let error = verify_proof(&setup.ours, &proofs[0], &wrong).expect_err("inputs");
        assert_eq!(shape(error), ("public inputs".to_owned(), 2, found as u64));
        let mut wrong_lists = inputs.clone();
        wrong_lists[1] = wrong;
        let error = verify_proofs_batch(&setup.ours, proofs, &wrong_lists).expect_err("inputs");
        assert_eq!(shape(error), ("public inputs of proof 1".to_owned(), 2, found as u64));
    }
    let batch = "lists of public inputs in a batch".to_owned();
    let error = verify_proofs_batch(&setup.ours, proofs, &inputs[..2]).expect_err("lists");
    assert_eq!(shape(error), (batch.clone(), 3, 2));
    let error = verify_proofs_batch(&setup.ours, &proofs[..1], inputs).expect_err("lists");
    assert_eq!(shape(error), (batch, 1, 3));
    let none: [Vec<Scalar>; 0] = [];
    let error = verify_proofs_batch(&setup.ours, &[], &none).expect_err("empty");
    assert_eq!(shape(error), ("proofs in a batch, at least".to_owned(), 1, 0));
}

#[test]
fn keys_that_must_not_be_used_are_refused() {
    let setup = setup(1, 0, &mut seeded());
    type Change = fn(&mut VerifyingKey);
    let changes: [(&str, Change); 6] = [
        ("delta_g2", |vk| vk.delta_g2 = G2Affine::identity()),
        ("delta_g1", |vk| vk.delta_g1 = G1Affine::identity()),
        ("gamma_g2", |vk| vk.gamma_g2 = G2Affine::identity()),
        ("alpha_g1", |vk| vk.alpha_g1 = G1Affine::identity()),
        ("ic[1]", |vk| vk.ic[1] = G1Affine::identity()),
        ("ic", |vk| vk.ic.clear()),
    ];
    for (name, change) in changes {
        let mut vk = setup.vk.clone();
        change(&mut vk);
        let error = prepare_verifying_key(&vk).expect_err(name);
        assert!(matches!(error, Error::Key(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn encodings_are_those_of_bellperson() -> TestResult {
    let mut rng = seeded();
    let setup = setup(1, 4, &mut rng);
    let mut all = Vec::new();
    for proof in &setup.proofs {
        let mut bytes = Vec::new();
        peer(proof).write(&mut bytes)?;
        assert_eq!(proof.to_bytes()[..], bytes);
        assert_eq!(Proof::from_bytes(&bytes)?, *proof);
        assert_eq!(proof.to_hex().len(), 384);
        assert_eq!(Proof::from_hex(&proof.to_hex().to_uppercase())?, *proof);
        let json = serde_json::to_string(proof)?;
        assert_eq!(json, format!("\"{}\"", proof.to_hex()));
        assert_eq!(serde_json::from_str::<Proof>(&json)?, *proof);
        all.extend(bytes);
    }
    assert_eq!(Proof::many_from_bytes(&all)?, setup.proofs);
    assert_eq!(Proof::many_from_bytes(&[])?, []);
    assert!(Proof::many_from_bytes(&all[1..]).is_err());
    all[2 * 192 + 50] ^= 1;
    let error = Proof::many_from_bytes(&all).expect_err("a bad proof").to_string();
    assert!(error.starts_with("malformed proof: number 2: b"), "{error}");
    Ok(())
}

#[test]
fn bad_encodings_are_refused_as_by_bellperson() {
    let mut rng = seeded();
    let bytes = setup(0, 1, &mut rng).proofs[0].to_bytes();
    let judge = |bytes: &[u8]| {
        let decoded = Proof::from_bytes(bytes);
        let theirs = Peer::read_many(bytes, 1);
        assert_eq!(decoded.is_ok(), theirs.is_ok(), "{decoded:?}");
        if let Ok(proof) = &decoded {
            assert_eq!(proof.to_bytes(), bytes, "a second encoding was accepted");
        }
        decoded
    };
    judge(&bytes).expect("bellperson's proof");
    for len in [0, 1, 191, 193, 384] {
        let error = judge(&[&bytes[..], &bytes[..]].concat()[..len]).expect_err("length");
        assert!(error.to_string().contains(&format!("{len} found")), "{error}");
    }
    for _ in 0..200 {
        let mut bytes = bytes;
        bytes[rng.gen_range(0..192)] ^= 1 << rng.gen_range(0..8);
        // A flipped sign bit or a lucky x gives another point, which is most often outside.
        let _ = judge(&bytes);
    }
    for (start, end, name) in [(0, 48, "a"), (48, 144, "b"), (144, 192, "c")] {
        let mut identity = bytes;
        identity[start..end].fill(0);
        identity[start] = 0xc0;
        let error = judge(&identity).expect_err("identity").to_string();
        assert!(error.contains(&format!("{name}: the identity")), "{error}");
        for first in [0, 0x40, 0x80, 0xa0, 0xe0, 0xff] {
            identity[start] = first;
            let error = judge(&identity).expect_err("flags").to_string();
            assert!(error.contains(name), "{error}");
        }
        let mut uncompressed = bytes;
        uncompressed[start] &= 0x7f;
        let error = judge(&uncompressed).expect_err("no flag").to_string();
        assert!(error.contains(&format!("{name} is not a compressed point")), "{error}");
        // The next x from here on that is on the curve: outside the subgroup.
        let mut outside = bytes;
        let error = loop {
            outside[end - 1] = outside[end - 1].wrapping_add(1);
            let error = judge(&outside).expect_err("outside").to_string();
            if error.contains(&format!("{name}: ")) {
                break error;
            }
        };
        assert!(error.contains("outside the subgroup"), "{error}");
    }
    for bad in ["", "zz", "abc"] {
        assert!(matches!(Proof::from_hex(bad), Err(Error::Malformed { .. })));
    }
}

#[test]
fn points_outside_the_subgroup_in_memory_do_not_verify() {
    let mut rng = seeded();
    let setup = setup(1, 1, &mut rng);
    let mut compressed = setup.proofs[0].c.to_compressed();
    let outside = loop {
        compressed[47] = compressed[47].wrapping_add(1);
        let point: Option<G1Affine> = G1Affine::from_compressed_unchecked(&compressed).into();
        if let Some(point) = point.filter(|point| !bool::from(point.is_torsion_free())) {
            break point;
        }
    };
    for proof in [Proof { a: outside, ..setup.proofs[0] }, Proof { c: outside, ..setup.proofs[0] }]
    {
        assert!(!verify_proof(&setup.ours, &proof, &setup.inputs[0]).expect("lengths"));
        let batch = verify_proofs_batch(&setup.ours, &[proof], &setup.inputs);
        assert!(!batch.expect("lengths"));
    }
}
