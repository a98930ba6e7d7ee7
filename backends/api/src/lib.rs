//! Placeholder.

/// Placeholder.
#[derive(Debug, thiserror::Error)]
#[error("placeholder")]
pub struct Error;
