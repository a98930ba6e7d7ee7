//! A Groth16 prover over BLS12-381.

pub mod circuits;
pub mod error;
pub mod groth16;
mod mapped;
pub mod views;

pub use error::{Error, Result};
