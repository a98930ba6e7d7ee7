//! Memory of a process that proves all day. Its own test binary, so that nothing else allocates.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use blstrs::Scalar;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::{Prover, ProverOptions};

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// 1,000 proofs, streamed and resident in turn: what the process holds is flat after the tenth.
#[test]
fn a_thousand_proofs_leave_memory_flat() {
    let mut rng = ChaCha20Rng::seed_from_u64(22);
    let shape = MixShape::new(5, Profile::Even).unwrap();
    let params = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
    let prover = Prover::new(ProverOptions::default()).unwrap();
    let keys = [prover.key(&params).unwrap(), prover.load(&params).unwrap()];
    let mut seen = Vec::new();
    for at in 0u64..1000 {
        let circuit = Mix::random(shape, &mut rng);
        let key = &keys[at as usize % 2];
        prover.create_proof(circuit, key, Scalar::from(at), Scalar::from(at + 1)).unwrap();
        if [9, 499, 999].contains(&at) {
            seen.push(resident_kib());
        }
    }
    // A leak shows in both parts, an allocator's step in one. A proof that lost its assignment, its
    // layout or its streams each time would lose far more.
    let grown = seen.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap();
    assert!(grown < 2048, "KiB after 10, 500 and 1000 proofs: {seen:?}");
}
