//! The circuit that a command works on, and where its key comes from.

use std::path::PathBuf;

use rand::RngCore;
use twinlock::circuits::mix::{Mix, MixShape};
use twinlock::groth16::assignment::Assignment;
use twinlock::groth16::params::{ParameterFile, ParameterSource, VerifyingKey};
use twinlock::{Error, Result};

use super::document::Options;
use super::invalid;

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
}

impl Entry for MixShape {
    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment> {
        Mix::random(*self, rng).assignment()
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

    pub fn parameters(&self, _: &dyn Entry) -> Result<Box<dyn ParameterSource>> {
        match &self.params {
            Some(path) => Ok(Box::new(ParameterFile::open(path)?)),
            None => Err(invalid("params", "none")),
        }
    }

    pub fn verifying_key(&self, _: &dyn Entry) -> Result<VerifyingKey> {
        match &self.params {
            Some(path) => VerifyingKey::read_file(path),
            None => Err(invalid("params", "none")),
        }
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
