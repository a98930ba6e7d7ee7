//! `twinlock plan`

use std::path::PathBuf;

use serde::Serialize;
use twinlock::groth16::params::ParameterFile;
use twinlock::groth16::prover::variant::{AssignmentUpload, NttBuffers};
use twinlock::scheduler::plan::{
    Limits, MemoryPlan, NamedShape, SHAPES, best, named_shape, parameters_shape,
};
use twinlock::{Error, Result, registry};
use twinlock_api::Error as DeviceError;

use super::output::{print, print_json, size_text, table};
use super::size::parse_size;
use super::{Outcome, invalid};

const GIB: u64 = 1 << 30;
/// Cards that there are.
const CARDS_GIB: [u64; 7] = [8, 12, 16, 24, 48, 80, 141];

/// Show what one proof takes of a card's memory, stage by stage
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is computed and no card is needed. A size that is too small for the \
    smallest plan is told with the numbers; exit code 1 if that is so for all of them.\n\n\
    Examples:\n  twinlock plan --shape porep-32gib\n  \
    twinlock plan --params circuit.params --memory 24GiB --json"
)]
pub struct Args {
    #[arg(long, value_name = "SHAPE", help = format!("One of {SHAPES}"),
        required_unless_present = "params", conflicts_with = "params")]
    shape: Option<String>,
    /// A parameter file whose circuit is meant
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Memory of the card, e.g. 16GiB; or `all` for 8, 12, 16, 24, 48, 80 and 141 GiB
    #[arg(long, value_name = "SIZE", default_value = "all")]
    memory: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    shape: String,
    lg_domain: u32,
    inputs: usize,
    witness: usize,
    a: usize,
    b: usize,
    notes: Vec<String>,
    cards: Vec<Card>,
}

#[derive(Debug, Serialize)]
struct Card {
    memory_bytes: u64,
    /// What the driver's context leaves.
    usable_bytes: u64,
    #[serde(flatten)]
    found: Found,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    Plan(Box<Plan>),
    Refused(String),
}

#[derive(Debug, Serialize)]
struct Plan {
    resident: Vec<&'static str>,
    resident_bytes: u64,
    ntt_buffers: u32,
    assignment: &'static str,
    ahead: bool,
    chunk: usize,
    bases_chunk: usize,
    stages: Vec<Stage>,
    peak_bytes: u64,
    moved: Moved,
    overlap: Option<Overlap>,
    staging_slots: usize,
    staging_slot_bytes: u64,
    reckoned_ms: f64,
}

#[derive(Debug, Serialize)]
struct Stage {
    stage: &'static str,
    work_bytes: u64,
    bases_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Moved {
    prestage_bytes: u64,
    late_bytes: u64,
    bases_bytes: u64,
    total_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Overlap {
    from: &'static str,
    partitions: usize,
    peak_bytes: u64,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let shape = match (&args.shape, &args.params) {
        (_, Some(path)) => parameters_shape(&ParameterFile::open(path)?)?,
        (Some(name), None) => named_shape(name)?,
        (None, None) => return Err(invalid("plan", "needs --shape or --params")),
    };
    let sizes = match args.memory.as_str() {
        "all" => CARDS_GIB.map(|gib| gib * GIB).to_vec(),
        size => vec![parse_size(size).map_err(|problem| invalid("--memory", problem))?],
    };
    let cards = sizes.into_iter().map(|bytes| plan(&shape, bytes)).collect::<Result<Vec<_>>>()?;
    let fits = cards.iter().any(|card| matches!(card.found, Found::Plan(_)));
    let document = Document {
        lg_domain: shape.shape.lg_domain,
        inputs: shape.shape.inputs,
        witness: shape.shape.witness,
        a: shape.shape.a,
        b: shape.shape.b,
        notes: notes(&shape),
        shape: shape.name,
        cards,
    };
    if args.json {
        print_json(&document)?;
    } else {
        print(&text(&document))?;
    }
    Ok(if fits { Outcome::Good } else { Outcome::Bad })
}

fn notes(shape: &NamedShape) -> Vec<String> {
    let assumed = shape.assumed.iter().map(|what| format!("assumed: {what}"));
    let general = [
        "512 MiB of each card are assumed to be the driver's; sizes are those of a typical GPU \
         backend",
        "peak: work memory and memory for bases are reserved apart, so it is the sum of both \
         largest stages",
        "overlap: partitions on the card at once, one computing and the others staged, from which \
         of its stages on, and their peak",
        "ahead: what a stage starts with (index maps, first pieces of streamed queries) is sent \
         while the stage before it computes",
        "where all workers have room for more, a prover takes longer digit plans than these, and \
         the tables of multiples that it was asked for",
        "moved: a, b and c count as if they filled the domain",
        "reckoned: from one proof's end to the next one's, at rates measured on an H200 for \
         PoRep; it serves to choose, not to promise",
    ];
    assumed.chain(general.map(str::to_owned)).collect()
}

fn plan(shape: &NamedShape, memory_bytes: u64) -> Result<Card> {
    let device = registry::imagined_card(memory_bytes)?;
    let failed = |source| Error::Device { device: device.info().name.clone(), source };
    let usable_bytes = device.memory().map_err(failed)?.free_bytes;
    let found = match best(&*device, shape.shape, &Limits::new(usable_bytes)) {
        Ok(plan) => Found::Plan(Box::new(entry(&plan))),
        Err(error @ DeviceError::ExceedsLimit { .. }) => Found::Refused(error.to_string()),
        Err(error) => return Err(failed(error)),
    };
    Ok(Card { memory_bytes, usable_bytes, found })
}

fn entry(plan: &MemoryPlan) -> Plan {
    let moved = &plan.moved;
    Plan {
        resident: plan.residents.iter().map(|(query, _)| query.name()).collect(),
        resident_bytes: plan.resident_bytes,
        ntt_buffers: match plan.variant.ntt_buffers {
            NttBuffers::Two => 2,
            NttBuffers::Three => 3,
        },
        assignment: match plan.variant.assignment {
            AssignmentUpload::Prestage => "early",
            AssignmentUpload::Late => "late",
        },
        ahead: plan.variant.ahead,
        chunk: plan.variant.chunk,
        bases_chunk: plan.variant.bases_chunk,
        stages: (plan.stages.iter())
            .map(|stage| Stage {
                stage: stage.stage.name(),
                work_bytes: stage.work_bytes,
                bases_bytes: stage.bases_bytes,
            })
            .collect(),
        peak_bytes: plan.peak_bytes(),
        moved: Moved {
            prestage_bytes: moved.prestage_bytes,
            late_bytes: moved.late_bytes,
            bases_bytes: moved.bases_bytes,
            total_bytes: moved.total_bytes(),
        },
        overlap: plan.overlap.as_ref().map(|overlap| Overlap {
            from: overlap.from.name(),
            partitions: overlap.partitions,
            peak_bytes: overlap.work_bytes + overlap.bases_bytes + plan.resident_bytes,
        }),
        staging_slots: plan.staging_slots,
        staging_slot_bytes: plan.staging_slot_bytes,
        reckoned_ms: (plan.period.as_secs_f64() * 1e3).round(),
    }
}

fn text(document: &Document) -> String {
    let Document { shape, lg_domain, inputs, witness, a, b, .. } = document;
    let mut text = format!(
        "{shape}: domain 2^{lg_domain}, {inputs} inputs, {witness} witness variables, {a} points \
         in A, {b} in each B\n\n"
    );
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut refusals = String::new();
    for card in &document.cards {
        let memory = size_text(card.memory_bytes);
        match &card.found {
            Found::Plan(plan) => {
                if rows.is_empty() {
                    rows.push(heading(plan));
                }
                rows.push(row(memory, plan));
            }
            Found::Refused(reason) => refusals += &format!("{memory}: does not fit: {reason}\n"),
        }
    }
    text += &refusals;
    text += &table(&rows, 6);
    text.push('\n');
    for note in &document.notes {
        text += &format!("{note}\n");
    }
    text
}

fn heading(plan: &Plan) -> Vec<String> {
    let mut heading = ["card", "resident", "ntt buffers", "assignment", "ahead", "overlap"]
        .map(str::to_owned)
        .to_vec();
    heading.extend(plan.stages.iter().map(|stage| stage.stage.to_owned()));
    heading.extend(["residents", "peak", "moved", "slots", "reckoned ms"].map(str::to_owned));
    heading
}

fn row(memory: String, plan: &Plan) -> Vec<String> {
    let resident = match plan.resident.as_slice() {
        [] => "none".to_owned(),
        names => names.join(" "),
    };
    let overlap = match &plan.overlap {
        None => "none".to_owned(),
        Some(overlap) => {
            let Overlap { from, partitions, peak_bytes } = overlap;
            format!("{partitions} from {from}: {}", size_text(*peak_bytes))
        }
    };
    let ahead = if plan.ahead { "yes" } else { "no" };
    let mut row =
        [&memory, &resident, &plan.ntt_buffers.to_string(), plan.assignment, ahead, &overlap]
            .map(str::to_owned)
            .to_vec();
    row.extend(plan.stages.iter().map(|stage| size_text(stage.work_bytes + stage.bases_bytes)));
    row.extend([
        size_text(plan.resident_bytes),
        size_text(plan.peak_bytes),
        size_text(plan.moved.total_bytes),
        format!("{} x {}", plan.staging_slots, size_text(plan.staging_slot_bytes)),
        format!("{:.0}", plan.reckoned_ms),
    ]);
    row
}
