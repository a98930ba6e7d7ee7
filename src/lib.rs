//! A Groth16 prover over BLS12-381.

#[cfg(feature = "cli")]
pub mod bench;
pub mod circuits;
pub mod config;
pub mod device_names;
pub mod error;
pub mod groth16;
pub mod host_memory;
mod host_threads;
mod mapped;
pub mod pending_file;
pub mod registry;
pub mod scheduler;
mod times;
pub mod views;

pub use config::ProverOptions;
pub use error::{Error, Result};
pub use groth16::prover::{
    Canceller, Job, JobHandle, PartitionInput, Proved, Prover, ProvingKey, Session, create_proof,
    create_proof_batch, create_random_proof, create_random_proof_batch,
};
