//! The circuit that a command works on, and where its key comes from.

use std::path::PathBuf;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use twinlock::Result;
use twinlock::circuits::{self, CircuitEntry, CircuitOptions, Key};
use twinlock::groth16::params::{ParameterFile, ParameterSource, VerifyingKey};

use super::document::Options;
use super::progress::Progress;

/// Test keys come from this number, known to all, so that every run makes the same ones.
const TEST_KEY_SEED: u64 = 0x7477_696e_6c6f_636b;

#[derive(Debug, clap::Args)]
pub struct CircuitArgs {
    /// sapling-spend, sapling-output or mix
    #[arg(value_name = "CIRCUIT")]
    circuit: String,
    #[command(flatten)]
    options: CircuitOptionArgs,
    /// The circuit's parameter file. Without it the Sapling circuits have their production
    /// parameters, and mix has test parameters whose trapdoor everybody knows
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
}

/// What sizes a circuit.
#[derive(Debug, clap::Args)]
pub struct CircuitOptionArgs {
    /// mix: logarithm of the evaluation domain to base 2
    #[arg(long, value_name = "N")]
    lg: Option<u32>,
    /// mix: what the constraints are made of, even or bits
    #[arg(long, value_name = "P")]
    profile: Option<String>,
}

impl CircuitOptionArgs {
    /// The circuit of that name and size.
    pub fn find(&self, name: &str) -> Result<Box<dyn CircuitEntry>> {
        let options = CircuitOptions { lg: self.lg, profile: self.profile.clone() };
        circuits::find(name, &options)
    }
}
