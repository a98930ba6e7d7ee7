//! The suite: lists of named trials, each over a [`crate::harness::Fixture`] only.

mod base_tables;
mod buffers;
mod convert;
mod fixed_base;
mod handles;
mod memory;
mod msm;
mod msm_plans;
mod msm_values;
mod ntt;
mod points;
mod streams;
mod threads;
mod vector;

use blstrs::Scalar;
use ff::Field;
use rand::RngCore;

use crate::harness::Trial;

/// Every trial.
pub fn all() -> Vec<Trial> {
    [
        buffers::trials(),
        handles::trials(),
        memory::trials(),
        streams::trials(),
        threads::trials(),
        vector::trials(),
        convert::trials(),
        points::trials(),
        fixed_base::trials(),
        base_tables::trials(),
        ntt::trials(),
        msm::trials(),
        msm_values::trials(),
        msm_plans::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Lengths around warps, workgroups and nothing at all.
const LENGTHS: [usize; 16] =
    [0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000, 1024, 4097];

/// `len` elements: 0, 1, r - 1, 2 and r - 2 in front, then random ones.
fn edge_values(len: usize, rng: &mut impl RngCore) -> Vec<Scalar> {
    let two = Scalar::from(2);
    let edges = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, two, -two];
    let mut values: Vec<_> = edges.into_iter().take(len).collect();
    values.resize_with(len, || Scalar::random(&mut *rng));
    values
}

/// `len` random elements.
fn random_values(len: usize, rng: &mut impl RngCore) -> Vec<Scalar> {
    (0..len).map(|_| Scalar::random(&mut *rng)).collect()
}

/// `len` random bytes.
fn random_bytes(len: usize, rng: &mut impl RngCore) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}
