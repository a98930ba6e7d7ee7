//! The driver's allocator, the pool, and what they wait for.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::time::Duration;

use support::*;
use twinlock_api::{Device, Error, MemoryClass, StagingKind};
use twinlock_sim::{DriverCosts, Fault, FaultPlan, Lane, SimConfig};

fn gib_card(memory_gib: u64) -> SimConfig {
    SimConfig { memory_bytes: memory_gib * GIB, ..round_numbers() }
}

#[test]
fn device_synchronize_waits_for_every_stream() {
    let device = open(round_numbers());
    let streams = ["a", "b", "c"].map(|name| device.create_stream(name).unwrap());
    let views = ["a", "b", "c"].map(|name| work(&device, name, 8_000));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 8_000).unwrap();
    kernel(&device, streams[0], views[0], 2);
    device.upload(streams[1], up.as_mut(), 0, views[1]).unwrap();
    kernel(&device, streams[2], views[2], 3);
    assert_eq!(device.idle_time().unwrap(), s(8), "the upload is last");
    assert!(matches!(device.device_synchronize(ms(1)), Err(Error::Timeout { .. })));
    device.device_synchronize(FOREVER).unwrap();
    assert_eq!(now(&device), s(8));
}

#[test]
fn allocating_and_freeing_wait_for_all_work_and_cost_what_was_measured() {
    let driver_costs = DriverCosts { call: Duration::ZERO, ..DriverCosts::default() };
    let device = open(SimConfig { driver_costs, ..gib_card(100) });
    let near = |found: Duration, expected_ms: f64| {
        let found_ms = found.as_secs_f64() * 1e3;
        assert!((found_ms - expected_ms).abs() < 1e-3, "{found_ms} ms, expected {expected_ms}");
    };
    let region = region(&device, 16 * GIB).unwrap();
    near(now(&device), 1.1);
    let stream = device.create_stream("a").unwrap();
    let start = now(&device);
    kernel(&device, stream, region.whole("v").unwrap(), 2);
    let other = device.allocate("other", MemoryClass::Work, 64 * GIB).unwrap();
    near(now(&device) - start, 2_000.0 + 4.1);
    let start = now(&device);
    kernel(&device, stream, other.whole("v").unwrap(), 3);
    device.free(region).unwrap();
    near(now(&device) - start, 3_000.0 + 13.7);
    let host: Vec<_> =
        device.card().log().spans.into_iter().filter(|span| span.lane == Lane::Host).collect();
    assert_eq!(
        host.iter().map(|span| span.op).collect::<Vec<_>>(),
        ["allocate", "allocate", "free"]
    );
    near(host[1].end - host[1].start, 2_004.1);
}

#[test]
fn page_locked_staging_waits_as_well() {
    let device = open(round_numbers());
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 4));
    kernel(&device, stream, view, 4);
    device.allocate_pageable_staging("s", StagingKind::Upload, 4).unwrap();
    assert_eq!(now(&device), s(0));
    device.allocate_staging("s", StagingKind::Upload, 4).unwrap();
    assert_eq!(now(&device), s(4));
}

#[test]
fn memory_counts_contexts_regions_and_pools() {
    let config = SimConfig { context_bytes: GIB, ..gib_card(16) };
    let card = card(config);
    assert_eq!(card.held_bytes(), 0);
    let device = card.open().unwrap();
    assert_eq!(free_bytes(&device), 15 * GIB);
    let ours = region(&device, 10 * GIB).unwrap();
    assert_eq!(device.memory().unwrap().regions_bytes, 10 * GIB);
    // A second context on the same card, as another process of ours would have.
    let second = card.open().unwrap();
    assert_eq!(free_bytes(&second), 4 * GIB);
    assert_eq!(second.memory().unwrap().regions_bytes, 0);
    let full = region(&second, 5 * GIB).unwrap_err();
    let expected = Error::OutOfMemory {
        what: "region".into(),
        requested_bytes: 5 * GIB,
        free_bytes: Some(4 * GIB),
    };
    assert_eq!(full, expected);
    let never = region(&second, 15 * GIB + 4).unwrap_err();
    assert!(matches!(never, Error::ExceedsLimit { limit, .. } if limit == 15 * GIB), "{never}");
    assert!(second.free(ours).is_err(), "a region of the first device");
    drop(second);
    device.free(ours).unwrap();
    assert_eq!(free_bytes(&device), 15 * GIB);
    drop(device);
    assert_eq!(card.held_bytes(), 0);
    assert_eq!(card.log().peak().held_bytes, 12 * GIB);
}

#[test]
fn the_pool_keeps_what_was_freed_until_trimmed() {
    let device = open(gib_card(16));
    device.set_release_threshold(u64::MAX).unwrap();
    let stream = device.create_stream("a").unwrap();
    let pooled = device.pool_allocate(stream, "p", MemoryClass::Work, 12 * GIB).unwrap();
    assert_eq!(device.memory().unwrap().regions_bytes, 12 * GIB);
    let event = kernel(&device, stream, pooled.whole("p").unwrap(), 3);
    device.pool_free(stream, pooled).unwrap();
    assert_eq!(now(&device), s(0), "neither waits");
    assert_eq!(device.memory().unwrap().regions_bytes, 0);
    assert_eq!(free_bytes(&device), 4 * GIB, "the driver sees the pool's bytes as used");
    assert!(region(&device, 5 * GIB).is_err(), "and has no room");
    // That failed allocation waited for the kernel, and so the host has seen the free.
    assert_eq!(now(&device), s(3));
    device.synchronize(&event, FOREVER).unwrap();
    assert_eq!(free_bytes(&device), 4 * GIB, "kept: the threshold is high");
    assert_eq!(device.pool_trim(2 * GIB).unwrap(), 10 * GIB);
    assert_eq!(free_bytes(&device), 14 * GIB);
    assert_eq!(device.pool_reserved_bytes().unwrap(), 2 * GIB);
}

#[test]
fn a_trim_releases_only_what_the_host_has_seen() {
    let device = open(gib_card(16));
    device.set_release_threshold(u64::MAX).unwrap();
    let stream = device.create_stream("a").unwrap();
    let pooled = device.pool_allocate(stream, "p", MemoryClass::Work, 8 * GIB).unwrap();
    let before = kernel(&device, stream, pooled.whole("p").unwrap(), 3);
    device.pool_free(stream, pooled).unwrap();
    let behind = device.record(stream).unwrap();
    device.card().clock().advance(s(60));
    assert_eq!(device.pool_trim(0).unwrap(), 0, "complete, but the host has not looked");
    device.synchronize(&before, FOREVER).unwrap();
    assert_eq!(device.pool_trim(0).unwrap(), 0, "it looked before the free");
    assert!(device.query(&behind).unwrap());
    assert_eq!(device.pool_trim(0).unwrap(), 8 * GIB);
}

#[test]
fn without_a_threshold_a_synchronise_empties_the_pool() {
    let device = open(gib_card(16));
    let stream = device.create_stream("a").unwrap();
    let pooled = device.pool_allocate(stream, "p", MemoryClass::Work, 8 * GIB).unwrap();
    device.pool_free(stream, pooled).unwrap();
    assert_eq!(free_bytes(&device), 8 * GIB);
    let event = device.record(stream).unwrap();
    device.synchronize(&event, FOREVER).unwrap();
    assert_eq!(free_bytes(&device), 16 * GIB);
}

#[test]
fn a_trim_that_releases_waits_for_the_device() {
    let trim = |trim_synchronizes| {
        let device = open(SimConfig { trim_synchronizes, ..gib_card(16) });
        device.set_release_threshold(u64::MAX).unwrap();
        let [a, b] = ["a", "b"].map(|name| device.create_stream(name).unwrap());
        let view = work(&device, "v", 4);
        let pooled = device.pool_allocate(a, "p", MemoryClass::Work, GIB).unwrap();
        device.pool_free(a, pooled).unwrap();
        let event = device.record(a).unwrap();
        assert!(device.query(&event).unwrap());
        kernel(&device, b, view, 5);
        assert_eq!(device.pool_trim(0).unwrap(), GIB);
        now(&device)
    };
    assert_eq!(trim(true), s(5));
    assert_eq!(trim(false), s(0));
}

#[test]
fn pools_give_freed_memory_to_other_streams_when_it_is_safe() {
    let device = open(gib_card(16));
    device.set_release_threshold(u64::MAX).unwrap();
    let [a, b] = ["a", "b"].map(|name| device.create_stream(name).unwrap());
    let first = device.pool_allocate(a, "first", MemoryClass::Work, 10 * GIB).unwrap();
    kernel(&device, a, first.whole("first").unwrap(), 7);
    device.pool_free(a, first).unwrap();
    // Six are left; four more come from what `a` still uses, so `b` waits for it on the device.
    let second = device.pool_allocate(b, "second", MemoryClass::Work, 10 * GIB).unwrap();
    assert_eq!(device.pool_reserved_bytes().unwrap(), 16 * GIB);
    let event = kernel(&device, b, second.whole("second").unwrap(), 1);
    assert_eq!(device.completion_time(&event).unwrap(), s(8));
    assert_eq!(now(&device), s(0));
    let third = device.pool_allocate(b, "third", MemoryClass::Work, 7 * GIB).unwrap_err();
    assert!(matches!(third, Error::OutOfMemory { free_bytes: Some(b), .. } if b == 6 * GIB));
    assert!(device.free(second).is_err(), "it belongs to the pool");
    let plain = region(&open(gib_card(16)), GIB).unwrap();
    assert!(device.pool_free(a, plain).is_err());
}

#[test]
fn another_process_takes_memory_for_a_while() {
    let other = Fault::OtherProcess { from: s(2), until: s(5), bytes: 10 * GIB };
    let device = open(SimConfig { faults: FaultPlan::of([other]), ..gib_card(16) });
    let ours = region(&device, 12 * GIB).unwrap();
    device.card().clock().advance_to(s(3));
    assert_eq!(free_bytes(&device), 0, "it got the four that were left");
    device.free(ours).unwrap();
    assert!(region(&device, 13 * GIB).is_err());
    device.card().clock().advance_to(s(5));
    assert_eq!(free_bytes(&device), 16 * GIB);
    assert_eq!(device.card().log().peak().held_bytes, 12 * GIB);
}

#[test]
fn a_device_that_ends_gives_back_its_pool_as_well() {
    for faults in [FaultPlan::none(), FaultPlan::of([Fault::LostAt { at: s(9) }])] {
        let card = card(SimConfig { context_bytes: GIB, faults, ..gib_card(16) });
        let device = card.open().unwrap();
        device.set_release_threshold(u64::MAX).unwrap();
        let stream = device.create_stream("a").unwrap();
        let [freed, _kept] = [2, 3]
            .map(|gib| device.pool_allocate(stream, "p", MemoryClass::Work, gib * GIB).unwrap());
        device.pool_free(stream, freed).unwrap();
        region(&device, 4 * GIB).unwrap();
        assert_eq!(card.held_bytes(), 10 * GIB);
        card.clock().advance_to(s(10));
        drop(device);
        assert_eq!(free_bytes(&card.open().unwrap()), 15 * GIB);
        assert_eq!(card.held_bytes(), 0);
    }
}
