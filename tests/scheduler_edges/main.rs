//! The real scheduler where little goes as planned: short memory, lost devices, panics, cancelled
//! and dropped work. On simulated cards that compute, where not said otherwise.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod fallback;
mod global_pool;
mod handles;
mod link;
mod memory;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../shared/odd.rs"]
mod odd;
mod odd_circuits;
mod panics;
mod several;
mod shortage;
mod storm;
mod support;
mod wipe;
