//! All rules in force: no property may break.

use std::sync::Arc;

use twinlock::scheduler::admission::{Profile, Ticket};

use super::explore::explore;
use super::scenario::{
    Job, Scenario, buffer, buffer_in, grows_and_shrinks, one_each, profile, resident, resident_in,
};

fn holds(scenario: Scenario) {
    let name = scenario.name;
    let report = explore(scenario, None);
    assert!(report.broken.is_empty(), "{name}\n{}", report.text());
    assert!(report.states > 50, "{name}: only {} states, nothing was tested", report.states);
}

fn same(profile: Arc<Profile>, count: usize) -> Vec<Vec<Job>> {
    one_each(&vec![profile; count])
}

/// Partitions dealt out in ticket order, as a queue does, to workers that take several.
fn dealt(profiles: &[Arc<Profile>], workers: usize) -> Vec<Vec<Job>> {
    let mut lists = vec![Vec::new(); workers];
    for (n, profile) in profiles.iter().enumerate() {
        lists[n % workers].push(Job { ticket: Ticket(n as u64), profile: profile.clone() });
    }
    lists
}

fn unequal() -> [Arc<Profile>; 4] {
    [
        grows_and_shrinks(),
        // 3, 10, 2: small until it grows.
        profile(&[buffer(1, 0, 1), buffer(2, 0, 2), buffer(7, 1, 1)], &[]),
        // 6, 6, 1: large from the start.
        profile(&[buffer(5, 0, 1), buffer(1, 0, 2)], &[]),
        // 2, 5, 5: never large, ends as it grew.
        profile(&[buffer(2, 0, 2), buffer(3, 1, 2)], &[]),
    ]
}

#[test]
fn one_and_two_equal_partitions() {
    for (name, size) in [
        ("2 x (8, 12, 4) on 12, mem in steps", 12),
        ("2 x (8, 12, 4) on 16, mem in steps", 16),
        ("2 x (8, 12, 4) on 24, mem in steps", 24),
        ("2 x (8, 12, 4) on 48, mem in steps", 48),
    ] {
        let jobs = same(grows_and_shrinks(), 2);
        holds(Scenario::new(name, &[size], jobs).with_explicit_mem());
    }
    let alone = dealt(&vec![grows_and_shrinks(); 8], 1);
    holds(Scenario::new("8 x (8, 12, 4) by 1 worker on 12", &[12], alone));
}

#[test]
fn three_equal_partitions_on_12_16_24_48() {
    for (name, size) in [
        ("3 x (8, 12, 4) on 12, mem in steps", 12),
        ("3 x (8, 12, 4) on 16, mem in steps", 16),
        ("3 x (8, 12, 4) on 24, mem in steps", 24),
        ("3 x (8, 12, 4) on 48, mem in steps", 48),
    ] {
        let jobs = same(grows_and_shrinks(), 3);
        holds(Scenario::new(name, &[size], jobs).with_explicit_mem());
    }
}

#[test]
fn four_equal_partitions_on_12_16_24_48() {
    let four = || same(grows_and_shrinks(), 4);
    holds(Scenario::new("4 x (8, 12, 4) on 12", &[12], four()));
    holds(Scenario::new("4 x (8, 12, 4) on 16", &[16], four()));
    holds(Scenario::new("4 x (8, 12, 4) on 24", &[24], four()));
    holds(Scenario::new("4 x (8, 12, 4) on 48", &[48], four()));
}

#[test]
fn two_workers_take_four_partitions() {
    let jobs = || dealt(&vec![grows_and_shrinks(); 4], 2);
    holds(Scenario::new("4 x (8, 12, 4) by 2 workers on 16", &[16], jobs()));
    holds(Scenario::new("4 x (8, 12, 4) by 2 workers on 24", &[24], jobs()));
}

/// Arrivals come in any order, so small tickets come late, too.
#[test]
fn four_unequal_partitions_on_12_16_24_48() {
    holds(Scenario::new("4 unequal on 12", &[12], one_each(&unequal())));
    holds(Scenario::new("4 unequal on 16", &[16], one_each(&unequal())));
    holds(Scenario::new("4 unequal on 24", &[24], one_each(&unequal())));
    holds(Scenario::new("4 unequal on 48", &[48], one_each(&unequal())));
    let mut backwards = unequal();
    backwards.reverse();
    holds(Scenario::new("4 unequal backwards on 16", &[16], one_each(&backwards)));
}

#[test]
fn layouts_that_leave_holes() {
    let gaps = profile(&[buffer(3, 0, 2), buffer(2, 0, 0), buffer(4, 1, 1), buffer(1, 1, 2)], &[]);
    let wide = profile(&[buffer(1, 0, 2), buffer(9, 1, 1)], &[]);
    let many = profile(&[buffer(2, 0, 0), buffer(2, 0, 1), buffer(2, 0, 2), buffer(5, 2, 2)], &[]);
    holds(Scenario::new("holes on 12", &[12], one_each(&[gaps, wide.clone(), many, wide])));
}

fn reads(key: u64, size_bytes: u64) -> Arc<Profile> {
    profile(&[buffer(2, 0, 2), buffer(3, 1, 1)], &[resident(key, size_bytes)])
}

fn two_keys() -> [Arc<Profile>; 4] {
    let both = profile(&[buffer(2, 0, 1)], &[resident(1, 6), resident(2, 4)]);
    [reads(1, 6), grows_and_shrinks(), both, reads(2, 4)]
}

#[test]
fn residents_shared_idle_and_evicted() {
    // 5 + 6 at the peak, and a partition for which every resident has to go.
    let jobs = dealt(&[reads(1, 6), reads(1, 6), grows_and_shrinks(), reads(2, 4)], 2);
    holds(Scenario::new("residents by 2 workers on 12", &[12], jobs));
    holds(Scenario::new("residents of two keys on 16", &[16], one_each(&two_keys())));
    holds(Scenario::new("residents of two keys on 24", &[24], one_each(&two_keys()[1..])));
}

/// As long as all others together: for a nightly run.
#[test]
#[ignore = "0.8 million states"]
fn residents_of_two_keys_with_four_workers_on_24() {
    holds(Scenario::new("residents of two keys on 24", &[24], one_each(&two_keys())));
}

#[test]
fn residents_in_a_memory_of_their_own() {
    let reads = |key, size| {
        let buffers = [buffer(8, 0, 1), buffer(4, 1, 2), buffer_in(1, 3, 1, 1)];
        profile(&buffers, &[resident_in(1, key, size)])
    };
    let jobs = dealt(&[reads(1, 5), reads(2, 7), reads(1, 5), reads(3, 4)], 2);
    holds(Scenario::new("two memories by 2 workers on 16 + 12", &[16, 12], jobs));
    let jobs = one_each(&[reads(1, 5), reads(2, 7), reads(1, 5)]);
    holds(Scenario::new("two memories on 24 + 10", &[24, 10], jobs));
}

#[test]
fn budgets_that_shrink() {
    let jobs = || one_each(&unequal()[..3]);
    holds(Scenario::new("shrink 16 by 4", &[16], jobs()).shrinking(4));
    holds(Scenario::new("shrink 24 by 6 twice", &[24], jobs()).shrinking(6).shrinking(6));
    let reads = profile(&[buffer(2, 0, 2), buffer(3, 1, 1)], &[resident(1, 4)]);
    let jobs = dealt(&[reads.clone(), reads.clone(), grows_and_shrinks(), reads], 2);
    holds(Scenario::new("shrink 16 by 4 with residents", &[16], jobs).shrinking(4));
}
