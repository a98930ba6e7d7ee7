//! `twinlock params generate`

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use twinlock::Result;
use twinlock::bench::milliseconds;
use twinlock::circuits::KeySource;
use twinlock::groth16::params::{Inspection, inspect};
use twinlock::pending_file::PendingFile;
use twinlock::registry;
use twinlock_api::OpenOptions;

use super::inspect as table_of;
use crate::cli::circuit::CircuitArgs;
use crate::cli::output::{print, print_json};
use crate::cli::progress::Progress;
use crate::cli::seed::SeedArgs;
use crate::cli::{Outcome, invalid, note};

/// Generate test parameters of a circuit. Whoever runs this could forge proofs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: twinlock params generate mix --lg 16 --out mix16.params")]
pub struct Args {
    #[command(flatten)]
    circuit: CircuitArgs,
    /// Where to write the parameters
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where to write the verifying key by itself too
    #[arg(long, value_name = "FILE")]
    vk_out: Option<PathBuf>,
    /// Make the points on this device, e.g. cuda:0; the host makes them otherwise
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    #[command(flatten)]
    seed: SeedArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Generated {
    circuit: &'static str,
    label: String,
    generate_ms: f64,
    /// Of a regular file; what went into a pipe is gone.
    #[serde(flatten)]
    inspection: Option<Inspection>,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let circuit = args.circuit.find()?;
    let KeySource::Generated(maker) = circuit.parameters()? else {
        let problem = "it has production parameters; none are generated for it";
        return Err(invalid(circuit.label(), problem));
    };
    let options = OpenOptions::default();
    let device = args.device.as_deref().map(|name| registry::open(name, &options)).transpose()?;
    let out = PendingFile::create(&args.out)?;
    let vk_out = args.vk_out.as_deref().map(PendingFile::create).transpose()?;
    note("notice", "these parameters are for tests: their maker could forge proofs");
    let mut rng = args.seed.rng("the trapdoor");
    let progress = Progress::new(format!("generating parameters of {}", circuit.label()));
    let start = Instant::now();
    let parameters =
        maker.generate(device.as_ref(), &mut *rng, &|done, total| progress.set(done, total))?;
    let generate_ms = milliseconds(start.elapsed());
    progress.say("writing");
    let readable = out.is_regular();
    out.finish(|file| parameters.write(file))?;
    if let Some(vk_out) = vk_out {
        vk_out.finish(|file| parameters.vk.write(file))?;
    }
    drop(progress);
    let inspection = readable.then(|| inspect(&args.out)).transpose()?;
    let generated =
        Generated { circuit: circuit.info().name, label: circuit.label(), generate_ms, inspection };
    if args.json {
        print_json(&generated)?;
    } else {
        let table = generated.inspection.as_ref().map(table_of::text).unwrap_or_default();
        print(&format!("{table}generated in {generate_ms:.1} ms: {}\n", args.out.display()))?;
    }
    Ok(Outcome::Good)
}
