//! The suite.

use crate::harness::Trial;

/// Every trial.
pub fn all() -> Vec<Trial> {
    Vec::new()
}
