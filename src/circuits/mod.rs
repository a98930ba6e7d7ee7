//! Circuits that come with the program, found by name.
//!
//! A circuit of your own needs none of this: implement [`bellpepper_core::Circuit`] and hand it to
//! [`crate::create_proof`].

pub mod mix;
#[cfg(feature = "sapling")]
pub mod sapling;

use std::sync::Arc;

use rand::RngCore;
use rand_chacha::ChaCha20Rng;
use twinlock_api::Device;

use crate::groth16::assignment::Assignment;
use crate::groth16::params::{ParameterSource, Parameters, VerifyingKey};
use crate::{Error, Result};

/// What there is to know of a circuit before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitInfo {
    /// The name to [`find`] it by.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    /// The fields of [`CircuitOptions`] that it understands.
    pub options: &'static [&'static str],
}

const MIX: CircuitInfo = CircuitInfo {
    name: "mix",
    about: "a synthetic circuit of any size, with a demonstration key",
    options: &["lg", "profile"],
};

#[cfg(feature = "sapling")]
const SAPLING_SPEND: CircuitInfo = CircuitInfo {
    name: "sapling-spend",
    about: "Zcash Sapling's Spend circuit, with its production key",
    options: &[],
};

#[cfg(feature = "sapling")]
const SAPLING_OUTPUT: CircuitInfo = CircuitInfo {
    name: "sapling-output",
    about: "Zcash Sapling's Output circuit, with its production key",
    options: &[],
};

/// The circuits of this build.
pub const CIRCUITS: &[CircuitInfo] = &[
    #[cfg(feature = "sapling")]
    SAPLING_SPEND,
    #[cfg(feature = "sapling")]
    SAPLING_OUTPUT,
    MIX,
];

/// Choices that some circuits offer; what is not given takes the circuit's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CircuitOptions {
    /// The logarithm of the evaluation domain (default 16).
    pub lg: Option<u32>,
    /// The statistics of the witness, e.g. `even` (the default) or `bits`.
    pub profile: Option<String>,
}

/// A circuit that can make valid random witnesses of itself.
pub trait CircuitEntry: Send + Sync {
    /// Name, description and options.
    fn info(&self) -> CircuitInfo;

    /// The name with the options that make a difference to the key.
    fn label(&self) -> String {
        self.info().name.into()
    }

    /// Refuses a circuit whose assignment the host has no room for now, before any work.
    ///
    /// # Errors
    /// [`Error::Limit`] with the bytes needed and available.
    fn require_room(&self) -> Result<()> {
        Ok(())
    }

    /// Synthesises a fresh random instance with a valid witness. The public inputs are in the
    /// assignment.
    ///
    /// # Errors
    /// What the circuit reports.
    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment>;

    /// Where the circuit's key comes from.
    ///
    /// # Errors
    /// What reading a production key reports.
    fn parameters(&self) -> Result<KeySource<'_>>;
}

/// Where a key comes from.
pub enum KeySource<'a> {
    /// The key that is used in production.
    Production(Arc<dyn ParameterSource>),
    /// There is no key but one that we make ourselves: for tests and demonstrations.
    Generated(&'a dyn KeyMaker),
}

/// Makes keys for one circuit, **for tests and demonstrations only**: whoever makes a key can
/// prove anything under it (see [`crate::groth16::generator`]).
pub trait KeyMaker: Send + Sync {
    /// Makes a key, its points on `device` if there is one; `progress` is given points done and
    /// points in all.
    ///
    /// # Errors
    /// As [`crate::groth16::generator::generate_parameters_on`].
    fn generate(
        &self,
        device: Option<&Arc<dyn Device>>,
        rng: &mut dyn RngCore,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Parameters>;

    /// Makes the verifying key only, the same that [`generate`](Self::generate) makes from an
    /// equal `rng`, at little more than the cost of a synthesis.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    fn generate_verifying_key(&self, rng: &mut dyn RngCore) -> Result<VerifyingKey>;

    /// A generator whose seed is public, for keys that prover and verifier make for themselves
    /// and that agree. Their trapdoor is known to everyone: such proofs show nothing.
    fn demonstration_rng(&self) -> ChaCha20Rng;
}

/// The circuit called `name`.
///
/// # Errors
/// [`Error::Unknown`] listing the names there are; [`Error::Invalid`] for an option that the
/// circuit does not understand or a size that it does not have.
pub fn find(name: &str, options: &CircuitOptions) -> Result<Box<dyn CircuitEntry>> {
    let info = CIRCUITS.iter().find(|info| info.name == name).ok_or_else(|| Error::Unknown {
        kind: "circuit",
        name: name.into(),
        known: CIRCUITS.iter().map(|info| info.name).collect::<Vec<_>>().join(", "),
    })?;
    for (option, given) in [("lg", options.lg.is_some()), ("profile", options.profile.is_some())] {
        if given && !info.options.contains(&option) {
            return Err(Error::Invalid {
                what: format!("option {option}"),
                problem: format!("{name} has no such choice"),
            });
        }
    }
    match *info {
        #[cfg(feature = "sapling")]
        SAPLING_SPEND => Ok(Box::new(sapling::Sapling::Spend)),
        #[cfg(feature = "sapling")]
        SAPLING_OUTPUT => Ok(Box::new(sapling::Sapling::Output)),
        _ => Ok(Box::new(mix::MixShape::from_options(options)?)),
    }
}
