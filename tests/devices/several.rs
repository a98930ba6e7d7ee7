//! Several devices at once.

use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use twinlock::circuits::mix::Mix;
use twinlock::registry::is_software;
use twinlock::scheduler::events::{EventKind, Life, Recorder};
use twinlock::{Job, PartitionInput, Prover};
use twinlock_api::OpenOptions;

use crate::{Gpu, LG, options, parameters, rng, shape};

/// One card opened twice is two devices, with queues and memories of their own.
pub fn two_devices_prove_at_once(gpu: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let open = || gpu.open(name, &OpenOptions::default()).unwrap();
    let mut options = options(name);
    options.workers = 1;
    let prover = Prover::with_devices(vec![open(), open()], options).unwrap();
    let recorder = Arc::new(Recorder::default());
    prover.observe(recorder.clone());
    let key = prover.key(&params).unwrap();
    let partitions = (0..6)
        .map(|_| PartitionInput::circuit(Mix::random(shape(LG), &mut rng), &mut rng))
        .collect();
    let outcomes = prover.serve(|session| {
        session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
    });
    assert_eq!(outcomes.len(), 6);
    for outcome in outcomes {
        let proved = outcome.unwrap();
        assert!(proved.failed_attempts.is_empty(), "{:?}", proved.failed_attempts);
    }
    // One device computes one partition at a time, so two at a time are on two devices.
    let (mut computing, mut most) = (0, 0);
    for event in recorder.events() {
        match event.kind {
            EventKind::Partition(_, Life::ComputeStarted) => computing += 1,
            EventKind::Partition(_, Life::ComputeEnded) => computing -= 1,
            _ => {}
        }
        most = most.max(computing);
    }
    assert_eq!((computing, most), (0, 2));
}

fn prove_mix(device: &str, more: &[&str]) -> Value {
    // This test may have been carried to another machine than cargo's.
    let program = std::env::var("TWINLOCK_PROGRAM");
    let ran = Command::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_twinlock")))
        .args(["prove", "mix", "--lg", "8", "--json", "--device", device])
        .args(more)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn devices_of(document: &Value) -> Vec<&str> {
    let proofs = document["proofs"].as_array().unwrap();
    proofs.iter().map(|proof| proof["device"].as_str().unwrap()).collect()
}

pub fn a_list_of_devices_shares_the_partitions(_: impl Gpu, name: &str) {
    // As many at once as there are partitions: the first of each device starts before any ends.
    let memory = format!("{name}=256MiB,cpu=64MiB");
    let more = ["--partitions", "4", "--workers", "2", "--memory", &memory];
    let document = prove_mix(&format!("{name},cpu"), &more);
    let mut devices = devices_of(&document);
    devices.sort_unstable();
    devices.dedup();
    assert_eq!(devices, ["cpu", name]);
    assert_eq!(document["device"], format!("cpu, {name}"));
}

pub fn all_leaves_software_out(gpu: impl Gpu, _name: &str) {
    let document = prove_mix("all", &["--partitions", "2"]);
    let software: Vec<_> = (gpu.discover().into_iter())
        .filter(|found| found.usable.as_ref().is_ok_and(is_software))
        .map(|found| found.name)
        .collect();
    for device in devices_of(&document) {
        assert!(!software.iter().any(|name| name == device), "{device} of {software:?}");
    }
}
