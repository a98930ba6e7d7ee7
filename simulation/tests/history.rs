//! Why two locks alone are not enough, at full size: a card of 16 GiB and three workers whose
//! partitions of a 32 GiB PoRep hold 12 GiB each.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::core::End;
use twinlock::scheduler::events::Life;
use twinlock_api::Error;
use twinlock_sim::Lane;
use twinlock_simulation::bound::{room_bytes, work_bytes};
use twinlock_simulation::model_inputs::ModelInputs;
use twinlock_simulation::porep::{GIB, of_12_gib, scene, shop};
use twinlock_simulation::program::Program;
use twinlock_simulation::protocol::naive::{self, NoRoom};
use twinlock_simulation::protocol::ours;
use twinlock_simulation::record::overlap;

const WORKERS: usize = 3;
const PARTITIONS: u32 = 9;
const INPUTS: ModelInputs = ModelInputs::PEERS;

fn partition() -> Arc<Program> {
    let program = of_12_gib(&INPUTS).unwrap();
    let bytes: u64 = program.layout_bytes.iter().sum();
    println!("a partition holds {bytes} bytes, {:.2} GiB", bytes as f64 / GIB as f64);
    assert!((12 * GIB - GIB / 4..12 * GIB + GIB).contains(&bytes), "{bytes}");
    Arc::new(program)
}

#[test]
fn the_naive_locks_serialise_and_the_fallback_runs_out_of_memory() {
    let program = partition();
    let played =
        naive::play(&shop(16, WORKERS, PARTITIONS.into(), &program), NoRoom::FallBack).unwrap();
    let record = &played.record;
    assert_eq!(played.deadlock, None);

    // Though `mem` is not `compute`, nobody is staged while another computes, and
    let (staging, computing) = (record.staging(), record.stage(naive::KERNELS));
    assert!(staging.len() >= 3 && computing.len() >= 3, "{staging:?} {computing:?}");
    assert_eq!(overlap(&staging, &computing), Duration::ZERO);
    // a worker that only looks for room holds `mem` as long as another's kernels run.
    let longest = record.mem_held().iter().map(|(_, held)| held.1 - held.0).max().unwrap();
    assert!(longest >= program.kernels(), "mem was held for {longest:?} at most");

    // The fallback runs out of memory: some worker that had skipped staging met one that had not.
    assert!(played.found_no_room > 0 && !played.failures.is_empty());
    let done = record.count(|life| *life == Life::Done);
    println!("{done} done, {} out of memory", played.failures.len());
    assert_eq!(done + played.failures.len(), PARTITIONS as usize);
    for failure in &played.failures {
        let Error::OutOfMemory { requested_bytes, free_bytes: Some(free), .. } = failure else {
            panic!("{failure}");
        };
        assert!(*free < *requested_bytes && *free < 5 * GIB, "{failure}");
    }

    // And the card saw the rule broken.
    let violations = played.card.violations();
    for call in ["device_synchronize", "allocate"] {
        assert!(violations.iter().any(|violation| violation.call == call), "{call}");
    }
    assert!(played.card.races().is_empty(), "{:?}", played.card.races());
}

/// Room for two does not mend it: whoever stages waits, inside `mem`, for another's kernels.
#[test]
fn on_larger_cards_the_naive_mem_waits_for_kernels_too() {
    let program = partition();
    for gib in [24, 48] {
        let shop = shop(gib, WORKERS, PARTITIONS.into(), &program);
        let played = naive::play(&shop, NoRoom::FallBack).unwrap();
        let longest = played.record.mem_held().iter().map(|(_, held)| held.1 - held.0).max();
        assert!(longest.unwrap() >= program.kernels(), "{gib} GiB: {longest:?} at most");
    }
}

#[test]
fn where_freeing_needs_mem_the_naive_locks_deadlock() {
    let played =
        naive::play(&shop(16, WORKERS, PARTITIONS.into(), &partition()), NoRoom::WaitInside)
            .unwrap();
    let cycle = played.deadlock.expect("somebody waits for ever");
    println!("{}", cycle.join("\n"));
    let computes = cycle.iter().find(|edge| edge.contains("holding [\"Compute\"], waits for Mem"));
    let computes = computes.expect("one that computes and wants to free");
    let stages = cycle.iter().find(|edge| edge.contains("holding [\"Mem\"], waits for room"));
    let stages = stages.expect("one that holds mem and wants room");
    // Each waits for the other.
    let name = |edge: &str| edge.split(',').next().unwrap().to_owned();
    assert!(computes.ends_with(&name(stages)), "{cycle:?}");
    assert!(stages.ends_with(&name(computes)), "{cycle:?}");
    assert!(played.record.count(|life| *life == Life::Done) < PARTITIONS as usize);
}

#[test]
fn ours_ends_all_and_overlaps_wherever_there_is_room() {
    let program = partition();
    let staged_bytes = program.sent_bytes(0);
    for gib in [16, 24, 48] {
        let played = ours::play(scene(gib, WORKERS, PARTITIONS, &program)).unwrap();
        assert_eq!(played.ends.len(), PARTITIONS as usize);
        assert!(played.ends.values().all(|end| *end == End::Finished), "{:?}", played.ends);
        let card = &played.cards[0];
        assert_eq!((card.violations(), card.races()), (Vec::new(), Vec::new()));
        assert_eq!(played.record.count(|life| matches!(life, Life::Failed { .. })), 0);

        // From the events: kernels of one beside the staging of another.
        let (staging, computing) = (played.record.staging(), played.record.computing());
        let beside = overlap(&staging, &computing);
        // From the card: the same, in its engines' time.
        let is_prestage = |span: &twinlock_sim::Span| {
            span.lane == Lane::Upload && ["a", "b", "assignment"].contains(&span.view)
        };
        let engines = card.log().overlap_of(is_prestage, |span| span.lane == Lane::Compute);
        let work = work_bytes(gib, &program);
        // Of what has room later still, nothing is counted: the link is the other's for its bases then.
        let h = program.stages.iter().position(|stage| stage.name == "h").unwrap();
        let room = room_bytes(&program, work, h);
        let seconds = room as f64 / INPUTS.link_bytes * f64::from(PARTITIONS - 1);
        println!(
            "{gib} GiB: {:?}, {beside:?} of staging beside kernels, {engines:?} on the card; room for \
             {room} of {staged_bytes} bytes",
            played.ended
        );
        // All that has room while the other's H computes is staged before its kernels end.
        assert!(room >= 3 * GIB, "there is room for a buffer at least: {room}");
        assert!(beside.as_secs_f64() >= 0.98 * seconds, "{beside:?} of {seconds} s");
        // In the stages of L and A the kernels themselves wait for bases most of the time.
        assert!(engines.as_secs_f64() >= 0.5 * seconds, "{engines:?} of {seconds} s");
        if gib >= 24 {
            assert_eq!(room, staged_bytes);
        }
    }
}
