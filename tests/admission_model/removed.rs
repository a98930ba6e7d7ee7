//! One rule left out at a time: the model must find what the rule is there to prevent.
//!
//! Two rules keep something other than freedom from deadlock, and the model shows that, too.
//! *In order* (3): the banker alone lets the oldest go on, so nobody starves without it; it keeps
//! a younger partition from delaying an older one that waits. *Release is free* (4): as long as
//! nobody waits while holding `mem` (7), a release that needs `mem` comes late, not never; the
//! rule keeps the holder of `compute` from waiting for a lock.

use std::sync::Arc;

use twinlock::scheduler::admission::{Profile, Rules};

use super::explore::{NO_DEADLOCK, explore};
use super::model::{HOLDER_RUNS, IN_ORDER};
use super::scenario::{Locks, Scenario, buffer, grows_and_shrinks, one_each, profile, resident};

/// The property breaks without the rule, and all hold with it in the very same scenario.
fn breaks(rule: &str, property: &'static str, scenario: Scenario) {
    let mut whole = scenario.clone();
    whole.rules = Rules::ALL;
    whole.locks = Locks { release_is_free: true, wait_without_mem: true, ..whole.locks };
    let report = explore(whole, None);
    assert!(report.broken.is_empty(), "{rule}, all rules in force\n{}", report.text());

    let report = explore(scenario, Some(property));
    let Some(found) = report.find(property) else {
        panic!("{rule} left out, and still: {property}");
    };
    println!("  without {rule}\n{}", found.text());
}

/// The property holds without the rule, in all states.
fn harmless(rule: &str, property: &'static str, scenario: Scenario) {
    let report = explore(scenario, None);
    assert!(report.find(property).is_none(), "without {rule}\n{}", report.text());
}

fn scenario(name: &'static str, size: u64, profiles: &[Arc<Profile>]) -> Scenario {
    Scenario::new(name, &[size], one_each(profiles)).without_cancels()
}

fn three_of_12_on_16() -> Scenario {
    scenario("3 x (8, 12, 4) on 16", 16, &[(); 3].map(|()| grows_and_shrinks()))
}

/// A younger partition prestages 8 of 16; the older, which needs 12, waits for it, and it for them.
#[test]
fn without_the_banker() {
    let without = three_of_12_on_16().with(|rules| rules.banker = false);
    breaks("the banker (1)", NO_DEADLOCK, without.clone());
    // Serving the younger first does not help: then two hold 8 each, and both lack 4.
    let neither = without.with(|rules| rules.in_order = false);
    breaks("the banker (1) and order (3)", NO_DEADLOCK, neither);
}

/// 12 - 3 bytes would do for 7 more, but the 3 lie in the middle, between two that took an end each.
#[test]
fn without_places() {
    let short = || profile(&[buffer(4, 0, 1)], &[]);
    let grows = profile(&[buffer(3, 0, 2), buffer(7, 1, 1)], &[]);
    let three = [short(), short(), grows];
    let without = scenario("4, 4, and 3 that grows by 7, on 12", 12, &three)
        .with(|rules| rules.placed = false);
    breaks("proof by placing (1)", NO_DEADLOCK, without);
}

/// The younger computes and lacks 4; the older holds them and lacks `compute`.
#[test]
fn without_the_whole_profile() {
    let two = [grows_and_shrinks(), grows_and_shrinks()];
    let without =
        scenario("2 x (8, 12, 4) on 20", 20, &two).with(|rules| rules.whole_profile = false);
    breaks("the whole profile (2)", NO_DEADLOCK, without);
}

#[test]
fn without_order() {
    let small = profile(&[buffer(3, 0, 1)], &[]);
    let three = [grows_and_shrinks(), grows_and_shrinks(), small];
    let without =
        || scenario("2 x (8, 12, 4) and 3 on 16", 16, &three).with(|rules| rules.in_order = false);
    breaks("order (3)", IN_ORDER, without());
    harmless("order (3)", NO_DEADLOCK, without());
}

#[test]
fn without_free_release() {
    let mut without = three_of_12_on_16().with_explicit_mem();
    without.locks.release_is_free = false;
    breaks("free release (4)", HOLDER_RUNS, without.clone());
    harmless("free release (4)", NO_DEADLOCK, without);
}

/// A resident of 6 that nobody uses bars 12 of 16.
#[test]
fn without_eviction() {
    let reads = profile(&[buffer(1, 0, 1)], &[resident(1, 6)]);
    let without =
        scenario("a resident of 6, then (8, 12, 4) on 16", 16, &[reads, grows_and_shrinks()])
            .with(|rules| rules.evict_idle = false);
    breaks("eviction of idle residents (5)", NO_DEADLOCK, without);
}

/// The resident outlives its oldest user, which the partition in the middle counted on.
#[test]
fn without_the_youngest_user() {
    let oldest = profile(&[buffer(1, 0, 1)], &[resident(1, 8)]);
    let middle = profile(&[buffer(4, 0, 1), buffer(8, 1, 1)], &[]);
    let youngest = profile(&[buffer(1, 0, 1), buffer(6, 1, 1)], &[resident(1, 8)]);
    let without = scenario("a shared resident of 8 on 16", 16, &[oldest, middle, youngest])
        .with(|rules| rules.youngest_user = false);
    breaks("residents held by the youngest user (5)", NO_DEADLOCK, without);
}

/// 8 are held below the new end, but the 4 that follow lay above it.
#[test]
fn without_sparing() {
    let without = scenario("(8, 12, 4), 16 shrinks by 6", 16, &[grows_and_shrinks()])
        .shrinking(6)
        .with(|rules| rules.spare_shrink = false);
    breaks("sparing (6)", NO_DEADLOCK, without);
}

/// The younger waits for room inside `mem`; the older, which has the room, needs `mem` to go on.
#[test]
fn without_leaving_mem_to_wait() {
    let mut without = three_of_12_on_16().with_explicit_mem();
    without.locks.wait_without_mem = false;
    breaks("leaving mem to wait (7)", NO_DEADLOCK, without);
}
