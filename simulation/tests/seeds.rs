//! Random scenes: see `seeded` for what is drawn and `check` for what must hold. A failing seed
//! prints itself; `cargo run --release -p twinlock-simulation --example seeds -- --seeds 1 --first
//! SEED` replays it with its events. More of them: `-- --seeds 100000`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is how a test fails")]

use std::sync::Arc;

use twinlock::scheduler::timeline::chrome_trace;
use twinlock_simulation::check::Broken;
use twinlock_simulation::model_inputs::ModelInputs;
use twinlock_simulation::porep::{of_12_gib, scene as porep};
use twinlock_simulation::protocol::ours::{Sabotage, play};
use twinlock_simulation::seeded::{Tally, run, scene};

/// From each base.
const SEEDS: u64 = 1_000;

fn play_from(base: u64) -> Tally {
    let mut all = Tally::default();
    for seed in base..base + SEEDS {
        let tally = run(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        all.add(&tally);
    }
    println!("from seed {base}: {all}");
    all
}

#[test]
fn a_thousand_seeds_of_a_fixed_base_hold() {
    let all = play_from(0);
    assert!(all.is_varied(), "something never happens: {all}");
}

#[test]
fn a_thousand_seeds_of_a_random_base_hold() {
    play_from(rand::random::<u32>().into());
}

#[test]
fn a_seed_replays() {
    for seed in 0..20 {
        let [one, two] = [(); 2].map(|()| play(scene(seed)).unwrap());
        assert_eq!(one.record.events(), two.record.events(), "seed {seed}");
        assert_eq!((one.ends, one.ended), (two.ends, two.ended), "seed {seed}");
    }
}

/// The events are those of the product, so its timeline shows a simulated run.
#[test]
fn the_timeline_shows_a_run() {
    let trace = chrome_trace(play(scene(1)).unwrap().record.events());
    let entries = trace["traceEvents"].as_array().unwrap();
    for name in ["compute", "prestage", "device memory", "done"] {
        assert!(entries.iter().any(|entry| entry["name"] == name), "no {name}");
    }
}

fn sabotaged(sabotage: Sabotage) -> Result<(), Broken> {
    let program = Arc::new(of_12_gib(&ModelInputs::PEERS).unwrap());
    let scene = porep(24, 2, 3, &program);
    assert!(play(scene.clone()).is_ok());
    let found = play(twinlock_simulation::protocol::ours::Scene { sabotage, ..scene });
    found.map(|_| ())
}

/// What is checked can fail: each rule, broken on purpose, is noticed, as what it is.
#[test]
fn broken_rules_are_noticed() {
    let card = |what: &str, broken: &Broken| matches!(broken, Broken::Card { what: seen, .. } if seen.starts_with(what));
    type Expected<'a> = Box<dyn Fn(&Broken) -> bool + 'a>;
    let expected: Vec<(Sabotage, Expected<'_>)> = vec![
        (Sabotage::ReleaseEarly, Box::new(|b| card("no order", b))),
        (Sabotage::ReachTooFar, Box::new(|b| card("no order", b))),
        (Sabotage::AllocateUnderMem, Box::new(|b| card("under mem", b))),
        (Sabotage::ForgetRelease, Box::new(|b| matches!(b, Broken::Stuck(_)))),
        (Sabotage::ComputeUnasked, Box::new(|b| matches!(b, Broken::Compute { .. }))),
        (Sabotage::LeaveUnused, Box::new(|b| matches!(b, Broken::NotAsPromised { .. }))),
        (Sabotage::ClaimMore, Box::new(|b| matches!(b, Broken::NotAsPromised { .. }))),
        (Sabotage::KeepMemory, Box::new(|b| matches!(b, Broken::LeftOver(_)))),
        (Sabotage::SubmitTwice, Box::new(|b| matches!(b, Broken::EndedTwice { .. }))),
    ];
    for (sabotage, is_it) in expected {
        let broken = sabotaged(sabotage).expect_err(&format!("{sabotage:?} goes unnoticed"));
        println!("{sabotage:?}: {broken}");
        assert!(is_it(&broken), "{sabotage:?}: {broken}");
    }
}
