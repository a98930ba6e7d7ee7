//! The circuit that a command works on, and where its key comes from.

use std::path::PathBuf;
use std::sync::Arc;

use twinlock::Result;
use twinlock::circuits::{self, CIRCUITS, CircuitEntry, CircuitOptions, KeySource};
use twinlock::groth16::params::{ParameterFile, ParameterSource, VerifyingKey};

use super::note;
use super::progress::Progress;

/// A circuit, its size, and its parameter file if it is to have another than its own.
#[derive(Debug, clap::Args)]
pub struct KeyedCircuitArgs {
    #[command(flatten)]
    circuit: CircuitArgs,
    /// Parameter file to use. Without it the Sapling circuits have their production parameters,
    /// and mix has test parameters whose trapdoor is public
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
}

/// A circuit and its size.
#[derive(Debug, clap::Args)]
pub struct CircuitArgs {
    #[arg(value_name = "CIRCUIT", help = names())]
    circuit: String,
    /// mix: logarithm of the evaluation domain to base 2 [default: 16]
    #[arg(long, value_name = "N")]
    lg: Option<u32>,
    /// mix: what the constraints are made of, even or bits [default: even]
    #[arg(long, value_name = "P")]
    profile: Option<String>,
}

fn names() -> String {
    CIRCUITS.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

impl CircuitArgs {
    /// The circuit of that name and size.
    pub fn find(&self) -> Result<Box<dyn CircuitEntry>> {
        let options = CircuitOptions { lg: self.lg, profile: self.profile.clone() };
        circuits::find(&self.circuit, &options)
    }
}

impl KeyedCircuitArgs {
    /// The circuit of that name and size.
    pub fn find(&self) -> Result<Box<dyn CircuitEntry>> {
        self.circuit.find()
    }

    /// The key to prove `circuit` with.
    pub fn parameters(&self, circuit: &dyn CircuitEntry) -> Result<Arc<dyn ParameterSource>> {
        if let Some(path) = &self.params {
            return Ok(Arc::new(ParameterFile::open(path)?));
        }
        let progress = Progress::new(format!("parameters of {}", circuit.label()));
        match circuit.parameters()? {
            KeySource::Production(source) => Ok(source),
            KeySource::Generated(maker) => {
                warn_of_test_key(circuit);
                let report = |done, total| progress.set(done, total);
                Ok(Arc::new(maker.generate(None, &mut maker.demonstration_rng(), &report)?))
            }
        }
    }

    /// The verifying key that belongs to [`parameters`](Self::parameters).
    pub fn verifying_key(&self, circuit: &dyn CircuitEntry) -> Result<VerifyingKey> {
        if let Some(path) = &self.params {
            return VerifyingKey::read_file(path);
        }
        let _progress = Progress::new(format!("verifying key of {}", circuit.label()));
        match circuit.parameters()? {
            KeySource::Production(source) => Ok(source.verifying_key().clone()),
            KeySource::Generated(maker) => {
                warn_of_test_key(circuit);
                maker.generate_verifying_key(&mut maker.demonstration_rng())
            }
        }
    }
}

fn warn_of_test_key(circuit: &dyn CircuitEntry) {
    let name = circuit.info().name;
    note(
        "notice",
        &format!(
            "{name} has test parameters whose trapdoor is public; proofs by them show nothing"
        ),
    );
}
