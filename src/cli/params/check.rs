//! `twinlock params check`

use std::path::PathBuf;

use twinlock::Result;
use twinlock::groth16::params::{Report, check};

use super::inspect;
use crate::cli::Outcome;
use crate::cli::output::{print, print_json};
use crate::cli::progress::Progress;

/// Check every point of a file: encoding, curve, subgroup
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 good, 1 something is wrong with a point or a count, 2 error.\n\n\
    Example: twinlock params check circuit.params"
)]
pub struct Args {
    /// The parameter file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bytes after the last section are an error
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let progress = Progress::new("checking points");
    let report = check(&args.file, args.strict, &|done, total| progress.set(done, total))?;
    drop(progress);
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    Ok(if report.is_ok() { Outcome::Good } else { Outcome::Bad })
}

fn text(report: &Report) -> String {
    let mut text = inspect::text(&report.inspection);
    for problem in &report.problems {
        text += &format!(
            "problem: section {}, point {}, byte {}: {}\n",
            problem.section, problem.index, problem.offset, problem.problem
        );
    }
    let unlisted = report.problem_count.saturating_sub(report.problems.len() as u64);
    if unlisted > 0 {
        text += &format!("problem: {unlisted} more points\n");
    }
    text + &format!(
        "{} points checked, {} bad, {} identities\n",
        report.points, report.problem_count, report.identities
    )
}
