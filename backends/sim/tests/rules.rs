//! The rules that the device watches: what happens under `mem`, and the order of uses.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::ops::Range;

use support::*;
use twinlock_api::op::{Copy, Fill};
use twinlock_api::{Device, Error, MemoryClass, Op, StagingKind, Stream, View};
use twinlock_sim::{OnViolation, RaceKind, SimConfig, SimDevice, enter_mem};

#[test]
fn waits_and_driver_calls_under_mem_are_recorded() {
    let device = open(round_numbers());
    let (stream, view) = (device.create_stream("copies").unwrap(), work(&device, "v", 1_000));
    let mut up = device.allocate_staging("up", StagingKind::Upload, 1_000).unwrap();
    let mut slow = device.allocate_pageable_staging("slow", StagingKind::Upload, 1_000).unwrap();
    assert!(device.card().violations().is_empty(), "without mem all is allowed");
    {
        let _mem = enter_mem();
        device.upload(stream, up.as_mut(), 0, view).unwrap();
        let event = kernel(&device, stream, view, 4);
        assert!(!device.query(&event).unwrap());
        assert!(device.card().violations().is_empty(), "enqueueing and looking are allowed");
        device.synchronize(&event, FOREVER).unwrap();
        up.host(FOREVER).unwrap();
        device.device_synchronize(FOREVER).unwrap();
        kernel(&device, stream, view, 5);
        let region = region(&device, 8).unwrap();
        device.free(region).unwrap();
        device.pool_trim(0).unwrap();
        let pooled = device.pool_allocate(stream, "pooled", MemoryClass::Work, 8).unwrap();
        device.pool_free(stream, pooled).unwrap();
        device.pool_allocate(stream, "again", MemoryClass::Work, 8).unwrap();
        drop(device.allocate_staging("more", StagingKind::Upload, 4).unwrap());
        device.upload(stream, slow.as_mut(), 0, view).unwrap();
    }
    device.device_synchronize(FOREVER).unwrap();
    let found: Vec<_> = device.card().violations();
    let found: Vec<_> = found.iter().map(|v| (v.call, v.subject, v.at, v.waits)).collect();
    let expected = [
        ("synchronize", "copies", s(0), s(5)),
        ("staging_host", "up", s(5), s(0)),
        ("device_synchronize", "", s(5), s(0)),
        ("allocate", "region", s(5), s(5)),
        ("free", "region", s(10), s(0)),
        ("pool_trim", "", s(10), s(0)),
        ("pool_grow", "pooled", s(10), s(0)),
        ("allocate_staging", "more", s(10), s(0)),
        ("free_staging", "more", s(10), s(0)),
        ("upload", "slow", s(10), s(10)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_rule_is_each_threads_own_and_ends_with_the_guard() {
    let device = open(round_numbers());
    let outer = device.enter_mem();
    let inner = device.enter_mem();
    std::thread::scope(|scope| {
        scope.spawn(|| region(&device, 4).unwrap());
    });
    assert!(device.card().violations().is_empty(), "another thread does not hold it");
    drop(outer);
    region(&device, 4).unwrap();
    assert_eq!(device.card().violations().len(), 1, "still held once");
    drop(inner);
    region(&device, 4).unwrap();
    assert_eq!(device.card().violations().len(), 1);
    let mem = enter_mem();
    let card = device.card().clone();
    drop(device);
    drop(mem);
    assert_eq!(card.violations().last().unwrap().call, "drop_device");
}

#[test]
fn a_violation_can_be_an_error() {
    let device = open(SimConfig { on_violation: OnViolation::Refuse, ..round_numbers() });
    let _mem = enter_mem();
    let refused = region(&device, 4).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)), "{refused}");
    assert_eq!(device.memory().unwrap().regions_bytes, 0);
}

struct Two {
    device: std::sync::Arc<SimDevice>,
    a: Stream,
    b: Stream,
    view: View,
    other: View,
}

impl Two {
    fn new() -> Self {
        let device = open(round_numbers());
        let [a, b] = ["a", "b"].map(|name| device.create_stream(name).unwrap());
        let (view, other) = (work(&device, "view", 1_024), work(&device, "other", 1_024));
        Self { device, a, b, view, other }
    }

    fn write(&self, stream: Stream, bytes: Range<u64>) {
        let view = self.view.slice(bytes.start, bytes.end - bytes.start).unwrap();
        self.device.enqueue(stream, &Op::Fill(Fill::zero(view))).unwrap();
    }

    fn read(&self, stream: Stream, bytes: Range<u64>) {
        let len = bytes.end - bytes.start;
        let target = self.other.slice(bytes.start, len).unwrap();
        let op = Copy::new(self.view.slice(bytes.start, len).unwrap(), target).unwrap();
        self.device.enqueue(stream, &Op::Copy(op)).unwrap();
    }

    fn races(&self) -> Vec<(RaceKind, Range<u64>)> {
        self.device.card().races().into_iter().map(|race| (race.kind, race.bytes)).collect()
    }
}

#[test]
fn unordered_uses_of_the_same_bytes_are_races() {
    let t = Two::new();
    t.write(t.a, 0..512);
    t.read(t.b, 256..768);
    assert_eq!(t.races(), [(RaceKind::ReadAfterWrite, 256..512)]);
    t.write(t.a, 600..700);
    assert_eq!(t.races()[1..], [(RaceKind::WriteAfterRead, 600..700)]);
    t.write(t.b, 0..4);
    assert_eq!(t.races()[2..], [(RaceKind::WriteAfterWrite, 0..4)]);
    let race = &t.device.card().races()[0];
    assert_eq!((race.region, race.first.op, race.second.op), ("view", "fill", "copy"));
    assert_eq!((race.first.stream, race.second.stream), (t.a.id(), t.b.id()));
}

#[test]
fn uses_that_are_apart_in_time_by_luck_are_races_too() {
    let t = Two::new();
    t.write(t.a, 0..512);
    t.device.card().clock().advance(s(60));
    t.read(t.b, 0..512);
    assert_eq!(t.races().len(), 1);
}

#[test]
fn order_makes_them_safe() {
    // Two reads; disjoint bytes; one stream.
    let t = Two::new();
    t.read(t.a, 0..256);
    t.write(t.b, 256..512);
    t.write(t.a, 0..256);
    assert_eq!(t.races(), []);

    // An event, through a third stream.
    let c = t.device.create_stream("c").unwrap();
    t.device.wait(c, &t.device.record(t.a).unwrap()).unwrap();
    t.device.wait(t.b, &t.device.record(c).unwrap()).unwrap();
    t.write(t.b, 0..256);
    assert_eq!(t.races(), []);

    // An event from before the use does not help.
    let t = Two::new();
    let early = t.device.record(t.a).unwrap();
    t.write(t.a, 0..256);
    t.device.wait(t.b, &early).unwrap();
    t.write(t.b, 0..256);
    assert_eq!(t.races().len(), 1);

    // The host saw it end: by a query, a synchronise of the event or of the device.
    for how in 0..3 {
        let t = Two::new();
        t.write(t.a, 0..256);
        let event = t.device.record(t.a).unwrap();
        t.device.card().clock().advance_to(t.device.completion_time(&event).unwrap());
        match how {
            0 => assert!(t.device.query(&event).unwrap()),
            1 => t.device.synchronize(&event, FOREVER).unwrap(),
            _ => t.device.device_synchronize(FOREVER).unwrap(),
        }
        t.write(t.b, 0..256);
        assert_eq!(t.races(), []);
    }

    // A download that the host has read.
    let t = Two::new();
    t.write(t.a, 0..256);
    let mut down = t.device.allocate_staging("down", StagingKind::Download, 256).unwrap();
    t.device.download(t.a, t.view.slice(0, 256).unwrap(), down.as_mut(), 0).unwrap();
    down.host(FOREVER).unwrap();
    t.write(t.b, 0..256);
    assert_eq!(t.races(), []);
}

#[test]
fn freeing_what_the_host_has_not_seen_end_is_a_race() {
    let t = Two::new();
    t.write(t.a, 0..256);
    t.device.free(t.view.region()).unwrap();
    assert_eq!(t.races(), [(RaceKind::Free, 0..256)]);

    let t = Two::new();
    t.write(t.a, 0..256);
    t.device.synchronize(&t.device.record(t.a).unwrap(), FOREVER).unwrap();
    t.device.free(t.view.region()).unwrap();
    assert_eq!(t.races(), []);

    // On the pool, the stream's order counts.
    let t = Two::new();
    for (stream, races) in [(t.a, 0), (t.b, 1)] {
        let pooled = t.device.pool_allocate(t.a, "p", MemoryClass::Work, 256).unwrap();
        kernel(&t.device, t.a, pooled.whole("p").unwrap(), 1);
        t.device.pool_free(stream, pooled).unwrap();
        assert_eq!(t.races().len(), races);
    }
}
