//! The library's error: what went wrong, and where.

use std::path::PathBuf;

/// Shorthand for a result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a circuit and its proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter file that is cut, inconsistent or holds a bad point.
    #[error("{file}: section {section}, byte {offset}: {problem}")]
    Parameters {
        /// The file's path, or a name for parameters that are in memory.
        file: String,
        /// `vk`, `ic`, `h`, `l`, `a`, `b_g1`, `b_g2` or `trailing`.
        section: &'static str,
        /// Offset in bytes from the file's start.
        offset: u64,
        /// What is wrong there, with the numbers.
        problem: String,
    },
    /// A proving or verifying key that must not be used.
    #[error("refused key: {0}")]
    Key(String),
    /// Two lengths that have to agree do not.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// What was counted.
        what: String,
        /// The count that the key or the first circuit of the batch asks for.
        expected: u64,
        /// The count that was given.
        found: u64,
    },
    /// More constraints, points or bytes than the field, the format or the device allows.
    #[error("{what}: {value} exceeds the limit of {limit}")]
    Limit {
        /// What was counted.
        what: String,
        /// The count.
        value: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// The circuit could not be synthesised.
    #[error("synthesis: {0}")]
    Synthesis(#[from] bellpepper_core::SynthesisError),
    /// The proof failed its self-check: the witness does not satisfy the circuit, the key belongs
    /// to another circuit, or a device computed wrongly. `attempts` tells each device's outcome.
    #[error("no valid proof: {attempts}")]
    InvalidProof {
        /// One clause for each attempt: the device's name and its outcome.
        attempts: String,
    },
    /// Bytes that are not a proof, a point or a scalar.
    #[error("malformed {what}: {problem}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// Why it was refused.
        problem: String,
    },
    /// An option or a circuit that asks for something impossible.
    #[error("{what}: {problem}")]
    Invalid {
        /// The option or the thing at fault.
        what: String,
        /// Why it is impossible, with the numbers.
        problem: String,
    },
    /// A name that is not in a registry.
    #[error("no {kind} named `{name}`; there are: {known}")]
    Unknown {
        /// `circuit`, `device`, `profile`, ...
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist, comma-separated.
        known: String,
    },
    /// A device that failed, is full or is gone.
    #[error("device {device}: {source}")]
    Device {
        /// The device's name, e.g. `cpu` or `cuda:0`.
        device: String,
        /// What the backend reported.
        source: twinlock_api::Error,
    },
    /// Somebody stopped it.
    #[error("cancelled")]
    Cancelled,
    /// The operating system refused a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// An i/o error at `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// A disagreement of lengths.
    pub fn shape(what: impl Into<String>, expected: usize, found: usize) -> Self {
        Self::Shape { what: what.into(), expected: expected as u64, found: found as u64 }
    }
}
