//! Circuits and witnesses that broke others, and a device that computes wrongly.

use blstrs::Scalar;
use ff::Field;
use rand::Rng;
use rand_chacha::ChaCha20Rng;
use twinlock::Prover;
use twinlock::circuits::mix::Mix;
use twinlock::groth16::assignment::{Assignment, synthesize};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Parameters;
use twinlock_api::OpenOptions;
use twinlock_sim::{Arithmetic, Clock, Fault, Lane, SimCard, SimConfig};

use crate::odd::Odd;
use crate::{Gpu, LG, options, parameters, prove_one, rng, shape};

/// The device's proofs, with the key streamed and resident, are the CPU's byte for byte.
fn assert_equals_the_cpu(
    what: &str,
    [prover, cpu]: [&Prover; 2],
    params: &Parameters,
    assignment: &Assignment,
    rng: &mut ChaCha20Rng,
) {
    let (r, s) = (Scalar::random(&mut *rng), Scalar::random(rng));
    let expected = cpu.prove(&cpu.key(params).unwrap(), assignment, r, s).unwrap().proof;
    for key in [prover.key(params).unwrap(), prover.load(params).unwrap()] {
        let proved = prover
            .prove(&key, assignment, r, s)
            .unwrap_or_else(|error| panic!("{what}, {key:?}: {error}"));
        assert_eq!(proved.failed_attempts, [""; 0], "{what}, {key:?}");
        assert_eq!(proved.proof.to_bytes(), expected.to_bytes(), "{what}, {key:?}");
    }
}

pub fn odd_circuits_equal_the_cpu(_: impl Gpu, name: &str) {
    let mut rng = rng();
    let [prover, cpu] = [name, "cpu"].map(|device| Prover::new(options(device)).unwrap());
    let rows = [3, 4, 5, 16, 17, 64, 65].map(Odd::Rows);
    for odd in Odd::WITH_X.into_iter().chain(Odd::BARE).chain(rows) {
        let params = generate_parameters(odd, &mut rng, &|_, _| ()).unwrap();
        let assignment = synthesize(odd).unwrap();
        let what = format!("{odd:?}");
        assert_equals_the_cpu(&what, [&prover, &cpu], &params, &assignment, &mut rng);
    }
}

/// Of n points as of n - 1.
pub fn an_h_query_of_the_whole_domain_serves_too(_: impl Gpu, name: &str) {
    let mut rng = rng();
    let mut params = parameters(LG, &mut rng);
    assert_eq!(params.h.len(), (1 << LG) - 1);
    params.h.push(params.h[3]);
    let [prover, cpu] = [name, "cpu"].map(|device| Prover::new(options(device)).unwrap());
    let assignment = Mix::random(shape(LG), &mut rng).assignment().unwrap();
    assert_equals_the_cpu("n points", [&prover, &cpu], &params, &assignment, &mut rng);
}

pub fn a_wrong_witness_is_told_and_the_device_goes_on(_: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    for self_check in [true, false] {
        let mut options = options(name);
        options.self_check = self_check;
        let prover = Prover::new(options).unwrap();
        let key = prover.key(&params).unwrap();
        let mut assignment = Mix::random(shape(LG), &mut rng).assignment().unwrap();
        assignment.c[15] += Scalar::ONE;
        let error = prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).unwrap_err();
        assert!(error.to_string().contains("constraint 15"), "{error}");
        assert_eq!(prove_one(&prover, &key, LG, &mut rng).unwrap(), name);
    }
}

/// A bit in one buffer of the device, by a simulated card that has the device compute: behind the
/// first NTT, the pointwise product, and the window sums of the first MSM.
pub fn a_flipped_bit_is_found_and_the_proof_made_elsewhere(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let mut config = SimConfig::new("sim:0", 1 << 30);
    config.arithmetic = Arithmetic::Of(gpu.open(name, &OpenOptions::default()).unwrap());
    let card = SimCard::new(config, Clock::new());
    let mut options = options("sim:0");
    options.workers = 1;
    let prover = Prover::with_devices(vec![card.open().unwrap()], options).unwrap();
    let key = prover.key(&params).unwrap();
    let mut prove = || {
        let assignment = Mix::random(shape(LG), &mut rng).assignment().unwrap();
        // Not so high a bit that an element is no longer below its modulus.
        let bit = rng.gen_range(0..192);
        (prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE), bit)
    };
    let before = card.counts().ops;
    let (proved, mut bit) = prove();
    assert_eq!(proved.unwrap().device, "sim:0");
    let ops: Vec<_> = (card.log().spans.iter())
        .filter(|span| span.lane == Lane::Compute)
        .skip(before as usize)
        .map(|span| span.op)
        .collect();
    for hit in ["ntt", "vector", "msm_reduce"] {
        let at = ops.iter().position(|op| *op == hit).unwrap() as u64;
        card.inject(Fault::BitFlip { op: card.counts().ops + at, bit });
        let (proved, next) = prove();
        let proved = proved.unwrap();
        assert_eq!(proved.device, "cpu", "bit {bit} behind {hit}");
        assert_eq!(proved.failed_attempts, ["sim:0: failed its self-check"]);
        bit = next;
    }
    assert_eq!(card.faults_fired().len(), 3);
    assert_eq!(prove().0.unwrap().device, "sim:0");
}
