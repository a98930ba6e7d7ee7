//! Many partitions on the CPU device, through the real scheduler.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "shared/seed.rs"]
mod seed;

use seed::rng;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use blstrs::Scalar;
use ff::Field;
use rand_chacha::ChaCha20Rng;
use serde_json::Value;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Parameters;
use twinlock::groth16::verifier::verify_proof;
use twinlock::scheduler::events::{EventKind, Life, Recorder, TimedEvent};
use twinlock::scheduler::locks::breaches;
use twinlock::{Error, Job, PartitionInput, Prover, ProverOptions};

fn shape(lg: u32) -> MixShape {
    MixShape::new(lg, Profile::Even).unwrap()
}

fn key_of(lg: u32, rng: &mut ChaCha20Rng) -> Parameters {
    generate_parameters(Mix::blank(shape(lg)), rng, &|_, _| ()).unwrap()
}

fn options(workers: usize) -> ProverOptions {
    let mut options = ProverOptions::default();
    options.device = "cpu".into();
    options.workers = workers;
    options
}

fn partitions(lg: u32, count: usize, rng: &mut ChaCha20Rng) -> Vec<PartitionInput<'static>> {
    (0..count)
        .map(|_| {
            let circuit = Mix::random(shape(lg), rng);
            let (r, s) = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
            PartitionInput::synthesized(move || circuit.clone().assignment(), 0, r, s)
        })
        .collect()
}

/// Each partition is queued first and ends exactly once, holding nothing.
fn assert_whole_lives(events: &[TimedEvent], count: usize) {
    let mut ended = BTreeSet::new();
    for event in events {
        if let EventKind::Partition(ticket, life) = &event.kind
            && life.is_end()
        {
            assert!(ended.insert(*ticket), "{ticket} ended twice");
        }
    }
    assert_eq!(ended.len(), count);
    // By their times: they are taken under `mem`, but told after it, by any thread.
    let held = events.iter().filter_map(|event| match event.kind {
        EventKind::MemoryHeld { size_bytes } => Some((event.at, size_bytes)),
        _ => None,
    });
    let last = held.max_by_key(|(at, _)| *at);
    assert_eq!(last.map_or(0, |(_, bytes)| bytes), 0, "bytes held at the end");
    assert_eq!(breaches(), 0, "waits and driver calls under `mem`");
}

/// Start and end in microseconds of the spans with a name, by track, and their partitions.
fn spans(trace: &[Value], name: &str) -> Vec<(f64, f64, String)> {
    let named = trace.iter().filter(|e| e["ph"] == "X" && e["name"] == name);
    named
        .map(|e| {
            let start = e["ts"].as_f64().unwrap();
            let end = start + e["dur"].as_f64().unwrap();
            (start, end, e["args"]["partition"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

fn prove_with_timeline(path: &Path, line: &str) -> (Value, Vec<Value>) {
    let timeline = path.join("t.json");
    let ran = Command::new(env!("CARGO_BIN_EXE_twinlock"))
        .args(line.split(' '))
        .arg("--timeline")
        .arg(&timeline)
        .arg("--json")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(timeline).unwrap()).unwrap();
    let trace = trace["traceEvents"].as_array().unwrap().clone();
    (serde_json::from_slice(&ran.stdout).unwrap(), trace)
}

#[test]
fn the_timeline_shows_staging_beside_computing() {
    let dir = tempfile::tempdir().unwrap();
    let line = "prove mix --lg 14 --partitions 6 --workers 3 --device cpu";
    let (document, trace) = prove_with_timeline(dir.path(), line);
    let proofs = document["proofs"].as_array().unwrap();
    assert_eq!(proofs.len(), 6);
    assert!(proofs.iter().all(|proof| proof["verified"] == true));

    let (computes, stages) = (spans(&trace, "compute"), spans(&trace, "prestage"));
    assert_eq!(computes.len(), 6);
    assert!(stages.len() >= 6);
    let mut sorted = computes.clone();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in sorted.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two partitions compute at once: {pair:?}");
    }
    let beside = stages.iter().any(|stage| {
        let meets = |compute: &(f64, f64, String)| compute.0 < stage.1 && stage.0 < compute.1;
        computes.iter().any(|compute| compute.2 != stage.2 && meets(compute))
    });
    let plans: Vec<_> = trace.iter().filter(|event| event["name"] == "planned").collect();
    assert_eq!(plans.len(), 6);
    assert!(plans.iter().all(|plan| plan["args"]["streamed"].is_string()), "{plans:?}");
    assert!(beside, "no prestage while another partition computes: {stages:?} {computes:?}");
    let tracks: BTreeSet<&str> = (trace.iter())
        .filter(|e| e["name"] == "thread_name")
        .map(|e| e["args"]["name"].as_str().unwrap())
        .collect();
    for track in ["mem", "compute", "worker 0", "worker 1", "worker 2"] {
        assert!(tracks.contains(track), "{track} is missing in {tracks:?}");
    }
    assert!(trace.iter().any(|e| e["ph"] == "C" && e["name"] == "device memory"));
}

#[test]
fn partitions_of_a_session_are_proved_and_give_everything_back() {
    let mut rng = rng();
    let params = key_of(9, &mut rng);
    for workers in [1, 2, 4] {
        let prover = Prover::new(options(workers)).unwrap();
        let recorder = Arc::new(Recorder::default());
        prover.observe(recorder.clone());
        for key in [prover.key(&params).unwrap(), prover.load(&params).unwrap()] {
            let parts = partitions(9, 7, &mut rng);
            let outcomes = prover.serve(|session| {
                session.submit(Job { key: &key, priority: 0, partitions: parts }).unwrap().wait()
            });
            assert_eq!(outcomes.len(), 7);
            for outcome in outcomes {
                outcome.unwrap();
            }
        }
        // The loading of a key is one more.
        assert_whole_lives(&recorder.events(), 15);
    }
}

#[test]
fn proofs_of_a_session_belong_to_their_own_witnesses() {
    let mut rng = rng();
    let params = key_of(6, &mut rng);
    let prover = Prover::new(options(3)).unwrap();
    let key = prover.key(&params).unwrap();
    let assignments: Vec<_> =
        (0..5).map(|_| Mix::random(shape(6), &mut rng).assignment().unwrap()).collect();
    let partitions = (assignments.iter())
        .map(|assignment| PartitionInput::ready(assignment, Scalar::ONE, Scalar::ONE))
        .collect();
    let outcomes = prover.serve(|session| {
        session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
    });
    for (at, outcome) in outcomes.into_iter().enumerate() {
        let proof = outcome.unwrap().proof;
        for (other, assignment) in assignments.iter().enumerate() {
            let inputs = assignment.public_inputs();
            let valid = verify_proof(key.verifying_key(), &proof, inputs).unwrap();
            assert_eq!(valid, at == other, "proof {at}, inputs {other}");
        }
    }
}

/// Sizes of all kinds through memory that holds hardly more than the largest.
#[test]
fn little_memory_and_unequal_sizes_make_partitions_wait_not_fail() {
    let mut rng = rng();
    let keys: Vec<Parameters> = [5, 8, 10].map(|lg| key_of(lg, &mut rng)).into();
    for memory_bytes in [4 << 20, 6 << 20, 16 << 20] {
        let mut options = options(3);
        options.memory_bytes = Some(memory_bytes);
        options.msm_chunk = Some(1 << 10);
        let prover = Prover::new(options).unwrap();
        let recorder = Arc::new(Recorder::default());
        prover.observe(recorder.clone());
        let keys: Vec<_> = keys.iter().map(|params| prover.key(params).unwrap()).collect();
        prover.serve(|session| {
            let jobs: Vec<_> = [5, 10, 8, 10, 5, 8]
                .into_iter()
                .map(|lg| {
                    let key = &keys[[5, 8, 10].iter().position(|other| *other == lg).unwrap()];
                    let partitions = partitions(lg, 2, &mut rng);
                    session.submit(Job { key, priority: (lg % 3) as u8, partitions }).unwrap()
                })
                .collect();
            for job in jobs {
                for outcome in job.wait() {
                    outcome.unwrap();
                }
            }
        });
        assert_whole_lives(&recorder.events(), 12);
    }
}

#[test]
fn a_cancelled_job_ends_soon_and_others_go_on() {
    let mut rng = rng();
    let params = key_of(12, &mut rng);
    let prover = Prover::new(options(2)).unwrap();
    let recorder = Arc::new(Recorder::default());
    prover.observe(recorder.clone());
    let key = prover.key(&params).unwrap();
    let (doomed, other) = (partitions(12, 6, &mut rng), partitions(12, 2, &mut rng));
    let cancelled = prover.serve(|session| {
        let doomed = session.submit(Job { key: &key, priority: 1, partitions: doomed }).unwrap();
        let other = session.submit(Job { key: &key, priority: 0, partitions: other }).unwrap();
        let started = |life: &Life| matches!(life, Life::ComputeStarted);
        while !recorder
            .events()
            .iter()
            .any(|event| matches!(&event.kind, EventKind::Partition(_, life) if started(life)))
        {
            std::thread::yield_now();
        }
        doomed.cancel();
        for outcome in other.wait() {
            outcome.unwrap();
        }
        let outcomes = doomed.wait();
        outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Cancelled))).count()
    });
    assert!(cancelled >= 4, "{cancelled} of 6 were cancelled");
    assert_whole_lives(&recorder.events(), 8);
}

#[test]
fn the_host_budget_bounds_assignments_in_work() {
    let mut rng = rng();
    let params = key_of(6, &mut rng);
    let mut options = options(4);
    options.host_memory_bytes = Some(250);
    let prover = Prover::new(options).unwrap();
    let key = prover.key(&params).unwrap();
    let (at_work, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let both = Barrier::new(2);
    let partitions = (0..8)
        .map(|i| {
            let circuit = Mix::random(shape(6), &mut rng);
            let (at_work, most, both) = (&at_work, &most, &both);
            let synthesis = move || {
                most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if i < 2 {
                    both.wait();
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
                at_work.fetch_sub(1, Ordering::SeqCst);
                circuit.clone().assignment()
            };
            PartitionInput::synthesized(synthesis, 100, Scalar::ONE, Scalar::ONE)
        })
        .collect();
    let outcomes = prover.serve(|session| {
        session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
    });
    assert!(outcomes.iter().all(Result::is_ok));
    // Two of 100 bytes fit 250; three do not.
    assert_eq!(most.load(Ordering::SeqCst), 2);
}
