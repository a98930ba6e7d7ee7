//! Random inputs of a test, that can be had again.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// A generator whose seed is printed; `TWINLOCK_SEED` replays it.
pub fn rng() -> ChaCha20Rng {
    let seed = std::env::var("TWINLOCK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| rand::rngs::OsRng.next_u64());
    println!("TWINLOCK_SEED={seed}");
    ChaCha20Rng::seed_from_u64(seed)
}
