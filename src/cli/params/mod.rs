//! `twinlock params`

mod check;
mod generate;

mod inspect;

use clap::Subcommand;
use twinlock::Result;

use super::Outcome;

/// Look at, check or generate parameter files in bellperson's format
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: twinlock params inspect circuit.params")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Check(check::Args),
    Generate(generate::Args),
}

pub fn run(args: &Args) -> Result<Outcome> {
    match &args.command {
        Command::Inspect(args) => inspect::run(args),
        Command::Check(args) => check::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
