//! What trials are written with, and what runs them.

mod arena;
mod faulty;
mod fixture;
mod msm;
mod own;
mod runner;
mod settings;

pub use fixture::{Fixture, Trial, Verdict, ensure, ensure_invalid, first_difference, passed};
pub use msm::{MsmBuffers, Plan, accumulate_garbage, accumulate_unplanned};
pub use own::{first_device, on_first_device};
pub use runner::{Candidate, Poison, Report, check, run, run_candidates};
pub use settings::Settings;
