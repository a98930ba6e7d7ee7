//! What trials are written with, and what runs them.

mod arena;
mod fixture;
mod msm;
mod runner;
mod settings;

pub use fixture::{Fixture, Trial, Verdict, ensure, ensure_invalid, first_difference, passed};
pub use msm::{MsmBuffers, Plan, accumulate_garbage};
pub use runner::{Candidate, Poison, Report, check, run, run_candidates};
pub use settings::Settings;
