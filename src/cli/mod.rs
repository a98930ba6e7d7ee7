//! The command line: one file a command, and what they share.
//!
//! Results go to standard output and nothing else does; progress, warnings and logs go to standard
//! error.

mod bench;
mod bench_locks;
mod circuit;
mod devices;
mod document;
mod output;
mod params;
mod plan;
mod progress;
mod prove;
mod seed;
mod size;
mod verify;

use std::error::Error as _;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use twinlock::Error;

const LOG_VARIABLE: &str = "TWINLOCK_LOG";

/// A Groth16 prover over BLS12-381.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Logs go to standard error; TWINLOCK_LOG sets what is logged, e.g. \
                  TWINLOCK_LOG=twinlock=debug."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Prove(prove::Args),
    Verify(verify::Args),
    Params(params::Args),
    Plan(plan::Args),
    Devices(devices::Args),
    Bench(bench::Args),
}

/// What a command found, when it came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done; whatever was checked is good.
    Good,
    /// Done, and what was checked is bad: an invalid proof, a file with bad points.
    Bad,
}

/// Runs the command that the arguments name. Exit codes: 0 good, 1 bad, 2 error.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging();
    let outcome = match cli.command {
        Command::Prove(args) => prove::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Params(args) => params::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Err(error) => {
            note("error", &chain(&error));
            ExitCode::from(2)
        }
    }
}

fn start_logging() {
    let filter = std::env::var(LOG_VARIABLE).unwrap_or_else(|_| "warn".to_owned());
    let (filter, fault) = match EnvFilter::try_new(&filter) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("warn"), Some(error)),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if let Some(fault) = fault {
        tracing::warn!(%fault, "{LOG_VARIABLE} is not a filter; using `warn`");
    }
}

/// The error and its causes in one line. A cause that the line has already is left out.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line.replace('\n', " ")
}

/// One line for the person at the terminal. There is nobody to tell if standard error is closed.
fn note(kind: &str, text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{kind}: {text}");
}

fn invalid(what: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Invalid { what: what.into(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn causes_are_told_once() {
        let source = std::io::Error::other("no such thing");
        assert_eq!(chain(&Error::io("file", source)), "file: no such thing");
    }
}
