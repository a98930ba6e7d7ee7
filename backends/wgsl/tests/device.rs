//! What the suite cannot see: faults, two devices at once, long queues.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use twinlock_api::op::{Copy, Fill};
use twinlock_api::{
    Backend, Device, Error, FrView, MemoryClass, Op, OpenOptions, Region, StagingKind, op,
};
use twinlock_conformance::harness::first_device;
use twinlock_conformance::on_first_device;
use twinlock_wgsl::{Faults, Steps, WgslBackend};

const SOON: Duration = Duration::from_secs(120);
const SIZE_BYTES: u64 = 1 << 16;

type Opened = (Arc<dyn Device>, Arc<Faults>);

/// The first device.
fn open_with(backend: WgslBackend) -> Opened {
    let name = first_device(&backend).expect("it was there before");
    backend.open_with_faults(&name).expect("it opens")
}

fn open() -> Opened {
    open_with(WgslBackend::default())
}

fn work(device: &dyn Device, size_bytes: u64) -> Region {
    device.allocate("test", MemoryClass::Work, size_bytes).expect("memory")
}

/// What is in the region, through a stream of its own.
fn bytes(device: &dyn Device, region: Region) -> Result<Vec<u8>, Error> {
    let stream = device.create_stream("read")?;
    let mut staging =
        device.allocate_staging("read", StagingKind::Download, region.size_bytes())?;
    device.download(stream, region.whole("read")?, &mut *staging, 0)?;
    let bytes = staging.host(SOON)?.to_vec();
    device.destroy_stream(stream)?;
    Ok(bytes)
}

fn fill(device: &dyn Device, region: Region, word: u32) -> Result<(), Error> {
    let stream = device.create_stream("fill")?;
    device.enqueue(stream, &Op::Fill(Fill::new(region.whole("fill")?, word)))?;
    device.synchronize(&device.record(stream)?, SOON)?;
    device.destroy_stream(stream)
}

fn filled(device: &dyn Device, region: Region, word: u32) {
    let bytes = bytes(device, region).expect("reads");
    assert_eq!(bytes, word.to_le_bytes().repeat(region.size_bytes() as usize / 4));
}

fn main() {
    macro_rules! on_a_device {
        ($($test:ident),* $(,)?) => {
            vec![$(on_first_device(WgslBackend::default(), stringify!($test), |_| $test())),*]
        };
    }
    let mut tests = on_a_device![
        two_devices_work_at_once_and_keep_apart,
        a_lost_device_says_so_everywhere_and_opens_again,
        a_device_lost_at_work_ends_every_wait,
        out_of_memory_is_told_and_passes,
        a_setting_bounds_the_regions,
        waits_end_with_their_timeout_and_the_work_still_runs,
        long_queues_keep_their_order,
        fills_and_copies_in_steps,
        dropped_with_work_enqueued,
        a_refused_command_is_a_failed_kernel,
    ];
    tests.push(Trial::test("unknown_names_are_told_the_known_ones", || {
        unknown_names_are_told_the_known_ones();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}

fn unknown_names_are_told_the_known_ones() {
    let backend = WgslBackend::default();
    let error = backend.open("wgsl:99", &OpenOptions::default()).map(drop).expect_err("no such");
    if backend.discover().iter().any(|found| found.usable.is_ok()) {
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains("wgsl:0"), "{error}");
    } else {
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
}

fn two_devices_work_at_once_and_keep_apart() {
    let ((first, first_faults), (second, _)) = (open(), open());
    let regions = [&first, &second].map(|device| work(&**device, SIZE_BYTES));
    std::thread::scope(|scope| {
        for (device, region) in [&first, &second].into_iter().zip(regions) {
            scope.spawn(move || {
                for word in 1..50 {
                    fill(&**device, region, word).expect("fills");
                    if word % 10 == 0 {
                        filled(&**device, region, word);
                    }
                }
            });
        }
    });
    // Handles of one are nothing to the other.
    let stream = first.create_stream("first").expect("stream");
    let event = first.record(stream).expect("event");
    let mut staging = first.allocate_staging("first", StagingKind::Upload, 64).expect("staging");
    let theirs = second.create_stream("second").expect("stream");
    let view = regions[1].whole("second").expect("view");
    let target = view.slice(0, 64).expect("slice");
    for outcome in [
        second.query(&event).map(drop),
        second.wait(theirs, &event),
        second.upload(theirs, &mut *staging, 0, target),
        second.enqueue(stream, &Op::Fill(Fill::zero(view))),
        first.enqueue(stream, &Op::Fill(Fill::zero(view))),
        first.free(regions[1]),
    ] {
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
    }
    // One is lost, the other goes on.
    first_faults.lose();
    assert!(matches!(first.create_stream("late"), Err(Error::DeviceLost { .. })));
    fill(&*second, regions[1], 7).expect("the other works");
    filled(&*second, regions[1], 7);
}

fn a_lost_device_says_so_everywhere_and_opens_again() {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let view = region.whole("view").expect("view");
    let stream = device.create_stream("stream").expect("stream");
    let mut upload =
        device.allocate_staging("up", StagingKind::Upload, SIZE_BYTES).expect("staging");
    let mut download =
        device.allocate_staging("down", StagingKind::Download, SIZE_BYTES).expect("staging");
    // Work that waits to be submitted when the device goes.
    faults.hold(true);
    device.upload(stream, &mut *upload, 0, view).expect("upload");
    device.enqueue(stream, &Op::Fill(Fill::new(view, 3))).expect("enqueue");
    device.download(stream, view, &mut *download, 0).expect("download");
    let event = device.record(stream).expect("event");
    faults.lose();
    let fill = Op::Fill(Fill::zero(view));
    let outcomes = [
        device.synchronize(&event, SOON),
        device.query(&event).map(drop),
        device.record(stream).map(drop),
        device.wait(stream, &event),
        device.enqueue(stream, &fill),
        device.upload(stream, &mut *upload, 0, view),
        device.download(stream, view, &mut *download, 0),
        upload.host(SOON).map(drop),
        download.host(SOON).map(drop),
        device.memory().map(drop),
        device.allocate("late", MemoryClass::Work, 4096).map(drop),
        device.allocate_staging("late", StagingKind::Upload, 4096).map(drop),
        device.create_stream("late").map(drop),
        device.destroy_stream(stream),
        device.free(region),
    ];
    for (at, outcome) in outcomes.into_iter().enumerate() {
        assert!(matches!(outcome, Err(Error::DeviceLost { .. })), "{at}: {outcome:?}");
    }
    drop((upload, download, device));
    let (device, _) = open();
    let region = work(&*device, SIZE_BYTES);
    fill_and_check(&*device, region);
}

fn fill_and_check(device: &dyn Device, region: Region) {
    fill(device, region, 0xdead_beef).expect("fills");
    filled(device, region, 0xdead_beef);
}

/// Lost with work on the device rather than before it.
fn a_device_lost_at_work_ends_every_wait() {
    let (device, faults) = open();
    let region = work(&*device, 32 << 20);
    let stream = device.create_stream("stream").expect("stream");
    let view = region.whole("view").expect("view");
    for word in 1..=40 {
        device.enqueue(stream, &Op::Fill(Fill::new(view, word))).expect("enqueue");
    }
    let event = device.record(stream).expect("event");
    let waiting = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| device.synchronize(&event, SOON));
        std::thread::sleep(Duration::from_millis(5));
        faults.lose();
        waiter.join().expect("no panic")
    });
    // The last of the work may have run before.
    assert!(matches!(waiting, Ok(()) | Err(Error::DeviceLost { .. })), "{waiting:?}");
    let mut after = device.create_stream("late").map(drop);
    for _ in 0..1000 {
        if after.is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        faults.lose();
        after = device.create_stream("late").map(drop);
    }
    assert!(matches!(after, Err(Error::DeviceLost { .. })), "{after:?}");
}

fn out_of_memory_is_told_and_passes() {
    let (device, faults) = open();
    let held = work(&*device, SIZE_BYTES);
    faults.fail_next_allocation();
    let outcome = device.allocate("refused", MemoryClass::Resident, 1 << 20);
    let Err(Error::OutOfMemory { what, requested_bytes, free_bytes }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((&*what, requested_bytes), ("refused", 1 << 20));
    assert!(free_bytes.is_some());
    assert_eq!(device.memory().expect("memory").regions_bytes, SIZE_BYTES);
    fill_and_check(&*device, held);
    let region = device.allocate("granted", MemoryClass::Resident, 1 << 20).expect("now it fits");
    device.free(region).expect("free");
}

fn a_setting_bounds_the_regions() {
    // Opening a GPU takes memory too.
    let software = open().0.info().model.contains("software");
    let limit = if software { 10 << 20 } else { 1 << 30 };
    let (device, _) = open_with(WgslBackend::default().with_memory_bytes(limit));
    assert_eq!(device.info().memory_bytes, limit);
    assert!(device.info().max_region_bytes <= limit);
    let free_bytes = device.memory().expect("memory").free_bytes;
    assert!(free_bytes <= limit);
    let each = free_bytes / 5 * 2 / 256 * 256;
    let regions = [work(&*device, each), work(&*device, each)];
    let outcome = device.allocate("third", MemoryClass::Work, each);
    assert!(matches!(outcome, Err(Error::OutOfMemory { .. })), "{outcome:?}");
    device.free(regions[0]).expect("free");
    let third = work(&*device, each);
    fill_and_check(&*device, third);
    let memory = device.memory().expect("memory");
    assert_eq!(memory.regions_bytes, 2 * each);
    assert!(memory.free_bytes <= free_bytes - 2 * each);
}

fn waits_end_with_their_timeout_and_the_work_still_runs() {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let view = region.whole("view").expect("view");
    let stream = device.create_stream("stream").expect("stream");
    let mut staging =
        device.allocate_staging("down", StagingKind::Download, SIZE_BYTES).expect("staging");
    faults.hold(true);
    device.enqueue(stream, &Op::Fill(Fill::new(view, 9))).expect("enqueue");
    device.download(stream, view, &mut *staging, 0).expect("download");
    let event = device.record(stream).expect("event");
    let short = Duration::from_millis(20);
    assert_eq!(device.query(&event), Ok(false));
    for outcome in [device.synchronize(&event, short), staging.host(short).map(drop)] {
        assert!(matches!(outcome, Err(Error::Timeout { timeout_ms: 20, .. })), "{outcome:?}");
    }
    faults.hold(false);
    device.synchronize(&event, SOON).expect("done");
    assert_eq!(staging.host(SOON).expect("done"), 9u32.to_le_bytes().repeat(1 << 14));
    device.synchronize(&event, Duration::ZERO).expect("still done");
}

/// Thousands of operations that nobody waits for in between: nothing blocks, order is kept.
fn long_queues_keep_their_order() {
    let (device, faults) = open();
    let (a, b) = (work(&*device, 4096), work(&*device, 4096));
    let (a_view, b_view) = (a.whole("a").expect("view"), b.whole("b").expect("view"));
    let stream = device.create_stream("stream").expect("stream");
    faults.hold(true);
    for word in 1..=1500 {
        device.enqueue(stream, &Op::Fill(Fill::new(a_view, word))).expect("enqueue");
        let half = a_view.slice(0, 2048).expect("slice");
        let other = a_view.slice(2048, 2048).expect("slice");
        let (source, target) = (b_view.slice(0, 2048).expect("slice"), other);
        device.enqueue(stream, &Op::Copy(Copy::new(half, source).expect("op"))).expect("enqueue");
        if word % 2 == 0 {
            device.enqueue(stream, &Op::Fill(Fill::zero(a_view))).expect("enqueue");
            device
                .enqueue(stream, &Op::Copy(Copy::new(source, target).expect("op")))
                .expect("enqueue");
        }
    }
    faults.hold(false);
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("done");
    let mut expected = vec![0; 2048];
    expected.extend(1500u32.to_le_bytes().repeat(512));
    assert_eq!(bytes(&*device, a).expect("reads"), expected);
}

/// What takes several dispatches, the last a short one.
fn fills_and_copies_in_steps() {
    let steps = Steps { bytes: 4096, ..Steps::default() };
    let (device, _) = open_with(WgslBackend::default().with_steps(steps));
    let region = work(&*device, 64 << 10);
    let view = |start, len| region.view("part", start, len).expect("view");
    let stream = device.create_stream("stream").expect("stream");
    let enqueue = |op| device.enqueue(stream, &op).expect("enqueue");
    enqueue(Op::Fill(Fill::new(view(0, 64 << 10), 1)));
    for (start, word) in [(8192, 2), (12_288, 3), (16_384, 4)] {
        enqueue(Op::Fill(Fill::new(view(start, 4096), word)));
    }
    enqueue(Op::Copy(Copy::new(view(8192, 10_000), view(32_768, 10_000)).expect("op")));
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("done");
    let mut expected = [1u32; 16 << 10];
    for start in [8192, 32_768] {
        for (at, words) in expected[start / 4..][..2500].chunks_mut(1024).enumerate() {
            words.fill(at as u32 + 2);
        }
    }
    expected[(8192 + 10_000) / 4..(16_384 + 4096) / 4].fill(4);
    assert_eq!(bytes(&*device, region).expect("reads"), bytemuck::cast_slice::<_, u8>(&expected));
}

/// A device goes with work enqueued: the work ends first, and nothing hangs.
fn dropped_with_work_enqueued() {
    let (device, _) = open();
    let region = work(&*device, 16 << 20);
    let stream = device.create_stream("stream").expect("stream");
    let view = region.whole("view").expect("view");
    let mut staging = device.allocate_staging("down", StagingKind::Download, 64).expect("staging");
    for word in 1..=50 {
        device.enqueue(stream, &Op::Fill(Fill::new(view, word))).expect("enqueue");
    }
    device.download(stream, view.slice(0, 64).expect("slice"), &mut *staging, 0).expect("copy");
    drop(device);
    assert_eq!(staging.host(SOON).expect("it ran"), 50u32.to_le_bytes().repeat(16));
}

/// What is not encodable poisons its stream, with the operation's name; others go on.
fn a_refused_command_is_a_failed_kernel() {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let view = region.whole("view").expect("view");
    let sick = device.create_stream("sick").expect("stream");
    let mut staging = device.allocate_staging("down", StagingKind::Download, 64).expect("staging");
    fill(&*device, region, 5).expect("fills");
    faults.fail_next_op();
    device.enqueue(sick, &Op::Fill(Fill::new(view, 6))).expect("enqueued");
    device.download(sick, view.slice(0, 64).expect("slice"), &mut *staging, 0).expect("enqueued");
    let event = device.record(sick).expect("event");
    let outcome = device.synchronize(&event, SOON);
    assert!(matches!(&outcome, Err(Error::KernelFailed { name: "fill", .. })), "{outcome:?}");
    assert_eq!(staging.host(SOON).map(drop), outcome);
    filled(&*device, region, 5);
    // The caller's mistakes do not poison.
    let stream = device.create_stream("well").expect("stream");
    let dead = Region::fresh(MemoryClass::Work, 64).whole("dead").expect("view");
    let fr = FrView::new(dead).expect("aligned");
    let op = Op::Vector(op::Vector::add(fr, fr, fr).expect("op"));
    assert!(matches!(device.enqueue(stream, &op), Err(Error::InvalidArgument(_))));
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("well");
}
