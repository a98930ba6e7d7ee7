//! Where randomness comes from.

use rand::rngs::OsRng;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// The option that makes runs repeatable.
#[derive(Debug, clap::Args)]
pub struct SeedArgs {
    /// Take all randomness from this number, so that a run can be repeated. Anyone who knows it
    /// learns every secret: for tests only
    #[arg(long, value_name = "S")]
    pub insecure_seed: Option<u64>,
}

impl SeedArgs {
    /// The operating system's generator, or the repeatable one with a warning.
    pub fn rng(&self, secrets: &str) -> Box<dyn RngCore> {
        match self.insecure_seed {
            None => Box::new(OsRng),
            Some(seed) => {
                super::note(
                    "warning",
                    &format!("{secrets} come from a known seed: for tests only"),
                );
                Box::new(ChaCha20Rng::seed_from_u64(seed))
            }
        }
    }
}
