//! What the suite cannot see: the scenes that all backends share, and what this one promises besides,
//! of free memory and of calls that do not wait.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use twinlock_api::op::{Copy, Fill};
use twinlock_api::{Backend, Device, Error, MemoryClass, Op, OpenOptions, StagingKind};
use twinlock_conformance::harness::{Settings, check, first_device};
use twinlock_conformance::on_first_device;
use twinlock_conformance::scenes::{
    Opened, SIZE_BYTES, SOON, all_lost, fill, fill_and_check, filled, long_queues_keep_their_order,
    open, refused, scenes, stream, whole, without_waiting, work,
};
use twinlock_cuda::CudaBackend;

fn opened() -> Opened {
    open(&CudaBackend::default())
}

/// Set for a process that is to lose its device.
const TRAPPED: &str = "TWINLOCK_TEST_TRAP";

fn main() {
    if std::env::var_os(TRAPPED).is_some() {
        return trap();
    }
    macro_rules! on_a_device {
        ($($test:ident),* $(,)?) => {
            vec![$(on_first_device(CudaBackend::default(), stringify!($test), |_| $test())),*]
        };
    }
    let mut tests = scenes(CudaBackend::default());
    tests.extend(on_a_device![
        opening_and_closing_leaves_no_memory_behind,
        the_suite_leaves_free_memory_as_it_was,
        a_lost_device_gives_its_memory_back,
        a_trap_loses_the_device_and_no_other_process,
        the_drivers_own_refusal_is_told,
        a_setting_bounds_the_regions,
        operations_that_nobody_waits_for_keep_their_order,
        nothing_enqueued_waits_for_the_device,
        allocations_do_not_wait_for_others_work,
        freed_memory_stays_until_its_work_has_run,
        destroyed_streams_finish,
    ]);
    let mut args = Arguments::from_args();
    // They look at what the card has free.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, tests).exit()
}

fn free_bytes(device: &dyn Device) -> u64 {
    device.memory().expect("memory").free_bytes
}

/// Memory comes back when the device has noticed that the work which used it is over.
fn settles_at(device: &dyn Device, expected_bytes: u64) {
    let start = Instant::now();
    while free_bytes(device) != expected_bytes && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(free_bytes(device), expected_bytes);
}

/// Contexts, kernels, tables and regions all go with their device.
fn opening_and_closing_leaves_no_memory_behind() {
    let (watcher, _) = opened();
    // The first time may leave something of the driver's own.
    drop(opened());
    let before = free_bytes(&*watcher);
    for _ in 0..5 {
        let (device, _) = opened();
        let region = work(&*device, 64 << 20);
        fill(&*device, region, 1).expect("fills");
        assert!(free_bytes(&*watcher) < before);
        drop(device);
    }
    settles_at(&*watcher, before);
}

/// No operation makes the driver take memory: kernels, their stacks, streams and events are all
/// there when a device is opened.
fn the_suite_leaves_free_memory_as_it_was() {
    let (device, _) = opened();
    let settings = Settings { max_lg: 12, ..Settings::default() };
    let run = || {
        let reports = check(&device, "", &settings);
        let failed: Vec<_> = reports.iter().filter(|report| report.failure.is_some()).collect();
        // One that failed has not given its memory back.
        assert!(failed.is_empty(), "{} of {}: {:?}", failed.len(), reports.len(), failed.first());
    };
    // Driver 580 takes 8 MiB of its own the first time, 10 where a second card is visible; what kernels
    // lacked would be far more.
    let cards = CudaBackend::default().discover().len() as u64;
    let drivers_own_bytes = (6 + 2 * cards) << 20;
    let opened = free_bytes(&*device);
    run();
    let before = free_bytes(&*device);
    assert!(opened.saturating_sub(before) <= drivers_own_bytes, "{opened} free, then {before}");
    run();
    settles_at(&*device, before);
}

fn a_lost_device_gives_its_memory_back() {
    let (watcher, _) = opened();
    let before = free_bytes(&*watcher);
    let (device, faults) = opened();
    let region = work(&*device, SIZE_BYTES);
    let stream = stream(&*device);
    // With work that has not run.
    faults.hold(true).expect("held");
    all_lost(&*device, stream, region, || faults.lose());
    drop(device);
    settles_at(&*watcher, before);
}

/// The driver's own way of losing a device: it takes the whole process's contexts with it, so it
/// happens in a process of its own.
fn a_trap_loses_the_device_and_no_other_process() {
    let (device, _) = opened();
    let region = work(&*device, SIZE_BYTES);
    let program = std::env::current_exe().expect("this program's path");
    let child = std::process::Command::new(program).env(TRAPPED, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    fill_and_check(&*device, region);
}

fn trap() {
    let (other, _) = opened();
    let name = first_device(&CudaBackend::default()).expect("it was there before");
    let (device, faults) = CudaBackend::default().open_with_faults(&name).expect("it opens");
    let region = work(&*device, SIZE_BYTES);
    let stream = stream(&*device);
    all_lost(&*device, stream, region, || {
        faults.crash().expect("the driver compiles a trap");
        // It shows when the driver is asked.
        let start = Instant::now();
        let asked = || device.record(stream).and_then(|event| device.query(&event));
        while asked().is_ok() && start.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let reason = device.memory().expect_err("lost").to_string();
    assert!(reason.contains("CUDA_ERROR"), "{reason}");
    drop(device);
    // Others in the process go with it, and say so; nothing panics, nothing hangs.
    let outcome = fill(&*other, work(&*other, SIZE_BYTES), 1);
    assert!(matches!(outcome, Ok(()) | Err(Error::DeviceLost { .. })), "{outcome:?}");
    drop(other);
    let name = first_device(&CudaBackend::default()).expect("it is still there");
    if let Err(error) = CudaBackend::default().open(&name, &OpenOptions::default()).map(drop) {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("restart"), "{error}");
    }
}

/// The context alone takes some of the card.
fn the_drivers_own_refusal_is_told() {
    let (device, _) = opened();
    let held = work(&*device, SIZE_BYTES);
    refused(&*device, device.info().max_region_bytes);
    fill_and_check(&*device, held);
}

fn a_setting_bounds_the_regions() {
    let limit = 10 << 20;
    let (device, _) = open(&CudaBackend::default().with_memory_bytes(limit));
    assert_eq!(device.info().memory_bytes, limit);
    assert!(device.info().max_region_bytes <= limit);
    let regions = [work(&*device, 4 << 20), work(&*device, 4 << 20)];
    let outcome = device.allocate("third", MemoryClass::Work, 4 << 20);
    assert!(matches!(outcome, Err(Error::OutOfMemory { .. })), "{outcome:?}");
    device.free(regions[0]).expect("free");
    let third = work(&*device, 4 << 20);
    fill_and_check(&*device, third);
    let memory = device.memory().expect("memory");
    assert_eq!(memory.regions_bytes, 8 << 20);
    assert!(memory.free_bytes <= 2 << 20);
}

fn operations_that_nobody_waits_for_keep_their_order() {
    long_queues_keep_their_order(opened(), 3000, false);
}

/// The scheduler does these under its locks: with work on the device that does not end, each comes
/// back.
fn nothing_enqueued_waits_for_the_device() {
    let (device, faults) = opened();
    let (a, b) = (work(&*device, 1 << 20), work(&*device, 1 << 20));
    let (a_view, b_view) = (whole(a), whole(b));
    let kinds = [StagingKind::Upload, StagingKind::Download];
    let [mut up, mut down] =
        kinds.map(|kind| device.allocate_staging("held", kind, 1 << 20).expect("staging"));
    let [held, free] = [stream(&*device), stream(&*device)];
    faults.hold(true).expect("held");
    device.enqueue(held, &Op::Fill(Fill::new(a_view, 1))).expect("enqueue");
    let device = &*device;
    let event = without_waiting(&*faults, "enqueueing", || {
        for word in 1..=40 {
            device.enqueue(free, &Op::Fill(Fill::new(b_view, word))).expect("enqueue");
            device.upload(free, &mut *up, 0, b_view).expect("upload");
            device.download(free, b_view, &mut *down, 0).expect("download");
            let copy = Copy::new(b_view, a_view).expect("op");
            device.enqueue(free, &Op::Copy(copy)).expect("enqueue");
        }
        let event = device.record(free).expect("event");
        device.wait(held, &event).expect("wait");
        assert_eq!(device.query(&event), Ok(false));
        event
    });
    faults.hold(false).expect("let go");
    device.synchronize(&event, SOON).expect("done");
}

/// Taking memory may be slow, but it does not take somebody else's kernel to end.
fn allocations_do_not_wait_for_others_work() {
    let (device, faults) = opened();
    let busy = work(&*device, 1 << 20);
    let idle = work(&*device, 64 << 20);
    let held = stream(&*device);
    faults.hold(true).expect("held");
    device.enqueue(held, &Op::Fill(Fill::new(whole(busy), 1))).expect("enqueue");
    let device = &*device;
    without_waiting(&*faults, "free", || device.free(idle).expect("free"));
    let region = without_waiting(&*faults, "allocate", || work(device, 64 << 20));
    without_waiting(&*faults, "memory", || device.memory().expect("memory"));
    let other = without_waiting(&*faults, "create_stream", || stream(device));
    without_waiting(&*faults, "destroy_stream", || device.destroy_stream(other).expect("ends"));
    // Pinned memory is another matter: the driver waits for its work before it gives any.
    faults.hold(false).expect("let go");
    fill_and_check(device, region);
}

/// Memory freed while work uses it is not given away before that work has run.
fn freed_memory_stays_until_its_work_has_run() {
    let (device, faults) = opened();
    let size_bytes = 32 << 20;
    let before = free_bytes(&*device);
    let region = work(&*device, size_bytes);
    let stream = stream(&*device);
    let mut staging =
        device.allocate_staging("down", StagingKind::Download, size_bytes).expect("staging");
    faults.hold(true).expect("held");
    device.enqueue(stream, &Op::Fill(Fill::new(whole(region), 77))).expect("enqueue");
    device.download(stream, whole(region), &mut *staging, 0).expect("download");
    let event = device.record(stream).expect("event");
    // The stream goes, too: its work is what counts.
    device.destroy_stream(stream).expect("ends");
    device.free(region).expect("free");
    assert!(matches!(device.free(region), Err(Error::InvalidArgument(_))));
    assert_eq!(device.memory().expect("memory").regions_bytes, 0);
    assert!(free_bytes(&*device) <= before - size_bytes);
    faults.hold(false).expect("let go");
    device.synchronize(&event, SOON).expect("done");
    assert_eq!(staging.host(SOON).expect("done")[..4], 77u32.to_le_bytes());
    drop(staging);
    settles_at(&*device, before);
}

/// Many short streams: what they were given runs, and the driver's streams are used again.
fn destroyed_streams_finish() {
    let (device, _) = opened();
    let region = work(&*device, SIZE_BYTES);
    let view = whole(region);
    let mut last = None;
    for word in 1..=200 {
        let stream = stream(&*device);
        if let Some(event) = &last {
            device.wait(stream, event).expect("wait");
        }
        device.enqueue(stream, &Op::Fill(Fill::new(view, word))).expect("enqueue");
        last = Some(device.record(stream).expect("event"));
        device.destroy_stream(stream).expect("ends");
    }
    device.synchronize(&last.expect("an event"), SOON).expect("done");
    filled(&*device, region, 200);
}
