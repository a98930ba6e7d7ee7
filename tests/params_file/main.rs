//! Parameter files that are whole, cut, inconsistent or hold bad points, and those of others.

mod peers;
mod points;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use ff::Field;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::Error;
use twinlock::groth16::params::{
    Inspection, ParameterFile, Parameters, Report, VerifyingKey, check_bytes, inspect_bytes,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A key with counts that could be a circuit's: 2 inputs, 3 witness variables, domain 4.
fn small_key(rng: &mut impl RngCore) -> Parameters {
    let [beta, delta] = [(); 2].map(|()| Scalar::random(&mut *rng));
    let vk = VerifyingKey {
        alpha_g1: g1(rng),
        beta_g1: (G1Affine::generator() * beta).to_affine(),
        beta_g2: (G2Affine::generator() * beta).to_affine(),
        gamma_g2: g2(rng),
        delta_g1: (G1Affine::generator() * delta).to_affine(),
        delta_g2: (G2Affine::generator() * delta).to_affine(),
        ic: g1s(rng, 2),
    };
    let [h, l, a, b_g1] = [3, 3, 4, 2].map(|count| g1s(rng, count));
    Parameters { vk, h, l, a, b_g1, b_g2: vec![g2(rng), g2(rng)] }
}

fn g1(rng: &mut impl RngCore) -> G1Affine {
    G1Projective::random(rng).to_affine()
}

fn g2(rng: &mut impl RngCore) -> G2Affine {
    G2Projective::random(rng).to_affine()
}

fn g1s(rng: &mut impl RngCore, count: usize) -> Vec<G1Affine> {
    (0..count).map(|_| g1(rng)).collect()
}

fn encoded(key: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.write(&mut bytes).expect("memory takes all");
    bytes
}

fn section_names(table: &Inspection) -> Vec<(&'static str, u64)> {
    table.sections.iter().map(|section| (section.name, section.count)).collect()
}

/// The section and the offset that an error names.
fn place(error: &Error) -> (&'static str, u64) {
    match error {
        Error::Parameters { file, section, offset, .. } => {
            assert_eq!(file, "test.params");
            (section, *offset)
        }
        other => panic!("not about a place in the file: {other}"),
    }
}

fn open_bytes(bytes: &[u8]) -> Result<ParameterFile, Error> {
    ParameterFile::from_source("test.params", bytes.to_vec())
}

fn check_quietly(bytes: &[u8]) -> Result<Report, Error> {
    check_bytes("test.params", bytes, false, &|_, _| {})
}

/// A valid file and its table.
fn valid_file() -> (Vec<u8>, Inspection) {
    let bytes = encoded(&small_key(&mut seeded()));
    let table = inspect_bytes("test.params", &bytes).expect("valid");
    (bytes, table)
}

/// A generator whose seed is printed when the test fails.
fn seeded() -> ChaCha20Rng {
    let seed = rand::thread_rng().r#gen();
    eprintln!("seed {seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

fn seeds_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/params_file")
}

#[test]
fn fuzz_seeds_are_current() -> TestResult {
    let key = small_key(&mut ChaCha20Rng::seed_from_u64(17));
    let valid = encoded(&key);
    let mut with_identity = key.clone();
    with_identity.a[1] = G1Affine::identity();
    let mut no_b = key;
    no_b.b_g1.clear();
    no_b.b_g2.clear();
    let mut with_trailing = valid.clone();
    with_trailing.extend([7; 100]);
    // One edit each: position 0x0364 is the count of ic.
    let edits = b"edit\x05\x03\x67\x03\x01\x00\x20\x55".to_vec();
    let seeds = [
        ("valid.params", valid.clone()),
        ("identity.params", encoded(&with_identity)),
        ("no_b.params", encoded(&no_b)),
        ("trailing.params", with_trailing),
        ("cut.params", valid[..valid.len() / 2].to_vec()),
        ("edit", edits),
    ];
    let write = std::env::var_os("TWINLOCK_WRITE_SEEDS").is_some();
    for (name, bytes) in seeds {
        let path = seeds_dir().join(name);
        if write {
            fs::write(&path, &bytes)?;
        }
        assert!(fs::read(&path)? == bytes, "{name}: rewrite it with TWINLOCK_WRITE_SEEDS=1");
    }
    Ok(())
}
