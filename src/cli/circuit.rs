//! The circuit that a command works on, and where its key comes from.

use std::path::PathBuf;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape};
use twinlock::groth16::assignment::Assignment;
use twinlock::groth16::generator::{generate_parameters, generate_verifying_key};
use twinlock::groth16::params::{ParameterFile, ParameterSource, Parameters, VerifyingKey};
use twinlock::{Error, Result};

use super::document::Options;
use super::note;
use super::progress::Progress;

/// Test keys come from this number, so that every run makes the same ones.
const TEST_KEY_SEED: u64 = 0x7477_696e_6c6f_636b;
const TEST_KEY_NOTICE: &str =
    "mix has test parameters whose trapdoor is public: its proofs prove nothing";

fn test_key_rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(TEST_KEY_SEED)
}

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
    #[arg(long, value_name = "N", default_value_t = 16)]
    lg: u32,
    /// mix: what the constraints are made of, even or bits
    #[arg(long, value_name = "P", default_value = "even")]
    profile: String,
}

/// Interim.
pub trait Entry {
    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment>;
    fn parameters(
        &self,
        rng: &mut dyn RngCore,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Parameters>;
    fn verifying_key(&self, rng: &mut dyn RngCore) -> Result<VerifyingKey>;
}

impl Entry for MixShape {
    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment> {
        Mix::random(*self, rng).assignment()
    }
    fn parameters(
        &self,
        rng: &mut dyn RngCore,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Parameters> {
        generate_parameters(Mix::blank(*self), rng, progress)
    }
    fn verifying_key(&self, rng: &mut dyn RngCore) -> Result<VerifyingKey> {
        generate_verifying_key(Mix::blank(*self), rng)
    }
}

impl CircuitArgs {
    pub fn name(&self) -> &str {
        &self.circuit
    }

    pub fn options(&self) -> Options {
        Options { lg: Some(self.options.lg), profile: Some(self.options.profile.clone()) }
    }

    pub fn find(&self) -> Result<Box<dyn Entry>> {
        self.options.find(&self.circuit)
    }

    /// The key that `prove` uses.
    pub fn parameters(&self, entry: &dyn Entry) -> Result<Box<dyn ParameterSource>> {
        if let Some(path) = &self.params {
            return Ok(Box::new(ParameterFile::open(path)?));
        }
        note("notice", TEST_KEY_NOTICE);
        let progress = Progress::new("generating test parameters");
        let set = |done, total| progress.set(done, total);
        Ok(Box::new(entry.parameters(&mut test_key_rng(), &set)?))
    }

    /// The key that belongs to [`parameters`](Self::parameters).
    pub fn verifying_key(&self, entry: &dyn Entry) -> Result<VerifyingKey> {
        if let Some(path) = &self.params {
            return VerifyingKey::read_file(path);
        }
        note("notice", TEST_KEY_NOTICE);
        let _progress = Progress::new("generating the test verifying key");
        entry.verifying_key(&mut test_key_rng())
    }
}

impl CircuitOptionArgs {
    /// The circuit of that name and size.
    pub fn find(&self, name: &str) -> Result<Box<dyn Entry>> {
        if name != "mix" {
            let known = "mix".into();
            return Err(Error::Unknown { kind: "circuit", name: name.into(), known });
        }
        Ok(Box::new(MixShape::new(self.lg, self.profile.parse()?)?))
    }
}
