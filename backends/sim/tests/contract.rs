//! Handles that are not alive here, and sizes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use support::*;
use twinlock_api::op::{DigitsShape, Fill};
use twinlock_api::{
    Backend, Device, Error, Event, Group, MemoryClass, Op, OpenOptions, Region, StagingKind, Stream,
};
use twinlock_sim::{Arithmetic, Clock, SimBackend, SimConfig};

fn refused<T>(result: twinlock_api::Result<T>, what: &str) {
    match result {
        Err(Error::InvalidArgument(_)) => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: accepted"),
    }
}

#[test]
fn dead_and_foreign_handles_are_refused() {
    for config in [round_numbers(), with_bytes(round_numbers())] {
        let device = open(config.clone());
        let other = open(config);
        let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 256));
        let mut up = device.allocate_staging("up", StagingKind::Upload, 256).unwrap();
        let mut down = device.allocate_staging("down", StagingKind::Download, 256).unwrap();

        let freed = region(&device, 256).unwrap();
        device.free(freed).unwrap();
        let elsewhere = region(&other, 256).unwrap();
        for dead in [freed, elsewhere, Region::fresh(MemoryClass::Work, 256)] {
            let dead_view = dead.whole("dead").unwrap();
            refused(device.free(dead), "free");
            refused(device.pool_free(stream, dead), "pool_free");
            refused(device.enqueue(stream, &Op::Fill(Fill::zero(dead_view))), "enqueue");
            refused(device.upload(stream, up.as_mut(), 0, dead_view), "upload");
            refused(device.download(stream, dead_view, down.as_mut(), 0), "download");
        }

        let event = device.record(stream).unwrap();
        let ended = device.create_stream("b").unwrap();
        device.destroy_stream(ended).unwrap();
        let elsewhere = other.create_stream("a").unwrap();
        for dead in [ended, elsewhere, Stream::fresh()] {
            refused(device.destroy_stream(dead), "destroy_stream");
            refused(device.record(dead), "record");
            refused(device.wait(dead, &event), "wait");
            refused(device.enqueue(dead, &Op::Fill(Fill::zero(view))), "enqueue");
            refused(device.upload(dead, up.as_mut(), 0, view), "upload");
            refused(device.download(dead, view, down.as_mut(), 0), "download");
            refused(device.pool_allocate(dead, "p", MemoryClass::Work, 4), "pool_allocate");
        }

        for foreign in [other.record(elsewhere).unwrap(), Event::new("nobody's")] {
            refused(device.wait(stream, &foreign), "wait");
            refused(device.query(&foreign), "query");
            refused(device.synchronize(&foreign, FOREVER), "synchronize");
            refused(device.completion_time(&foreign), "completion_time");
        }

        let mut foreign = other.allocate_staging("up", StagingKind::Upload, 256).unwrap();
        refused(device.upload(stream, foreign.as_mut(), 0, view), "another's staging");
        refused(device.upload(stream, down.as_mut(), 0, view), "the wrong way");
        refused(device.upload(stream, up.as_mut(), 4, view), "past the end");
        refused(device.download(stream, view, down.as_mut(), 2), "misaligned");

        // None of it reached the stream.
        assert_eq!(device.idle_time().unwrap(), s(0));
        device.synchronize(&kernel(&device, stream, view, 1), s(1)).unwrap();
    }
}

#[test]
fn work_on_a_destroyed_stream_still_runs() {
    let device = open(with_bytes(round_numbers()));
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 256));
    let event = kernel(&device, stream, view, 3);
    device.destroy_stream(stream).unwrap();
    device.synchronize(&event, FOREVER).unwrap();
    assert_eq!(now(&device), s(3));
}

#[test]
fn handles_of_the_inner_device_are_given_back() {
    let inner = std::sync::Arc::new(Bytes::default());
    let config = SimConfig { arithmetic: Arithmetic::Of(inner.clone()), ..round_numbers() };
    let device = open(config);
    let first = region(&device, 256).unwrap();
    region(&device, 512).unwrap();
    assert_eq!(inner.live_bytes(), 768);
    device.free(first).unwrap();
    assert_eq!(inner.live_bytes(), 512);
    drop(device);
    assert_eq!(inner.live_bytes(), 0);
}

#[test]
fn sizes_come_from_the_device_that_does_the_arithmetic() {
    let device = open(with_bytes(round_numbers()));
    assert_eq!(device.ntt_layout(10).unwrap().workspace_bytes, 12_345);
    assert_eq!(device.window_bits(Group::G1, 1 << 20), 11);
    let sizes = Arithmetic::SizesOf(std::sync::Arc::new(Bytes::default()));
    let device = open(SimConfig { arithmetic: sizes, ..round_numbers() });
    assert_eq!(device.window_bits(Group::G1, 1 << 20), 11);
    // And the bytes do not move.
    let (stream, view) = (device.create_stream("a").unwrap(), work(&device, "v", 256));
    kernel(&device, stream, view, 3);
    let mut down = device.allocate_staging("down", StagingKind::Download, 256).unwrap();
    device.download(stream, view, down.as_mut(), 0).unwrap();
    assert!(down.host(FOREVER).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn sizes_without_arithmetic_have_limits() {
    let device = open(SimConfig::new("sim:0", 16 * GIB));
    assert_eq!(device.info().max_lg_domain, 29);
    assert!(device.ntt_layout(29).is_ok());
    assert!(matches!(device.ntt_layout(30), Err(Error::ExceedsLimit { limit: 29, .. })));
    assert!(device.ntt_layout(u32::MAX).is_err());
    for group in [Group::G1, Group::G2] {
        for max_len in [0, 1, 1 << 20, 1 << 26] {
            let shape = DigitsShape::new(max_len, device.window_bits(group, max_len));
            let digits = device.digits_layout(shape).unwrap();
            assert!(digits.plan_bytes >= max_len * 4);
            let msm = device.msm_layout(group, shape).unwrap();
            assert!(msm.num_windows * shape.window_bits >= 256);
        }
        for window_bits in [0, 25, 33, u32::MAX] {
            let shape = DigitsShape::new(8, window_bits);
            assert!(matches!(device.digits_layout(shape), Err(Error::Unsupported(_))));
            assert!(matches!(device.msm_layout(group, shape), Err(Error::Unsupported(_))));
        }
        let shape = DigitsShape::new(u64::MAX, 8);
        assert!(matches!(device.msm_layout(group, shape), Err(Error::ExceedsLimit { .. })));
    }
    let staging = device.allocate_staging("s", StagingKind::Upload, u64::MAX);
    assert!(matches!(staging.map(drop), Err(Error::ExceedsLimit { .. })));
}

#[test]
fn the_backend_names_its_cards() {
    let clock = Clock::new();
    let none = SimBackend::new([], &clock);
    assert!(none.discover().iter().all(|found| found.usable.is_err()));
    let backend = SimBackend::new([round_numbers()], &clock);
    assert_eq!(backend.name(), "sim");
    let found = backend.discover();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].usable.as_ref().unwrap().name, "sim:0");
    let unknown = backend.open("sim:7", &OpenOptions::default()).map(drop).unwrap_err();
    assert_eq!(unknown.to_string(), "invalid argument: no device sim:7, only sim:0");
    let config = SimConfig { context_bytes: 2 << 20, ..round_numbers() };
    let small = SimBackend::new([config], &clock).open("sim:0", &OpenOptions::default());
    assert!(matches!(small.map(drop), Err(Error::OutOfMemory { .. })));
}
