//! Memory plans, confirmed on simulated cards.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "shared/seed.rs"]
mod seed;

use seed::rng;
use std::sync::Arc;
use std::time::Duration;

use blstrs::Scalar;
use ff::Field;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Query;
use twinlock::groth16::prover::layout::{Buffer, Stage};
use twinlock::groth16::prover::shape::ProofShape;
use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock::scheduler::arena::{Arena, Lease};
use twinlock::scheduler::plan::{Limits, MemoryPlan, best, named_shape, smallest};
use twinlock::{Prover, ProverOptions, registry};
use twinlock_api::{Device, Error, MemoryClass, OpenOptions};
use twinlock_sim::{Arithmetic, Clock, KernelCost, Lane, SimCard, SimConfig, Span};

const GIB: u64 = 1 << 30;
const CARDS_GIB: [u64; 7] = [8, 12, 16, 24, 48, 80, 141];
const CLASSES: [MemoryClass; 2] = [MemoryClass::Work, MemoryClass::Resident];

/// A card without a use but its memory's.
fn card(gib: u64) -> (Arc<SimCard>, Arc<dyn Device>) {
    let card = SimCard::new(SimConfig::new("sim:0", gib * GIB), Clock::new());
    let device = card.open().unwrap();
    (card, device)
}

fn plan_on(device: &dyn Device, shape: &str) -> Result<MemoryPlan, Error> {
    let budget = device.memory().unwrap().free_bytes;
    best(device, named_shape(shape).unwrap().shape, &Limits::new(budget))
}

/// Leases that live in stages of one partition.
#[derive(Default)]
struct Held(Vec<(Buffer, Lease)>);

impl Held {
    /// Carves what `stage` is the first to use, the longest-lived first.
    fn enter(&mut self, arena: &Arena, buffers: &[Buffer], stage: Stage) {
        let mut new: Vec<Buffer> = buffers.iter().filter(|b| b.first == stage).copied().collect();
        new.sort_by_key(|b| (std::cmp::Reverse(b.last), std::cmp::Reverse(b.size_bytes)));
        for buffer in new {
            let lease = arena.lease(buffer.name, buffer.class, buffer.size_bytes);
            self.0.push((buffer, lease.unwrap_or_else(|e| panic!("{}: {e}", stage.name()))));
        }
    }

    fn leave(&mut self, stage: Stage) {
        self.0.retain(|(buffer, _)| buffer.last > stage);
    }
}

/// Reserves what the plan says and carves every buffer in the order of the stages: nothing more is
/// taken from the driver than promised, and each stage holds what was promised.
fn confirm(gib: u64, plan: &MemoryPlan) {
    let (card, device) = card(gib);
    let context_bytes = card.held_bytes();
    let arena = Arena::new(device.clone(), plan.peak_bytes());
    arena.reserve(MemoryClass::Resident, plan.resident_bytes).unwrap();
    let residents: Vec<Lease> = (plan.residents.iter())
        .map(|(query, bytes)| arena.lease(query.name(), MemoryClass::Resident, *bytes).unwrap())
        .collect();
    arena.reserve(MemoryClass::Work, plan.work_bytes).unwrap();
    arena.reserve(MemoryClass::Resident, plan.bases_bytes).unwrap();
    let mut held = Held::default();
    for stage in &plan.stages {
        held.enter(&arena, &plan.buffers, stage.stage);
        for (buffer, lease) in &held.0 {
            assert_eq!(lease.view().offset_bytes(), buffer.offset_bytes, "{}", buffer.name);
        }
        let usage = arena.usage();
        let promised = stage.total_bytes() + plan.resident_bytes;
        assert_eq!(usage.in_use_bytes, promised, "{gib} GiB, {}", stage.stage.name());
        held.leave(stage.stage);
    }
    assert!(held.0.is_empty());
    assert_eq!(arena.usage().peak_bytes, plan.largest_stage_bytes());
    let peak = card.log().peak().held_bytes - context_bytes;
    assert_eq!(peak, plan.peak_bytes(), "{gib} GiB");
    assert_eq!(peak, arena.usage().reserved_bytes);
    assert!(peak + context_bytes <= gib * GIB);
    drop((residents, held));
    drop(arena);
    assert_eq!(card.held_bytes(), context_bytes);
}

/// Whether no two buffers in use at once share a byte, and all end where the plan says.
fn confirm_places(plan: &MemoryPlan) {
    for class in CLASSES {
        let buffers: Vec<_> = plan.buffers.iter().filter(|b| b.class == class).collect();
        let end = |b: &Buffer| b.offset_bytes + b.taken_bytes();
        let promised = match class {
            MemoryClass::Work => plan.work_bytes,
            MemoryClass::Resident => plan.bases_bytes,
        };
        for (at, a) in buffers.iter().enumerate() {
            assert!(end(a) <= promised, "{}", a.name);
            for b in &buffers[at + 1..] {
                let meet = a.first <= b.last && b.first <= a.last;
                let overlap = a.offset_bytes < end(b) && b.offset_bytes < end(a);
                assert!(!(meet && overlap), "{} and {}", a.name, b.name);
            }
        }
    }
}

/// One partition after the other, the next one staged from the stage on that the plan says.
fn confirm_overlap(gib: u64, plan: &MemoryPlan) {
    let Some(overlap) = &plan.overlap else { return };
    let (_, device) = card(gib);
    let budget = device.memory().unwrap().free_bytes;
    let arena = Arena::new(device, budget);
    arena.reserve(MemoryClass::Resident, plan.resident_bytes).unwrap();
    let residents: Vec<Lease> = (plan.residents.iter())
        .map(|(query, bytes)| arena.lease(query.name(), MemoryClass::Resident, *bytes).unwrap())
        .collect();
    arena.reserve(MemoryClass::Work, overlap.work_bytes).unwrap();
    arena.reserve(MemoryClass::Resident, overlap.bases_bytes).unwrap();
    let mut first = Held::default();
    let mut others: Vec<_> = (1..overlap.partitions).map(|_| Held::default()).collect();
    for stage in Stage::ALL {
        first.enter(&arena, &plan.buffers, stage);
        if stage == overlap.from {
            for next in &mut others {
                next.enter(&arena, &plan.buffers, Stage::Prestage);
            }
        }
        first.leave(stage);
    }
    drop(first);
    // The oldest of the others runs to its end in what is left.
    let mut next = others.remove(0);
    for stage in Stage::ALL {
        if stage != Stage::Prestage {
            next.enter(&arena, &plan.buffers, stage);
        }
        next.leave(stage);
    }
    drop((others, residents));
}

#[test]
fn porep_plans_hold_on_every_card() {
    let mut moved = u64::MAX;
    let mut period = Duration::MAX;
    for gib in CARDS_GIB {
        let (_, device) = card(gib);
        match plan_on(&*device, "porep-32gib") {
            Ok(plan) => {
                println!(
                    "{gib} GiB: {:?}, peak {}, moved {:?}, {:?}, {:?}",
                    plan.variant,
                    plan.peak_bytes(),
                    plan.moved,
                    plan.overlap,
                    plan.period
                );
                confirm_places(&plan);
                confirm(gib, &plan);
                confirm_overlap(gib, &plan);
                assert!(plan.period <= period, "{gib} GiB is slower than a smaller card");
                assert!(gib > 8);
                (moved, period) = (plan.moved.total_bytes().min(moved), plan.period);
            }
            Err(error) => {
                println!("{gib} GiB: {error}");
                assert_eq!(gib, 8, "{error}");
                confirm_refusal(&error, gib);
            }
        }
    }
    // The largest card keeps every query: what is left to move is the witness.
    let shape = named_shape("porep-32gib").unwrap().shape;
    let vectors = 32 * (3 * shape.domain() + shape.variables()) as u64;
    assert_eq!(moved, vectors + 4 * (shape.b + shape.variables()) as u64);
}

/// Two vectors of 2^27 elements are 8 GiB; the card has less.
fn confirm_refusal(error: &Error, gib: u64) {
    let Error::ExceedsLimit { what, requested, limit } = error else { panic!("{error}") };
    assert!(*requested > 8 * GIB && *limit < gib * GIB);
    let short = format!("{} short", requested - limit);
    for word in ["stage quotient", "a 4294967296", "b 4294967296", &short] {
        assert!(what.contains(word), "no {word:?} in {what}");
    }
    assert!(!what.contains("c 4294967296"), "{what}");
}

#[test]
fn plans_of_every_shape_hold_on_every_card() {
    for shape in ["snap-32gib", "wpost-32gib", "wnpost-32gib", "mix:20", "mix:24:bits", "mix:4"] {
        for gib in [12, 24, 80] {
            let (_, device) = card(gib);
            let plan = plan_on(&*device, shape).unwrap_or_else(|e| panic!("{shape}, {gib}: {e}"));
            confirm_places(&plan);
            confirm(gib, &plan);
            confirm_overlap(gib, &plan);
        }
    }
}

/// The smallest plan is no larger than the best of its own size, and one byte less is refused.
#[test]
fn the_smallest_plan_is_the_limit() {
    let (_, device) = card(141);
    for name in ["porep-32gib", "mix:20"] {
        let shape = named_shape(name).unwrap().shape;
        let least = smallest(&*device, shape, &Limits::new(0)).unwrap();
        assert_eq!(least.variant.ntt_buffers, NttBuffers::Two, "{name}");
        assert_eq!(least.variant.assignment, AssignmentUpload::Late, "{name}");
        let found = best(&*device, shape, &Limits::new(least.peak_bytes())).unwrap();
        assert_eq!(found.peak_bytes(), least.peak_bytes(), "{name}");
        let error = best(&*device, shape, &Limits::new(least.peak_bytes() - 1)).unwrap_err();
        assert!(error.to_string().contains(", 1 short: stage "), "{error}");
    }
}

/// Two or three NTT buffers, early and late uploads, whole chunks and pieces, queries that stay.
fn forced_variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for ntt_buffers in [NttBuffers::Two, NttBuffers::Three] {
        for assignment in [AssignmentUpload::Prestage, AssignmentUpload::Late] {
            for (chunk, bases_chunk) in [(1000, 1000), (200, 30)] {
                for resident in [QuerySet::NONE, QuerySet::NONE.with(Query::H).with(Query::A)] {
                    for ahead in [false, true] {
                        all.push(Variant {
                            chunk,
                            bases_chunk,
                            windows: Windows::OfChunk,
                            resident,
                            tables: 1,
                            ntt_buffers,
                            assignment,
                            ahead,
                        });
                    }
                }
            }
        }
    }
    all
}

/// Whole proofs on a simulated card that computes: each layout takes the memory that its plan says,
/// no byte is used by two streams without an order, and the proof is the same.
#[test]
fn proofs_take_what_was_planned_and_race_with_nothing() {
    let mut rng = rng();
    let shape = MixShape::new(9, Profile::Bits).unwrap();
    let key = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
    let assignment = Mix::random(shape, &mut rng).assignment().unwrap();
    let (r, s) = (Scalar::random(&mut rng), Scalar::random(&mut rng));
    let cpu = registry::open("cpu", &OpenOptions { threads: Some(2) }).unwrap();
    let mut proofs = Vec::new();
    for variant in forced_variants() {
        let mut config = SimConfig::new("sim:0", GIB);
        config.arithmetic = Arithmetic::Of(cpu.clone());
        let card = SimCard::new(config, Clock::new());
        let device = card.open().unwrap();
        let limits = Limits::new(0);
        let shape = ProofShape::of(&assignment).unwrap();
        let plan = MemoryPlan::new(&*device, shape, variant, &limits).unwrap();
        let mut options = ProverOptions::default();
        options.variant = Some(variant);
        // Small slots, so that slots are used again and again.
        options.staging_slot_bytes = Some(4 << 10);
        options.workers = 1;
        let prover = Prover::with_devices(vec![device], options).unwrap();
        let before = card.held_bytes();
        let key = match variant.resident.is_empty() {
            true => prover.key(&key).unwrap(),
            false => prover.load(&key).unwrap(),
        };
        let proved = prover.prove(&key, &assignment, r, s).unwrap();
        assert_eq!(proved.device, "sim:0");
        proofs.push(proved.proof.to_bytes());
        assert_eq!(card.races(), [], "{variant:?}");
        // Loading keeps one unit of work memory for the outcome of decoding.
        let status = if variant.resident.is_empty() { 0 } else { 256 };
        let taken = card.held_bytes() - before;
        assert_eq!(taken, plan.peak_bytes() + status, "{variant:?}");
    }
    assert!(proofs.iter().all(|proof| proof == &proofs[0]));
}

/// What the B queries start with is sent while L and A are computed where a layout sends ahead, and
/// after them where it does not.
#[test]
fn uploads_sent_ahead_run_beside_the_stage_before() {
    let mut rng = rng();
    let shape = MixShape::new(9, Profile::Bits).unwrap();
    let key = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
    let assignment = Mix::random(shape, &mut rng).assignment().unwrap();
    let cpu = registry::open("cpu", &OpenOptions { threads: Some(2) }).unwrap();
    let beside = |ahead| {
        let mut config = SimConfig::new("sim:0", GIB);
        config.arithmetic = Arithmetic::Of(cpu.clone());
        config.kernel_cost = KernelCost::new(|_| Duration::from_millis(1));
        let card = SimCard::new(config, Clock::new());
        let mut options = ProverOptions::default();
        options.variant = Some(Variant {
            chunk: 200,
            bases_chunk: 200,
            windows: Windows::OfChunk,
            resident: QuerySet::NONE,
            tables: 1,
            ntt_buffers: NttBuffers::Three,
            assignment: AssignmentUpload::Late,
            ahead,
        });
        let prover = Prover::with_devices(vec![card.open().unwrap()], options).unwrap();
        let key = prover.key(&key).unwrap();
        prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).unwrap();
        let log = card.log();
        let ends = |pick: &dyn Fn(&Span) -> bool| {
            log.spans.iter().filter(|span| pick(span)).map(|span| span.end).max().unwrap()
        };
        let sent = |name: &str| ends(&|span| span.lane == Lane::Upload && span.view == name);
        let summed = |name: &str| ends(&|span| span.op == "msm_reduce" && span.view == name);
        [sent("assignment") < summed("h_windows"), sent("b_variables") < summed("l_windows")]
    };
    assert_eq!(beside(true), [true; 2]);
    assert_eq!(beside(false), [false; 2]);
}

/// Limits that a caller sets are kept.
#[test]
fn chunks_and_windows_stay_within_their_limits() {
    let (_, device) = card(24);
    let budget = device.memory().unwrap().free_bytes;
    let shape = named_shape("mix:22").unwrap().shape;
    let limits = Limits { most_chunk: Some(5_000), window_bits: Some(9), ..Limits::new(budget) };
    let plan = best(&*device, shape, &limits).unwrap();
    assert!(plan.variant.chunk <= 5_000);
    let windows = plan.buffers.iter().find(|b| b.name == "h_windows").unwrap();
    // 256 bits, the sign's included, in windows of 9.
    assert_eq!(windows.size_bytes, 29 * 144);
    let limits = Limits { window_bits: Some(99), ..limits };
    assert!(matches!(best(&*device, shape, &limits), Err(Error::Unsupported(_))));
}

#[cfg(feature = "cli")]
mod command {
    use std::process::Command;

    use serde_json::Value;

    /// Exit code, standard output, standard error.
    fn twinlock(line: &str) -> (i32, String, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_twinlock"))
            .args(line.split_whitespace())
            .env_remove("TWINLOCK_LOG")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    }

    fn json(line: &str) -> Value {
        let (code, out, err) = twinlock(line);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }

    #[test]
    fn the_table_has_the_plans_that_were_confirmed() {
        let document = json("plan --shape porep-32gib --json");
        let cards = document["cards"].as_array().unwrap();
        assert_eq!(cards.len(), super::CARDS_GIB.len());
        for (card, gib) in cards.iter().zip(super::CARDS_GIB) {
            assert_eq!(card["memory_bytes"], gib * super::GIB);
            let (_, device) = super::card(gib);
            match super::plan_on(&*device, "porep-32gib") {
                Ok(plan) => {
                    let shown = &card["plan"];
                    assert_eq!(shown["peak_bytes"], plan.peak_bytes());
                    assert_eq!(shown["moved"]["total_bytes"], plan.moved.total_bytes());
                    assert_eq!(shown["ahead"], plan.variant.ahead);
                    for (shown, stage) in
                        shown["stages"].as_array().unwrap().iter().zip(&plan.stages)
                    {
                        assert_eq!(shown["stage"], stage.stage.name());
                        assert_eq!(shown["work_bytes"], stage.work_bytes);
                        assert_eq!(shown["bases_bytes"], stage.bases_bytes);
                    }
                }
                Err(error) => assert_eq!(card["refused"], error.to_string()),
            }
        }
        let (code, out, _) = twinlock("plan --shape porep-32gib");
        assert_eq!(code, 0);
        for word in ["8.0 GiB: does not fit", "stage quotient", "24.0 GiB", "ahead", "reckoned ms"]
        {
            assert!(out.contains(word), "no {word:?} in {out}");
        }
        println!("{out}");
    }

    #[test]
    fn a_parameter_file_has_its_circuits_plan() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mix.params");
        let file = file.to_str().unwrap();
        let (code, _, err) = twinlock(&format!("params generate mix --lg 9 --out {file}"));
        assert_eq!(code, 0, "{err}");
        let of_file = json(&format!("plan --params {file} --memory 1GiB --json"));
        let of_shape = json("plan --shape mix:9 --memory 1GiB --json");
        for field in ["lg_domain", "inputs", "witness", "a", "b", "cards"] {
            assert_eq!(of_file[field], of_shape[field], "{field}");
        }
    }

    #[test]
    fn what_cannot_be_planned_is_told() {
        let (code, out, _) = twinlock("plan --shape porep-32gib --memory 8GiB");
        assert_eq!(code, 1, "{out}");
        assert!(out.contains("short"), "{out}");
        for (line, word) in [
            ("plan", "--shape"),
            ("plan --shape porep", "wnpost-32gib"),
            ("plan --shape mix:20 --memory 16GB", "GiB"),
            ("plan --shape mix:20 --memory 100MiB", "card"),
            ("plan --params /nonexistent", "/nonexistent"),
        ] {
            let (code, out, err) = twinlock(line);
            assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
            assert!(err.contains(word), "{line}: no {word:?} in {err}");
        }
    }
}
