//! Ten partitions of a 32 GiB PoRep on cards of four sizes, with both sets of model inputs, by one
//! lock and by the scheduler. `cargo bench -p twinlock-simulation` prints the times.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use twinlock_simulation::bound::forced;
use twinlock_simulation::measure::{one_lock, scheduler};
use twinlock_simulation::model_inputs::ModelInputs;
use twinlock_simulation::porep::{not_ahead, of_card};
use twinlock_simulation::program::Program;

const CARDS_GIB: [u64; 4] = [16, 24, 48, 141];
const PARTITIONS: u32 = 10;

/// The prover's plan, and the same with nothing sent ahead.
fn programs(gib: u64, inputs: &ModelInputs) -> [(&'static str, Arc<Program>); 2] {
    let plan = of_card(gib, inputs).unwrap();
    let plain = not_ahead(gib, inputs).unwrap();
    [("the prover's plan", Arc::new(plan)), ("not ahead", Arc::new(plain))]
}

#[test]
fn never_slower_than_one_lock() {
    // The scheduler takes all of the card's memory, not what one partition needs: at most 9 ms of
    // the driver's time for 141 GiB, and as much for giving back what was there.
    let driver = Duration::from_millis(20);
    for inputs in ModelInputs::ALL {
        for gib in CARDS_GIB {
            for (plan, program) in programs(gib, &inputs) {
                let bound = forced(gib, &program, inputs.link_bytes).unwrap();
                for workers in 1..=3 {
                    let ours = scheduler(gib, workers, PARTITIONS, &program).unwrap();
                    let lock = one_lock(gib, workers, PARTITIONS, &program).unwrap();
                    let told = format!(
                        "{}, {gib} GiB, {plan}, {workers} workers: {ours:?} against {lock:?}",
                        inputs.name
                    );
                    assert_eq!((ours.finished, lock.finished), (10, 10), "{told}");
                    assert!(ours.total <= lock.total + driver, "{told}");
                    assert!(ours.span <= lock.span + Duration::from_millis(1), "{told}");
                    // Faster wherever something can be staged before the other has computed.
                    if workers > 1 && bound.late_bytes < program.sent_bytes(0) {
                        assert!(ours.total < lock.total, "{told}");
                    }
                }
            }
        }
    }
}

/// With two workers the loss is what the missing room forces, and no more: see `bound`.
#[test]
fn loses_no_more_than_the_missing_room_forces() {
    for inputs in ModelInputs::ALL {
        for gib in CARDS_GIB {
            for (plan, program) in programs(gib, &inputs) {
                let bound = forced(gib, &program, inputs.link_bytes).unwrap();
                let ours = scheduler(gib, 2, PARTITIONS, &program).unwrap();
                let most = bound.span(PARTITIONS);
                println!(
                    "{}, {gib} GiB, {plan}: {:?}, at most {most:?} ({bound:?})",
                    inputs.name, ours.span
                );
                assert!(ours.span <= most, "{}, {gib} GiB, {plan}: {:?}", inputs.name, ours.span);
            }
        }
    }
}

/// On 48 GiB the prover's plan, whose staging is shorter than its computing, keeps the device
/// computing; with one lock it does not.
#[test]
fn computes_nearly_always_on_48_gib() {
    for inputs in ModelInputs::ALL {
        let program = Arc::new(of_card(48, &inputs).unwrap());
        let stages = 0..program.stages.len();
        let sent: u64 = stages.map(|stage| program.sent_bytes(stage)).sum();
        let staging = Duration::from_secs_f64(sent as f64 / inputs.link_bytes);
        assert!(staging < program.kernels(), "{staging:?}");
        let ours = scheduler(48, 2, PARTITIONS, &program).unwrap();
        let lock = one_lock(48, 2, PARTITIONS, &program).unwrap();
        println!("{}: {:.4}, one lock {:.4}", inputs.name, ours.utilisation(), lock.utilisation());
        assert!(ours.utilisation() >= 0.95, "{}: {ours:?}", inputs.name);
        assert!(lock.utilisation() < 0.9, "there is nothing to win: {lock:?}");
    }
}
