//! `twinlock prove`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use blstrs::Scalar;
use ff::Field;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use twinlock::bench::milliseconds;
use twinlock::host_memory;
use twinlock::pending_file::PendingFile;
use twinlock::registry::{self, AUTO};
use twinlock::scheduler::events::Recorder;
use twinlock::scheduler::occupancy::{Observer, Occupancy};
use twinlock::scheduler::timeline::chrome_trace;
use twinlock::views::as_bytes_mut;
use twinlock::{Error, Job, PartitionInput, Proved, Prover, ProverOptions, Result};
use zeroize::{Zeroize, Zeroizing};

use super::Outcome;
use super::circuit::KeyedCircuitArgs;
use super::document::{Document, Kernels, ProofEntry, Times, scalar_hex};
use super::output::{print, table, to_json};
use super::progress::Progress;
use super::seed::SeedArgs;
use super::size::{DeviceSizes, parse_device_sizes, parse_size};

/// Prove a circuit on a fresh random witness
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each proof is verified before it is given out. Public inputs are printed as \
    32 bytes each, little-endian. With TWINLOCK_CUDA_PROFILE=1 or TWINLOCK_WGSL_PROFILE=1 it says \
    for how much of the time kernels ran, by the device's clock; timing them costs a little.\n\n\
    Examples:\n  twinlock prove sapling-spend\n  \
    twinlock prove mix --lg 16 --partitions 4 --out proofs.json\n  \
    twinlock prove mix --partitions 9 --device cuda:0,cuda:1 --memory cuda:0=16GiB,cuda:1=8GiB"
)]
pub struct Args {
    #[command(flatten)]
    circuit: KeyedCircuitArgs,
    /// Proofs to make, each of an instance of its own
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    partitions: u32,
    /// A name that `twinlock devices` lists, or several, separated by commas; `auto` for the best;
    /// `all` for every device that can be used, the CPU too, but not software that plays a GPU, and
    /// a card that two backends reach only once. With several, each takes a partition when it has
    /// a worker free for one
    #[arg(long, value_name = "NAME,NAME", default_value = AUTO)]
    device: String,
    /// Partitions at work on each device at once: one computes while others stage
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// The most memory to take of each device, e.g. 16GiB, or by name, e.g.
    /// cuda:0=16GiB,cuda:1=8GiB [default: nine tenths of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_device_sizes)]
    memory: Option<DeviceSizes>,
    /// Tables of multiples to keep on each device of a key that stays there (with several partitions):
    /// proofs get faster, loading slower; as many as there is memory for
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=128))]
    base_tables: u32,
    /// The most memory that assignments may take on the host together, e.g. 64GiB; one is always
    /// let through [default: half of what is available]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    host_memory: Option<u64>,
    /// Synthesise all partitions before any is proved, so that synthesis holds no device up
    #[arg(long)]
    synthesize_first: bool,
    /// Write what each worker did, and when, as a Chrome trace (opens in ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write the JSON document to a file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    seed: SeedArgs,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let circuit = args.circuit.find()?;
    circuit.require_room()?;
    let out = args.out.as_deref().map(PendingFile::create).transpose()?;
    let timeline = args.timeline.as_deref().map(PendingFile::create).transpose()?;
    let mut options = ProverOptions::default();
    options.device.clone_from(&args.device);
    options.workers = args.workers as usize;
    let memory = args.memory.clone().unwrap_or_default();
    options.memory_bytes = memory.all;
    options.device_memory_bytes = memory.each;
    options.host_memory_bytes = args.host_memory;
    options.base_tables = args.base_tables;

    let start = Instant::now();
    let prover = Prover::new(options)?;
    let recorder = Arc::new(Recorder::default());
    if timeline.is_some() {
        prover.observe(recorder.clone());
    }
    let observer = Arc::new(Observer::default());
    prover.observe(observer.clone());
    warn_of_fallback(&args.device, &prover);
    let source = args.circuit.parameters(circuit.as_ref())?;
    let key = match args.partitions {
        1 => prover.key(source.as_ref())?,
        _ => prover.load(source.as_ref())?,
    };
    let mut document = Document {
        circuit: circuit.info().name,
        label: circuit.label(),
        device: String::new(),
        constraints: 0,
        constraints_with_input_rows: 0,
        domain: 0,
        times_ms: Times { load: milliseconds(start.elapsed()), ..Times::default() },
        devices: BTreeMap::new(),
        kernels: BTreeMap::new(),
        proofs: Vec::new(),
    };

    let mut rng = args.seed.rng("the witness and the blinding factors");
    let progress = Progress::new(format!("proving {}", circuit.label()));
    // What the closures find out about each partition; they run when a worker is free for it and
    // the host has room, for an assignment is the largest thing there.
    let notes: Vec<Mutex<Note>> = (0..args.partitions).map(|_| Mutex::default()).collect();
    let mut syntheses = Vec::new();
    for note in &notes {
        let mut seed = Zeroizing::new(<ChaCha20Rng as SeedableRng>::Seed::default());
        rng.fill_bytes(&mut *seed);
        let circuit = circuit.as_ref();
        let synthesis = move || {
            let start = Instant::now();
            let assignment = circuit.synthesize(&mut ChaCha20Rng::from_seed(*seed))?;
            *note.lock().unwrap_or_else(PoisonError::into_inner) = Note {
                synthesis: milliseconds(start.elapsed()),
                constraints: assignment.own_constraints(),
                constraints_with_input_rows: assignment.num_constraints(),
                domain: assignment.domain(),
                public_inputs: assignment.public_inputs().iter().map(scalar_hex).collect(),
            };
            Ok(assignment)
        };
        syntheses.push((synthesis, Blinding::random(&mut *rng)));
    }
    let ready: Vec<_> = if args.synthesize_first {
        let all_bytes = key.assignment_bytes().saturating_mul(args.partitions.into());
        host_memory::require_within(
            format!("host bytes of {} assignments", args.partitions),
            all_bytes,
            args.host_memory,
        )?;
        progress.say("synthesising");
        syntheses.par_iter().map(|(synthesis, _)| synthesis()).collect::<Result<_>>()?
    } else {
        Vec::new()
    };
    let mut ready = ready.iter();
    let partitions = syntheses.into_iter().map(|(synthesis, blinding)| {
        let (r, s) = (blinding.r(), blinding.s());
        match ready.next() {
            Some(assignment) => PartitionInput::ready(assignment, r, s),
            None => PartitionInput::synthesized(synthesis, key.assignment_bytes(), r, s),
        }
    });
    let partitions = partitions.collect();
    // What ran so far was for the key.
    prover.kernel_times();
    let job_start = Instant::now();
    let proved = prover.serve(|session| {
        let mut job = session.submit(Job { key: &key, priority: 0, partitions })?;
        let mut notes = notes.iter();
        while let (Some(proved), Some(note)) = (job.next(), notes.next()) {
            let proved = proved?;
            let note = std::mem::take(&mut *note.lock().unwrap_or_else(PoisonError::into_inner));
            note.add_to(&mut document, proved);
            if args.partitions > 1 {
                progress.set(document.proofs.len() as u64, args.partitions.into());
            }
        }
        Ok::<(), Error>(())
    });
    document.times_ms.job = milliseconds(job_start.elapsed());
    drop(progress);
    document.devices = observer.occupancy();
    let kernels = prover.kernel_times().into_iter();
    document.kernels = kernels.map(|(name, time)| (name, time.into())).collect();
    if let Some(timeline) = timeline {
        // Of a failure too.
        let trace = chrome_trace(&recorder.events()).to_string();
        timeline.finish(|file| file.write_all(trace.as_bytes()))?;
    }
    proved?;
    document.device = devices(&document);

    let json = to_json(&document)?;
    if let Some(out) = out {
        out.finish(|file| file.write_all(json.as_bytes()))?;
    }
    print(&if args.json { json } else { text(&document) })?;
    Ok(Outcome::Good)
}

/// The factors r and s that hide the witness in a proof, wiped when dropped.
struct Blinding([Scalar; 2]);

impl Blinding {
    fn random(rng: &mut dyn RngCore) -> Self {
        Self([Scalar::random(&mut *rng), Scalar::random(rng)])
    }

    fn r(&self) -> Scalar {
        self.0[0]
    }

    fn s(&self) -> Scalar {
        self.0[1]
    }

    fn wipe(&mut self) {
        as_bytes_mut(&mut self.0).zeroize();
    }
}

impl Drop for Blinding {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// What is known of a partition from its synthesis.
#[derive(Default)]
struct Note {
    synthesis: f64,
    constraints: usize,
    constraints_with_input_rows: usize,
    domain: usize,
    public_inputs: Vec<String>,
}

impl Note {
    fn add_to(self, document: &mut Document, proved: Proved) {
        document.times_ms.synthesis += self.synthesis;
        document.times_ms.prove += milliseconds(proved.prove_time);
        document.times_ms.verify += milliseconds(proved.check_time);
        document.constraints = self.constraints;
        document.constraints_with_input_rows = self.constraints_with_input_rows;
        document.domain = self.domain;
        document.proofs.push(ProofEntry {
            proof: proved.proof.to_hex(),
            public_inputs: self.public_inputs,
            // The prover gives out no other.
            verified: true,
            device: proved.device,
        });
    }
}

/// The devices that made the proofs.
fn devices(document: &Document) -> String {
    let mut names: Vec<&str> = document.proofs.iter().map(|p| p.device.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Says why no GPU is used when the choice was ours and this build knows of GPUs.
fn warn_of_fallback(asked: &str, prover: &Prover) {
    if asked != AUTO || prover.device_names() != ["cpu"] {
        return;
    }
    for found in registry::discover() {
        if found.usable.as_ref().is_ok_and(registry::is_software) {
            continue;
        }
        let reason = found.usable.map_or_else(|reason| reason, |_| "could not be opened".into());
        if found.name != "cpu" {
            super::note("warning", &format!("proving on the CPU, for {}: {reason}", found.name));
        }
    }
}

fn text(document: &Document) -> String {
    let Document { label, constraints, constraints_with_input_rows, domain, .. } = document;
    let Times { load, synthesis, prove, verify, job } = document.times_ms;
    let lines = [
        ("circuit", label.clone()),
        ("device", document.device.clone()),
        ("constraints", format!("{constraints}, with input rows {constraints_with_input_rows}")),
        ("domain", domain.to_string()),
        (
            "times",
            format!(
                "load {load:.1} ms, synthesis {synthesis:.1} ms, prove {prove:.1} ms, verify \
                 {verify:.1} ms; the job {job:.1} ms"
            ),
        ),
    ];
    let mut rows: Vec<Vec<String>> =
        lines.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    for (name, device) in &document.devices {
        let Occupancy { computed, span_ms, compute_held_ms, overlap_ms } = device;
        rows.push(vec![
            name.clone(),
            format!(
                "{computed} computed in {span_ms:.1} ms; `compute` was held {compute_held_ms:.1} ms \
                 ({:.1}%), staging beside it {overlap_ms:.1} ms",
                100.0 * device.held_share()
            ),
        ]);
    }
    for (name, kernels) in &document.kernels {
        let Kernels { count, span_ms, busy_ms, share } = kernels;
        rows.push(vec![
            format!("{name} kernels"),
            format!(
                "{count} ran {busy_ms:.1} ms of {span_ms:.1} ms from the first to the last ({:.1}%)",
                100.0 * share
            ),
        ]);
    }
    for (at, proof) in document.proofs.iter().enumerate() {
        rows.push(vec![format!("proof {at}"), proof.proof.clone()]);
        if proof.device != document.device {
            rows.push(vec!["  device".to_owned(), proof.device.clone()]);
        }
        for (i, input) in proof.public_inputs.iter().enumerate() {
            rows.push(vec![format!("  input {i}"), input.clone()]);
        }
    }
    let verified = document.proofs.iter().filter(|proof| proof.verified).count();
    table(&rows, 2) + &format!("{verified} of {} proofs verified\n", document.proofs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blinding_factors_are_drawn_and_wiped() {
        let mut blinding = Blinding::random(&mut rand::rngs::OsRng);
        assert!(blinding.r() != Scalar::ZERO && blinding.s() != Scalar::ZERO);
        assert_ne!(blinding.r(), blinding.s());
        blinding.wipe();
        assert_eq!((blinding.r(), blinding.s()), (Scalar::ZERO, Scalar::ZERO));
    }
}
