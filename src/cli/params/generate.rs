//! `twinlock params generate`

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use twinlock::Result;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Query;

use crate::cli::circuit::CircuitOptionArgs;
use crate::cli::output::{print, print_json, write_file};
use crate::cli::progress::Progress;
use crate::cli::prove::milliseconds;
use crate::cli::seed::SeedArgs;
use crate::cli::{Outcome, note};
