//! When work starts and ends.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use support::*;
use twinlock_api::{Device, Error, StagingKind};
use twinlock_sim::{DriverCosts, EngineOrder, Lane, SimConfig};

#[test]
fn one_stream_runs_in_order() {
    let device = open(round_numbers());
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 1_000));
    let mut staging = device.allocate_staging("s", StagingKind::Upload, 1_000).unwrap();
    device.upload(stream, staging.as_mut(), 0, view).unwrap();
    let event = kernel(&device, stream, view, 3);
    assert_eq!(now(&device), s(0), "enqueueing waits for nothing");
    assert_eq!(device.completion_time(&event).unwrap(), s(4));
    let log = device.card().log();
    let spans: Vec<_> = log.spans.iter().map(|x| (x.lane, x.op, x.view, x.start, x.end)).collect();
    let expected =
        [(Lane::Upload, "upload", "v", s(0), s(1)), (Lane::Compute, "fill", "v", s(1), s(4))];
    assert_eq!(spans, expected);
}

#[test]
fn copies_overlap_kernels_and_each_other_both_ways() {
    let device = open(round_numbers());
    let streams = ["k", "u", "d", "u2"].map(|name| device.create_stream(name).unwrap());
    let views = ["k", "u", "d", "u2"].map(|name| work(&device, name, 2_000));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 2_000).unwrap();
    let mut down = device.allocate_staging("down", StagingKind::Download, 2_000).unwrap();
    kernel(&device, streams[0], views[0], 5);
    device.upload(streams[1], up.as_mut(), 0, views[1]).unwrap();
    device.download(streams[2], views[2], down.as_mut(), 0).unwrap();
    device.upload(streams[3], up.as_mut(), 0, views[3]).unwrap();
    let ends = streams.map(|stream| completion(&device, stream));
    assert_eq!(ends, [s(5), s(2), s(2), s(4)], "uploads share their engine, the rest overlaps");
    let log = device.card().log();
    assert_eq!(log.overlap(streams[0], streams[3]), s(2));
    assert_eq!(log.busy(Lane::Upload, s(0), s(10)), s(4));
    assert!((log.utilisation(s(0), s(10)) - 0.5).abs() < 1e-9);
    assert!(device.card().races().is_empty());
}

#[test]
fn kernels_of_all_streams_share_one_engine_in_the_order_of_enqueueing() {
    let ends = |order| {
        let device = open(SimConfig { compute_order: order, ..round_numbers() });
        let [a, b, c] = ["a", "b", "c"].map(|name| device.create_stream(name).unwrap());
        let [va, vb, vc] = ["a", "b", "c"].map(|name| work(&device, name, 4_000));
        let mut up = device.allocate_staging("up", StagingKind::Upload, 4_000).unwrap();
        device.upload(c, up.as_mut(), 0, vc).unwrap();
        let uploaded = device.record(c).unwrap();
        device.wait(a, &uploaded).unwrap();
        kernel(&device, a, va, 2);
        kernel(&device, b, vb, 3);
        [a, b].map(|stream| completion(&device, stream))
    };
    assert_eq!(ends(EngineOrder::Enqueued), [s(6), s(9)], "b stands behind a, which waits");
    assert_eq!(ends(EngineOrder::Backfill), [s(6), s(3)], "b fits before a");
}

#[test]
fn the_host_can_look_wait_and_give_up() {
    let device = open(round_numbers());
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 4));
    let event = kernel(&device, stream, view, 10);
    assert!(!device.query(&event).unwrap());
    let early = device.synchronize(&event, s(4)).unwrap_err();
    assert!(matches!(early, Error::Timeout { timeout_ms: 4_000, .. }), "{early}");
    assert_eq!(now(&device), s(4), "the timeout passed");
    device.synchronize(&event, s(6)).unwrap();
    assert_eq!(now(&device), s(10));
    assert!(device.query(&event).unwrap());
    device.synchronize(&event, s(0)).unwrap();
    // What is enqueued later starts later.
    device.card().clock().advance(s(5));
    assert_eq!(device.completion_time(&kernel(&device, stream, view, 1)).unwrap(), s(16));
}

#[test]
fn staging_buffers_belong_to_their_copies() {
    let device = open(with_bytes(round_numbers()));
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 1_000));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 1_000).unwrap();
    up.host(s(0)).unwrap().fill(7);
    device.upload(stream, up.as_mut(), 0, view).unwrap();
    assert!(matches!(up.host(ms(500)), Err(Error::Timeout { .. })));
    up.host(s(1)).unwrap();
    assert_eq!(now(&device), s(1));
    let mut down = device.allocate_staging("down", StagingKind::Download, 1_000).unwrap();
    device.download(stream, view, down.as_mut(), 0).unwrap();
    assert!(down.host(FOREVER).unwrap().iter().all(|byte| *byte == 7));
    assert_eq!(now(&device), s(2));
}

#[test]
fn pageable_copies_are_slow_and_hold_the_host() {
    let device = open(round_numbers());
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 1_000));
    let mut up = device.allocate_pageable_staging("up", StagingKind::Upload, 1_000).unwrap();
    device.upload(stream, up.as_mut(), 0, view).unwrap();
    assert_eq!(now(&device), s(10));
}

#[test]
fn calls_cost_the_host_time() {
    let driver_costs = DriverCosts { call: ms(1), ..DriverCosts::zero() };
    let device = open(SimConfig { driver_costs, ..round_numbers() });
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 4));
    let start = now(&device);
    let event = kernel(&device, stream, view, 0);
    assert!(device.query(&event).unwrap());
    assert_eq!(now(&device) - start, ms(3), "enqueue, record, query");
}

/// Two cards on one clock go on side by side.
#[test]
fn cards_share_a_clock_but_no_engine() {
    let clock = twinlock_sim::Clock::new();
    let named = |name: &str| SimConfig { name: name.into(), ..round_numbers() };
    let backend = twinlock_sim::SimBackend::new([named("sim:0"), named("sim:1")], &clock);
    let devices: Vec<_> = backend.cards().iter().map(|card| card.open().unwrap()).collect();
    let mut events = Vec::new();
    for device in &devices {
        let (stream, view) = (device.create_stream("a").unwrap(), work(device, "v", 4));
        events.push(kernel(device, stream, view, 5));
    }
    for (device, event) in devices.iter().zip(&events) {
        device.synchronize(event, FOREVER).unwrap();
        assert_eq!(clock.now(), s(5));
    }
    assert!(devices[0].query(&events[1]).is_err(), "an event of the other card");
    assert_eq!(open_by_name(&backend, "sim:1").info().name, "sim:1");
}
