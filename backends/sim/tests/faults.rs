//! Injected faults, and what the device answers then.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::*;
use twinlock_api::op::Fill;
use twinlock_api::{Backend, Device, Error, MemoryClass, Op, OpenOptions, StagingKind};
use twinlock_sim::{
    Arithmetic, Clock, Fault, FaultPlan, FaultRates, Lane, Log, SimBackend, SimCard, SimConfig,
    SimDevice,
};

fn with(faults: impl Into<Vec<Fault>>) -> SimConfig {
    SimConfig { faults: FaultPlan::of(faults), ..round_numbers() }
}

fn is_lost<T>(result: twinlock_api::Result<T>) -> bool {
    matches!(result, Err(Error::DeviceLost { .. }))
}

#[test]
fn the_nth_allocation_finds_no_room() {
    let device = open(with([Fault::OutOfMemory { allocation: 1 }]));
    region(&device, 256).unwrap();
    assert!(matches!(region(&device, 256), Err(Error::OutOfMemory { .. })));
    region(&device, 256).unwrap();
    assert_eq!(device.memory().unwrap().regions_bytes, 512);
    assert_eq!(device.card().faults_fired().len(), 1);
}

#[test]
fn faults_can_be_added_on_the_way() {
    let device = open(with([]));
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 4));
    device.synchronize(&kernel(&device, stream, view, 1), FOREVER).unwrap();
    let card = device.card();
    card.inject(Fault::KernelFailed { op: card.counts().ops });
    card.inject(Fault::OutOfMemory { allocation: card.counts().allocations });
    card.inject(Fault::OtherProcess { from: s(1), until: s(50), bytes: 1 << 20 });
    assert!(device.synchronize(&kernel(&device, stream, view, 1), FOREVER).is_err());
    assert!(region(&device, 4).is_err());
    assert_eq!(free_bytes(&device), 0);
    card.clock().advance_to(s(50));
    region(&device, 4).unwrap();
    // On the poisoned stream the next operation is skipped, and its fault with it.
    card.inject(Fault::KernelFailed { op: card.counts().ops });
    kernel(&device, stream, view, 1);
    let other = device.create_stream("b").unwrap();
    device.synchronize(&kernel(&device, other, view, 1), FOREVER).unwrap();
    assert_eq!(card.faults_fired().len(), 3);
    let line = "failed=1 oom=1 other_ns=1000000000..50000000000:1048576 failed=2";
    assert_eq!(card.fault_plan().to_string(), line);
}

#[test]
fn slow_copies_take_their_factor() {
    let device = open(with([Fault::SlowCopies { first: 1, count: 1, factor: 6 }]));
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 1_000));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 1_000).unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        device.upload(stream, up.as_mut(), 0, view).unwrap();
        ends.push(completion(&device, stream));
    }
    assert_eq!(ends, [s(1), s(7), s(8)]);
}

#[test]
fn a_failed_kernel_poisons_its_stream_and_those_that_wait_for_it() {
    let device = open(with_bytes(with([Fault::KernelFailed { op: 1 }])));
    let [a, b, c] = ["a", "b", "c"].map(|name| device.create_stream(name).unwrap());
    let [va, vb, vc] = ["a", "b", "c"].map(|name| work(&device, name, 256));
    let mut down = device.allocate_staging("down", StagingKind::Download, 256).unwrap();
    let good = kernel(&device, a, va, 1);
    let failed = kernel(&device, a, va, 2);
    let skipped = kernel(&device, a, va, 4);
    device.wait(b, &skipped).unwrap();
    let waited = kernel(&device, b, vb, 1);
    let other = kernel(&device, c, vc, 1);
    device.download(a, va, down.as_mut(), 0).unwrap();
    assert_eq!(device.completion_time(&skipped).unwrap(), s(3), "skipped work takes no time");
    let failure = Error::KernelFailed { name: "fill", reason: "injected fault".into() };
    device.synchronize(&good, FOREVER).unwrap();
    assert!(!device.query(&failed).unwrap(), "it fails when it ends");
    for event in [&failed, &skipped, &waited] {
        assert_eq!(device.synchronize(event, FOREVER), Err(failure.clone()));
        assert_eq!(device.query(event), Err(failure.clone()), "every time");
    }
    device.synchronize(&other, FOREVER).unwrap();
    assert_eq!(down.host(FOREVER).unwrap_err(), failure);
    down.host(FOREVER).expect("reported once, then the buffer is usable again");
    assert_eq!(device.device_synchronize(FOREVER), Err(failure));
    device.destroy_stream(a).unwrap();
    device.destroy_stream(b).unwrap();
    device.device_synchronize(FOREVER).unwrap();
    let again = device.create_stream("again").unwrap();
    device.synchronize(&kernel(&device, again, va, 1), FOREVER).unwrap();
}

#[test]
fn a_flipped_bit_is_one_bit_of_what_was_written() {
    let bit = 8 * 37 + 5;
    for flip in [bit, bit + 256 * 8] {
        let device = open(with_bytes(with([Fault::BitFlip { op: 1, bit: flip }])));
        let stream = device.create_stream("a").unwrap();
        let [first, second] = ["first", "second"].map(|name| work(&device, name, 256));
        kernel(&device, stream, first, 3);
        kernel(&device, stream, second, 3);
        let mut down = device.allocate_staging("down", StagingKind::Download, 512).unwrap();
        device.download(stream, first, down.as_mut(), 0).unwrap();
        device.download(stream, second, down.as_mut(), 256).unwrap();
        let mut expected = 3u32.to_le_bytes().repeat(128);
        expected[256 + 37] ^= 1 << 5;
        assert_eq!(down.host(FOREVER).unwrap(), expected);
    }
}

#[test]
fn a_lost_card_kills_every_handle_and_comes_back_empty() {
    let inner = Arc::new(Bytes::default());
    let faults = vec![Fault::LostAtOp { op: 1 }, Fault::OpenFails { count: 2 }];
    let config = SimConfig { arithmetic: Arithmetic::Of(inner.clone()), ..with(faults) };
    let backend = SimBackend::new([config], &Clock::new());
    let card = &backend.cards()[0];
    let device = card.open().unwrap();
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 256));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 256).unwrap();
    let good = kernel(&device, stream, view, 2);
    let last = kernel(&device, stream, view, 4);
    device.synchronize(&good, FOREVER).unwrap();
    assert!(is_lost(device.synchronize(&last, FOREVER)));
    assert_eq!(now(&device), s(4), "in the middle of the second kernel");
    assert!(is_lost(device.query(&good)));
    assert!(is_lost(device.memory()));
    assert!(is_lost(region(&device, 4)));
    assert!(is_lost(device.free(view.region())));
    assert!(is_lost(device.create_stream("b")));
    assert!(is_lost(device.destroy_stream(stream)));
    assert!(is_lost(device.record(stream)));
    assert!(is_lost(device.wait(stream, &good)));
    assert!(is_lost(device.enqueue(stream, &Op::Fill(Fill::zero(view)))));
    assert!(is_lost(device.upload(stream, up.as_mut(), 0, view)));
    assert!(is_lost(device.device_synchronize(FOREVER)));
    assert!(is_lost(up.host(FOREVER)));
    assert_eq!((card.losses(), card.held_bytes(), inner.live_bytes()), (1, 0, 0));

    let open = || backend.open("sim:0", &OpenOptions::default());
    assert!(is_lost(open()) && is_lost(open()), "it stays away for two attempts");
    let again = open().unwrap();
    assert!(again.enqueue(stream, &Op::Fill(Fill::zero(view))).is_err(), "old handles stay dead");
    assert!(is_lost(device.memory()), "and so does the old device");
    let stream = again.create_stream("a").unwrap();
    let view = again.allocate("v", MemoryClass::Work, 256).unwrap().whole("v").unwrap();
    assert!(matches!(again.upload(stream, up.as_mut(), 0, view), Err(Error::InvalidArgument(_))));
    again.enqueue(stream, &Op::Fill(Fill::new(view, 1))).unwrap();
    again.synchronize(&again.record(stream).unwrap(), s(10)).unwrap();
    drop(device);
    assert_eq!(again.memory().unwrap().regions_bytes, 256, "the old device took nothing along");
}

#[test]
fn a_card_is_lost_at_a_time_even_while_the_host_waits() {
    let device = open(with([Fault::LostAt { at: s(5) }]));
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 4));
    let event = kernel(&device, stream, view, 60);
    assert!(matches!(device.synchronize(&event, s(2)), Err(Error::Timeout { .. })));
    assert!(is_lost(region(&device, 4)));
    assert_eq!(now(&device), s(5));
    let log = device.card().log();
    let kernel_ends: Vec<_> =
        log.spans.iter().filter(|x| x.lane == Lane::Compute).map(|x| x.end).collect();
    assert_eq!(kernel_ends, [s(5)], "the kernel ends with the card");
    let again = device.card().open().unwrap();
    let stream = again.create_stream("a").unwrap();
    let event = kernel(&again, stream, work(&again, "v", 4), 1);
    assert_eq!(again.completion_time(&event).unwrap(), s(6), "its engines are idle again");
}

/// A run of random calls that shrugs off every error, reopening the card when it is lost.
fn run(card: &Arc<SimCard>, seed: u64, steps: usize) -> (Vec<String>, Log) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut errors = Vec::new();
    let mut note = |result: Result<(), Error>| {
        let kind = result.err().map(|error| error.to_string());
        // Handles' numbers differ from run to run.
        errors.extend(kind.filter(|text| !text.contains("not alive")));
    };
    let mut device: Option<Arc<SimDevice>> = None;
    for _ in 0..steps {
        let Some(open) = device.clone().or_else(|| card.open().ok()) else {
            card.clock().advance(ms(100));
            continue;
        };
        device = Some(open.clone());
        let result = (|| {
            let stream = open.create_stream("s")?;
            let view = region(&open, rng.gen_range(1..100) * 4)?.whole("v")?;
            let mut up = open.allocate_staging("up", StagingKind::Upload, 400)?;
            open.upload(stream, up.as_mut(), 0, view)?;
            open.enqueue(stream, &Op::Fill(Fill::new(view, rng.gen_range(0..3))))?;
            let event = open.record(stream)?;
            let synchronized = open.synchronize(&event, FOREVER);
            open.destroy_stream(stream)?;
            open.free(view.region())?;
            synchronized
        })();
        if is_lost(result.clone()) {
            device = None;
        }
        note(result);
    }
    let mut log = card.log();
    for span in &mut log.spans {
        // A handle's number, as well.
        span.stream = None;
    }
    (errors, log)
}

#[test]
fn a_seed_replays_its_run_and_faults_end() {
    let mut errors_seen = 0;
    for seed in 0..60 {
        let rates = FaultRates {
            ops: 100,
            copies: 100,
            allocations: 100,
            time: s(200),
            lost: 0.03,
            kernel_failed: 0.05,
            slow_copies: 0.05,
            out_of_memory: 0.05,
            other_process_bytes: 1 << 20,
            until: s(150),
            ..FaultRates::default()
        };
        let plan = FaultPlan::from_seed(seed, &rates);
        let config = SimConfig { faults: plan.clone(), ..round_numbers() };
        let first_card = card(config.clone());
        let first = run(&first_card, seed, 200);
        let line = first_card.fault_plan().to_string();
        let replayed = card(SimConfig { faults: line.parse().unwrap(), ..config });
        assert_eq!(run(&replayed, seed, 200), first, "replay of {line}");
        assert_eq!(replayed.faults_fired(), first_card.faults_fired(), "replay of {line}");
        errors_seen += first.0.len();
        // Past the end of faults, everything works.
        first_card.clock().advance_to(s(200));
        let (late_errors, _) = run(&first_card, seed, 50);
        assert_eq!(late_errors, Vec::<String>::new(), "after {line}");
        assert_eq!(first_card.held_bytes(), 0, "memory comes back after {line}");
    }
    assert!(errors_seen > 60, "only {errors_seen} errors in 60 seeds: nothing was tested");
}
