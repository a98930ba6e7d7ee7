//! Zcash Sapling's circuits, from sapling-crypto, with their production keys.

mod recorder;
mod witness;

use std::sync::{Arc, OnceLock};

use rand::RngCore;

pub use recorder::Recorded;
use recorder::Structure;

use super::{CircuitEntry, CircuitInfo, KeySource};
use crate::Result;
use crate::groth16::assignment::Assignment;
use crate::groth16::params::ParameterFile;

/// One of the two circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sapling {
    /// Spends a note: 98,777 constraints of its own.
    Spend,
    /// Makes a note: 7,827 constraints of its own.
    Output,
}

impl Sapling {
    /// The circuit on a random valid witness.
    ///
    /// # Errors
    /// What the circuit reports.
    pub fn random(self, rng: &mut dyn RngCore) -> Result<Recorded> {
        static SPEND: OnceLock<Arc<Structure>> = OnceLock::new();
        static OUTPUT: OnceLock<Arc<Structure>> = OnceLock::new();
        let name = self.info().name;
        match self {
            Self::Spend => Recorded::new(name, &SPEND, witness::spend(rng)?),
            Self::Output => Recorded::new(name, &OUTPUT, witness::output(rng)?),
        }
    }

    /// The production key's file, in memory.
    ///
    /// # Errors
    /// What reading it reports.
    pub fn key(self) -> Result<ParameterFile> {
        let (spend, output) = wagyu_zcash_parameters::load_sapling_parameters();
        let bytes = match self {
            Self::Spend => spend,
            Self::Output => output,
        };
        ParameterFile::from_source(format!("{} production key", self.info().name), bytes)
    }
}

impl CircuitEntry for Sapling {
    fn info(&self) -> CircuitInfo {
        match self {
            Self::Spend => super::SAPLING_SPEND,
            Self::Output => super::SAPLING_OUTPUT,
        }
    }

    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment> {
        self.random(rng)?.assignment()
    }

    fn parameters(&self) -> Result<KeySource<'_>> {
        Ok(KeySource::Production(Arc::new(self.key()?)))
    }
}
