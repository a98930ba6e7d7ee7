//! Circuits, their synthesis and their keys, against slow oracles and bellperson 0.27.
#![allow(clippy::unwrap_used)]

mod assignment;
mod generator;
mod mix;
mod odd;
mod oracle;
mod registry;
#[cfg(feature = "sapling")]
mod sapling;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// A generator with a fresh seed, which is printed for a failed test.
fn fresh_rng() -> StdRng {
    let seed: u64 = rand::random();
    eprintln!("seed: {seed}");
    StdRng::seed_from_u64(seed)
}
