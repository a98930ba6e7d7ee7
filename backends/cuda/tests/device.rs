//! What the suite cannot see: faults, two devices at once, what may wait and what may not.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use twinlock_api::op::{Copy, Fill};
use twinlock_api::{
    Backend, Device, Error, Faults, FaultyBackend, FrView, MemoryClass, Op, OpenOptions, Region,
    StagingKind, Stream, View, op,
};
use twinlock_conformance::harness::{Settings, check, first_device};
use twinlock_conformance::on_first_device;
use twinlock_cuda::CudaBackend;

const SOON: Duration = Duration::from_secs(120);
const SIZE_BYTES: u64 = 1 << 16;

type Opened = (Arc<dyn Device>, Arc<dyn Faults>);

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
    let mut tests = on_a_device![
        opening_and_closing_leaves_no_memory_behind,
        the_suite_leaves_free_memory_as_it_was,
        two_devices_work_at_once_and_keep_apart,
        a_lost_device_says_so_everywhere_and_opens_again,
        a_trap_loses_the_device_and_no_other_process,
        out_of_memory_is_told_and_passes,
        a_setting_bounds_the_regions,
        waits_end_with_their_timeout_and_the_work_still_runs,
        long_queues_keep_their_order,
        dropped_with_work_enqueued,
        a_refused_launch_is_a_failed_kernel,
        nothing_enqueued_waits_for_the_device,
        allocations_do_not_wait_for_others_work,
        freed_memory_stays_until_its_work_has_run,
        destroyed_streams_finish,
    ];
    tests.push(Trial::test("unknown_names_are_told_the_known_ones", || {
        unknown_names_are_told_the_known_ones();
        Ok(())
    }));
    let mut args = Arguments::from_args();
    // They look at what the card has free.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, tests).exit()
}

/// The first device.
fn open_with(backend: CudaBackend) -> Opened {
    let name = first_device(&backend).expect("it was there before");
    backend.open_faulty(&name).expect("it opens")
}

fn open() -> Opened {
    open_with(CudaBackend::default())
}

fn work(device: &dyn Device, size_bytes: u64) -> Region {
    device.allocate("test", MemoryClass::Work, size_bytes).expect("memory")
}

fn stream(device: &dyn Device) -> Stream {
    device.create_stream("test").expect("stream")
}

fn whole(region: Region) -> View {
    region.whole("view").expect("view")
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

fn fill_and_check(device: &dyn Device, region: Region) {
    fill(device, region, 0xdead_beef).expect("fills");
    filled(device, region, 0xdead_beef);
}

/// Runs `f`, which must not wait for what is held: if it does, the hold ends and the test fails.
fn without_waiting<T: Send>(faults: &dyn Faults, what: &str, f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        scope.spawn(move || {
            // Nobody listens after a failure.
            let _ = sender.send(f());
        });
        receiver.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| {
            faults.hold(false).expect("let go");
            panic!("{what} waits for work that is held")
        })
    })
}

fn unknown_names_are_told_the_known_ones() {
    let backend = CudaBackend::default();
    let error = backend.open("cuda:99", &OpenOptions::default()).map(drop).expect_err("no such");
    if backend.discover().iter().any(|found| found.name == "cuda:0") {
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains("cuda:0"), "{error}");
    } else {
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
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
    let (watcher, _) = open();
    // The first time may leave something of the driver's own.
    drop(open());
    let before = free_bytes(&*watcher);
    for _ in 0..5 {
        let (device, _) = open();
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
    let (device, _) = open();
    let settings = Settings { max_lg: 12, ..Settings::default() };
    let run = || {
        let reports = check(&device, "", &settings);
        let failed: Vec<_> = reports.iter().filter(|report| report.failure.is_some()).collect();
        // One that failed has not given its memory back.
        assert!(failed.is_empty(), "{} of {}: {:?}", failed.len(), reports.len(), failed.first());
    };
    // Driver 580 takes 8 MiB of its own the first time; what kernels lacked would be far more.
    const DRIVERS_OWN_BYTES: u64 = 8 << 20;
    let opened = free_bytes(&*device);
    run();
    let before = free_bytes(&*device);
    assert!(opened.saturating_sub(before) <= DRIVERS_OWN_BYTES, "{opened} free, then {before}");
    run();
    settles_at(&*device, before);
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
    let ours = stream(&*first);
    let event = first.record(ours).expect("event");
    let mut staging = first.allocate_staging("first", StagingKind::Upload, 64).expect("staging");
    let theirs = stream(&*second);
    let view = whole(regions[1]);
    let target = view.slice(0, 64).expect("slice");
    for outcome in [
        second.query(&event).map(drop),
        second.wait(theirs, &event),
        second.upload(theirs, &mut *staging, 0, target),
        second.enqueue(ours, &Op::Fill(Fill::zero(view))),
        first.enqueue(ours, &Op::Fill(Fill::zero(view))),
        first.free(regions[1]),
    ] {
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
    }
    // One is lost, the other goes on.
    first_faults.lose();
    assert!(matches!(first.create_stream("late"), Err(Error::DeviceLost { .. })));
    fill_and_check(&*second, regions[1]);
}

/// What a lost device answers to everything.
fn all_lost(device: &dyn Device, stream: Stream, region: Region, what: impl FnOnce()) {
    let view = whole(region);
    let mut upload =
        device.allocate_staging("up", StagingKind::Upload, SIZE_BYTES).expect("staging");
    let mut download =
        device.allocate_staging("down", StagingKind::Download, SIZE_BYTES).expect("staging");
    device.upload(stream, &mut *upload, 0, view).expect("upload");
    device.enqueue(stream, &Op::Fill(Fill::new(view, 3))).expect("enqueue");
    device.download(stream, view, &mut *download, 0).expect("download");
    let event = device.record(stream).expect("event");
    what();
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
}

fn a_lost_device_says_so_everywhere_and_opens_again() {
    let (watcher, _) = open();
    let before = free_bytes(&*watcher);
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let stream = stream(&*device);
    // Work that has not run when the device goes.
    faults.hold(true).expect("held");
    all_lost(&*device, stream, region, || faults.lose());
    drop(device);
    settles_at(&*watcher, before);
    let (device, _) = open();
    fill_and_check(&*device, work(&*device, SIZE_BYTES));
}

/// The driver's own way of losing a device: it takes the whole process's contexts with it, so it
/// happens in a process of its own.
fn a_trap_loses_the_device_and_no_other_process() {
    let (device, _) = open();
    let region = work(&*device, SIZE_BYTES);
    let program = std::env::current_exe().expect("this program's path");
    let child = std::process::Command::new(program).env(TRAPPED, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    fill_and_check(&*device, region);
}

fn trap() {
    let (other, _) = open();
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

fn out_of_memory_is_told_and_passes() {
    let (device, faults) = open();
    let held = work(&*device, SIZE_BYTES);
    let refused = |size_bytes: u64| {
        let outcome = device.allocate("refused", MemoryClass::Resident, size_bytes);
        let Err(Error::OutOfMemory { what, requested_bytes, free_bytes }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((&*what, requested_bytes), ("refused", size_bytes));
        assert!(free_bytes.is_some());
        assert_eq!(device.memory().expect("memory").regions_bytes, SIZE_BYTES);
    };
    faults.fail_next_allocation();
    refused(1 << 20);
    // The driver's own refusal: the context alone takes some of the card.
    refused(device.info().max_region_bytes);
    fill_and_check(&*device, held);
    let region = device.allocate("granted", MemoryClass::Resident, 1 << 20).expect("now it fits");
    device.free(region).expect("free");
}

fn a_setting_bounds_the_regions() {
    let limit = 10 << 20;
    let (device, _) = open_with(CudaBackend::default().with_memory_bytes(limit));
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

fn waits_end_with_their_timeout_and_the_work_still_runs() {
    let (device, faults) = open();
    let view = whole(work(&*device, SIZE_BYTES));
    let stream = stream(&*device);
    let mut staging =
        device.allocate_staging("down", StagingKind::Download, SIZE_BYTES).expect("staging");
    faults.hold(true).expect("held");
    device.enqueue(stream, &Op::Fill(Fill::new(view, 9))).expect("enqueue");
    device.download(stream, view, &mut *staging, 0).expect("download");
    let event = device.record(stream).expect("event");
    let short = Duration::from_millis(20);
    assert_eq!(device.query(&event), Ok(false));
    for outcome in [device.synchronize(&event, short), staging.host(short).map(drop)] {
        assert!(matches!(outcome, Err(Error::Timeout { timeout_ms: 20, .. })), "{outcome:?}");
    }
    faults.hold(false).expect("let go");
    device.synchronize(&event, SOON).expect("done");
    assert_eq!(staging.host(SOON).expect("done"), 9u32.to_le_bytes().repeat(1 << 14));
    device.synchronize(&event, Duration::ZERO).expect("still done");
}

/// Operations that nobody waits for in between keep their order.
fn long_queues_keep_their_order() {
    let (device, _) = open();
    let (a, b) = (work(&*device, 4096), work(&*device, 4096));
    let (a_view, b_view) = (whole(a), whole(b));
    let stream = stream(&*device);
    let half = a_view.slice(0, 2048).expect("slice");
    let other = a_view.slice(2048, 2048).expect("slice");
    let source = b_view.slice(0, 2048).expect("slice");
    let copy = |from, to| Op::Copy(Copy::new(from, to).expect("op"));
    for word in 1..=3000 {
        device.enqueue(stream, &Op::Fill(Fill::new(a_view, word))).expect("enqueue");
        device.enqueue(stream, &copy(half, source)).expect("enqueue");
        if word % 2 == 0 {
            device.enqueue(stream, &Op::Fill(Fill::zero(a_view))).expect("enqueue");
            device.enqueue(stream, &copy(source, other)).expect("enqueue");
        }
    }
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("done");
    let mut expected = vec![0; 2048];
    expected.extend(3000u32.to_le_bytes().repeat(512));
    assert_eq!(bytes(&*device, a).expect("reads"), expected);
}

/// A device goes with work enqueued: the work ends first, and nothing hangs.
fn dropped_with_work_enqueued() {
    let (device, _) = open();
    let view = whole(work(&*device, 64 << 20));
    let stream = stream(&*device);
    let mut staging = device.allocate_staging("down", StagingKind::Download, 64).expect("staging");
    for word in 1..=50 {
        device.enqueue(stream, &Op::Fill(Fill::new(view, word))).expect("enqueue");
    }
    device.download(stream, view.slice(0, 64).expect("slice"), &mut *staging, 0).expect("copy");
    let event = device.record(stream).expect("event");
    drop(device);
    assert_eq!(staging.host(SOON).expect("it ran"), 50u32.to_le_bytes().repeat(16));
    drop(staging);
    drop(event);
}

/// What the driver refuses poisons its stream, with the operation's name; others go on.
fn a_refused_launch_is_a_failed_kernel() {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let view = whole(region);
    let sick = stream(&*device);
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
    let stream = stream(&*device);
    let dead = whole(Region::fresh(MemoryClass::Work, 64));
    let fr = FrView::new(dead).expect("aligned");
    let op = Op::Vector(op::Vector::add(fr, fr, fr).expect("op"));
    assert!(matches!(device.enqueue(stream, &op), Err(Error::InvalidArgument(_))));
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("well");
}

/// The scheduler does these under its locks: with work on the device that does not end, each comes
/// back.
fn nothing_enqueued_waits_for_the_device() {
    let (device, faults) = open();
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
    let (device, faults) = open();
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
    let (device, faults) = open();
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
    let (device, _) = open();
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
