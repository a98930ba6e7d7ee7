//! The scheduler played with simulated workers on simulated cards.
//!
//! [`protocol::ours`] steps the product's own dispatcher and does what its actions say; nothing of
//! what is decided there is decided here. A run is one thread on one virtual clock: each worker
//! notes when it goes on in an agenda, and the clock moves to the earliest. The same scene gives
//! the same run.
//!
//! [`check`] is what must hold at every step and at the end; [`protocol::naive`] and
//! [`protocol::serial`] are what came before, to compare with.

pub mod agenda;
pub mod bound;
pub mod card;
pub mod check;
pub mod execution;
pub mod measure;
pub mod model_inputs;
pub mod porep;
pub mod program;
pub mod protocol;
pub mod record;
pub mod seeded;
pub mod shape;
