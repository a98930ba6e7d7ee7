//! Proofs, key generation and memory against bellperson 0.27's CPU prover, in one run.
//!
//! `cargo bench --bench against_bellperson` prints medians and ratios, ours over theirs.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use bellperson::groth16 as bp;
use blstrs::{Bls12, Scalar};
use ff::Field;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::circuits::sapling::Sapling;
use twinlock::groth16::assignment::synthesize;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::{ParameterFile, Parameters};
use twinlock::{Prover, ProverOptions};

/// Notes when synthesis ends, so that what follows can be timed from outside.
struct Timed<C> {
    circuit: C,
    synthesized: Arc<Mutex<Option<Instant>>>,
}

impl<C: Circuit<Scalar>> Circuit<Scalar> for Timed<C> {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        self.circuit.synthesize(cs)?;
        *self.synthesized.lock().unwrap() = Some(Instant::now());
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn row(work: &str, ours: f64, theirs: f64, unit: &str) {
    println!("{work:<54} {ours:>10.1} {theirs:>10.1} {unit:<4} {:>6.2}", ours / theirs);
}

/// Proofs after synthesis, keys in memory; no self-check, for bellperson makes none.
fn proofs<C: Circuit<Scalar> + Clone + Send>(work: &str, circuit: &C, key: &[u8], runs: usize) {
    let theirs = bp::Parameters::<Bls12>::read(key, false).unwrap();
    let source = ParameterFile::from_source("key", key.to_vec()).unwrap();
    let source = Parameters::load(&source, false).unwrap();
    let mut options = ProverOptions::default();
    options.self_check = false;
    let prover = Prover::new(options).unwrap();
    let key = prover.load(&source).unwrap();
    let streamed = prover.key(&source).unwrap();
    let assignment = synthesize(circuit.clone()).unwrap();
    let (r, s) = (Scalar::from(11), Scalar::from(13));
    let (mut our_times, mut streamed_times, mut their_times) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=runs {
        let start = Instant::now();
        let proof = prover.prove(&key, &assignment, r, s).unwrap().proof;
        let ours = start.elapsed();
        let start = Instant::now();
        let again = prover.prove(&streamed, &assignment, r, s).unwrap().proof;
        let ours_streamed = start.elapsed();
        assert_eq!(proof, again);

        let synthesized = Arc::default();
        let timed = Timed { circuit: circuit.clone(), synthesized: Arc::clone(&synthesized) };
        let mut bytes = Vec::new();
        let their_proof = bp::create_proof(timed, &theirs, r, s).unwrap();
        let theirs = synthesized.lock().unwrap().unwrap().elapsed();
        their_proof.write(&mut bytes).unwrap();
        assert_eq!(proof.to_bytes()[..], bytes);
        // The first of each warms up.
        if run > 0 {
            our_times.push(ours);
            streamed_times.push(ours_streamed);
            their_times.push(theirs);
        }
    }
    let theirs = median(their_times);
    row(work, median(our_times), theirs, "ms");
    row(&format!("{work}, streamed"), median(streamed_times), theirs, "ms");
}

fn generation(lg: u32, profile: Profile) {
    let shape = MixShape::new(lg, profile).unwrap();
    let start = Instant::now();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
    let ours = start.elapsed();
    let start = Instant::now();
    bp::generate_random_parameters::<Bls12, _, _>(Mix::blank(shape), &mut rng).unwrap();
    let theirs = start.elapsed();
    row(
        &format!("parameters of mix {profile} 2^{lg}, one run"),
        ours.as_secs_f64() * 1e3,
        theirs.as_secs_f64() * 1e3,
        "ms",
    );
}

/// The most memory this process has held, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// In a process of its own: a proof from a file, then what it took at most.
fn prove_from_file(who: &str, path: &Path, lg: u32, profile: Profile) {
    let shape = MixShape::new(lg, profile).unwrap();
    let circuit = Mix::random(shape, &mut ChaCha20Rng::seed_from_u64(2));
    if who == "ours" {
        let source = ParameterFile::open(path).unwrap();
        twinlock::create_proof(circuit, &source, Scalar::ONE, Scalar::ONE).unwrap();
    } else {
        let file = BufReader::new(File::open(path).unwrap());
        let params = bp::Parameters::<Bls12>::read(file, false).unwrap();
        bp::create_proof(circuit, &params, Scalar::ONE, Scalar::ONE).unwrap();
    }
    println!("{}", peak_kib());
}

fn memory(lg: u32, profile: Profile, path: &Path) {
    let peak = |who: &str| -> f64 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["peak", who, profile.name(), &lg.to_string()])
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<f64>().unwrap() / 1024.0
    };
    row(
        &format!("peak memory, mix {profile} 2^{lg} from a file"),
        peak("ours"),
        peak("theirs"),
        "MiB",
    );
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "peak") {
        let [who, profile, lg, path] = &args[at + 1..at + 5] else { return };
        prove_from_file(who, Path::new(path), lg.parse().unwrap(), profile.parse().unwrap());
        return;
    }
    let cores = std::thread::available_parallelism().unwrap();
    println!("{cores} cores; ours, bellperson 0.27, ratio ours/theirs; medians of 5 runs in turn");
    let directory = tempfile::tempdir().unwrap();
    for profile in [Profile::Even, Profile::Bits] {
        let shape = MixShape::new(16, profile).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let key = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
        let mut bytes = Vec::new();
        key.write(&mut bytes).unwrap();
        let circuit = Mix::random(shape, &mut rng);
        proofs(&format!("proof after synthesis, mix {profile} 2^16"), &circuit, &bytes, 5);
        let path = directory.path().join("key.params");
        std::fs::write(&path, &bytes).unwrap();
        memory(16, profile, &path);
    }
    let (spend, _) = wagyu_zcash_parameters::load_sapling_parameters();
    let circuit = Sapling::Spend.random(&mut ChaCha20Rng::seed_from_u64(4)).unwrap();
    proofs("proof after synthesis, sapling-spend", &circuit, &spend, 5);
    generation(16, Profile::Even);
}
