//! Ways to share a card between workers.

pub mod naive;
pub mod ours;
pub mod serial;
pub mod workers;
