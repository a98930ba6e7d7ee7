//! What the suite cannot see of a device: faults, two devices at once, long queues. For a backend's
//! own test target, beside what is its alone.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use libtest_mimic::Trial;
use twinlock_api::op::{Copy as CopyOp, Fill, Vector};
use twinlock_api::{
    Device, Error, Faults, FaultyBackend, FrView, MemoryClass, Op, OpenOptions, Region, Result,
    StagingKind, Stream, View,
};

use crate::harness::{first_device, on_first_device};

/// For what must come.
pub const SOON: Duration = Duration::from_secs(120);
/// A region that is large enough.
pub const SIZE_BYTES: u64 = 1 << 16;

/// An open device and its faults.
pub type Opened = (Arc<dyn Device>, Arc<dyn Faults>);

/// The scenes on the backend's first device, as trials.
pub fn scenes<B: FaultyBackend + Copy + 'static>(backend: B) -> Vec<Trial> {
    macro_rules! on_a_device {
        ($($test:ident),* $(,)?) => {
            vec![$(on_first_device(backend, stringify!($test), move |_| $test(&|| open(&backend)))),*]
        };
    }
    let mut scenes = on_a_device![
        two_devices_work_at_once_and_keep_apart,
        a_lost_device_says_so_everywhere_and_opens_again,
        out_of_memory_is_told_and_passes,
        waits_end_with_their_timeout_and_the_work_still_runs,
        dropped_with_work_enqueued,
        dropped_staging_does_not_wait,
        a_refused_operation_is_a_failed_kernel,
    ];
    scenes.push(Trial::test("unknown_names_are_told_the_known_ones", move || {
        unknown_names_are_told_the_known_ones(&backend);
        Ok(())
    }));
    scenes
}

/// The first device of a backend.
///
/// # Panics
/// Where there is none, or it does not open.
pub fn open(backend: &impl FaultyBackend) -> Opened {
    let name = first_device(backend).expect("it was there before");
    backend.open_faulty(&name).expect("it opens")
}

/// A region to work in.
///
/// # Panics
/// Where it has no place, as all of these.
pub fn work(device: &dyn Device, size_bytes: u64) -> Region {
    device.allocate("test", MemoryClass::Work, size_bytes).expect("memory")
}

/// A stream.
pub fn stream(device: &dyn Device) -> Stream {
    device.create_stream("test").expect("stream")
}

/// All of a region.
pub fn whole(region: Region) -> View {
    region.whole("view").expect("view")
}

/// Runs `f`, which must not wait for what is held.
///
/// # Panics
/// If it does, once the hold has ended.
pub fn without_waiting<T: Send>(
    faults: &dyn Faults,
    what: &str,
    f: impl FnOnce() -> T + Send,
) -> T {
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

/// What is in the region, through a stream of its own.
///
/// # Errors
/// What the device answers.
pub fn bytes(device: &dyn Device, region: Region) -> Result<Vec<u8>> {
    let stream = device.create_stream("read")?;
    let mut staging =
        device.allocate_staging("read", StagingKind::Download, region.size_bytes())?;
    device.download(stream, region.whole("read")?, &mut *staging, 0)?;
    let bytes = staging.host(SOON)?.to_vec();
    device.destroy_stream(stream)?;
    Ok(bytes)
}

/// Fills a region with a word, through a stream of its own.
///
/// # Errors
/// What the device answers.
pub fn fill(device: &dyn Device, region: Region, word: u32) -> Result<()> {
    let stream = device.create_stream("fill")?;
    device.enqueue(stream, &Op::Fill(Fill::new(region.whole("fill")?, word)))?;
    device.synchronize(&device.record(stream)?, SOON)?;
    device.destroy_stream(stream)
}

/// Fails unless a region is full of a word.
pub fn filled(device: &dyn Device, region: Region, word: u32) {
    let bytes = bytes(device, region).expect("reads");
    assert_eq!(bytes, word.to_le_bytes().repeat(region.size_bytes() as usize / 4));
}

/// Fails unless the device works.
pub fn fill_and_check(device: &dyn Device, region: Region) {
    fill(device, region, 0xdead_beef).expect("fills");
    filled(device, region, 0xdead_beef);
}

fn unknown_names_are_told_the_known_ones(backend: &impl FaultyBackend) {
    let [unknown, known] = [99, 0].map(|index| format!("{}:{index}", backend.name()));
    let error = backend.open(&unknown, &OpenOptions::default()).map(drop).expect_err("no such");
    if backend.discover().iter().any(|found| found.name == known) {
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains(&known), "{error}");
    } else {
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
}

fn two_devices_work_at_once_and_keep_apart(open: &dyn Fn() -> Opened) {
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

/// Fails unless everything is answered with the loss of the device, once `lose` has lost it with
/// work on `stream`.
pub fn all_lost(device: &dyn Device, stream: Stream, region: Region, lose: impl FnOnce()) {
    let view = whole(region);
    let mut upload =
        device.allocate_staging("up", StagingKind::Upload, SIZE_BYTES).expect("staging");
    let mut download =
        device.allocate_staging("down", StagingKind::Download, SIZE_BYTES).expect("staging");
    device.upload(stream, &mut *upload, 0, view).expect("upload");
    device.enqueue(stream, &Op::Fill(Fill::new(view, 3))).expect("enqueue");
    device.download(stream, view, &mut *download, 0).expect("download");
    let event = device.record(stream).expect("event");
    lose();
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

fn a_lost_device_says_so_everywhere_and_opens_again(open: &dyn Fn() -> Opened) {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let stream = stream(&*device);
    // Work that has not run when the device goes.
    faults.hold(true).expect("held");
    all_lost(&*device, stream, region, || faults.lose());
    drop(device);
    let (device, _) = open();
    fill_and_check(&*device, work(&*device, SIZE_BYTES));
}

/// Fails unless a region of so many bytes is refused, and nothing comes of it.
pub fn refused(device: &dyn Device, size_bytes: u64) {
    let before = device.memory().expect("memory").regions_bytes;
    let outcome = device.allocate("refused", MemoryClass::Resident, size_bytes);
    let Err(Error::OutOfMemory { what, requested_bytes, free_bytes }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((&*what, requested_bytes), ("refused", size_bytes));
    assert!(free_bytes.is_some());
    assert_eq!(device.memory().expect("memory").regions_bytes, before);
}

fn out_of_memory_is_told_and_passes(open: &dyn Fn() -> Opened) {
    let (device, faults) = open();
    let held = work(&*device, SIZE_BYTES);
    faults.fail_next_allocation();
    refused(&*device, 1 << 20);
    assert_eq!(device.memory().expect("memory").regions_bytes, SIZE_BYTES);
    fill_and_check(&*device, held);
    let region = device.allocate("granted", MemoryClass::Resident, 1 << 20).expect("now it fits");
    device.free(region).expect("free");
}

fn waits_end_with_their_timeout_and_the_work_still_runs(open: &dyn Fn() -> Opened) {
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

/// Operations that nobody waits for in between keep their order: `rounds` of them, an even number,
/// which run only when all are enqueued if `held`.
pub fn long_queues_keep_their_order((device, faults): Opened, rounds: u32, held: bool) {
    let (a, b) = (work(&*device, 4096), work(&*device, 4096));
    let (a_view, b_view) = (whole(a), whole(b));
    let stream = stream(&*device);
    let half = a_view.slice(0, 2048).expect("slice");
    let other = a_view.slice(2048, 2048).expect("slice");
    let source = b_view.slice(0, 2048).expect("slice");
    let enqueue = |op| device.enqueue(stream, &op).expect("enqueue");
    let copy = |from, to| Op::Copy(CopyOp::new(from, to).expect("op"));
    if held {
        faults.hold(true).expect("held");
    }
    for word in 1..=rounds {
        enqueue(Op::Fill(Fill::new(a_view, word)));
        enqueue(copy(half, source));
        if word % 2 == 0 {
            enqueue(Op::Fill(Fill::zero(a_view)));
            enqueue(copy(source, other));
        }
    }
    faults.hold(false).expect("let go");
    device.synchronize(&device.record(stream).expect("event"), SOON).expect("done");
    let mut expected = vec![0; 2048];
    expected.extend(rounds.to_le_bytes().repeat(512));
    assert_eq!(bytes(&*device, a).expect("reads"), expected);
}

/// Neither a buffer that was never used nor one whose copies have run: a device that hangs would keep
/// who lets go of it for ever.
fn dropped_staging_does_not_wait(open: &dyn Fn() -> Opened) {
    let (device, faults) = open();
    let region = work(&*device, SIZE_BYTES);
    let [held, free] = [stream(&*device), stream(&*device)];
    let [unused, mut used] = [StagingKind::Upload, StagingKind::Download]
        .map(|kind| device.allocate_staging("dropped", kind, 1 << 20).expect("staging"));
    device.enqueue(free, &Op::Fill(Fill::new(whole(region), 7))).expect("enqueue");
    device.download(free, whole(region), &mut *used, 0).expect("download");
    used.host(SOON).expect("done");
    faults.hold(true).expect("held");
    device.enqueue(held, &Op::Fill(Fill::new(whole(region), 1))).expect("enqueue");
    without_waiting(&*faults, "dropping staging", || drop([unused, used]));
    // As much can be had again, without what was in either.
    without_waiting(&*faults, "staging", || {
        for mut again in [(); 2].map(|()| {
            let kind = StagingKind::Download;
            device.allocate_staging("again", kind, 1 << 20).expect("staging")
        }) {
            assert!(again.host(SOON).expect("unused").iter().all(|byte| *byte == 0));
        }
    });
    without_waiting(&*faults, "memory", || device.memory().expect("memory"));
    faults.hold(false).expect("let go");
    fill_and_check(&*device, region);
}

/// A device goes with work enqueued: the work ends first, and nothing hangs.
fn dropped_with_work_enqueued(open: &dyn Fn() -> Opened) {
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
fn a_refused_operation_is_a_failed_kernel(open: &dyn Fn() -> Opened) {
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
    let well = stream(&*device);
    let dead = whole(Region::fresh(MemoryClass::Work, 64));
    let fr = FrView::new(dead).expect("aligned");
    let op = Op::Vector(Vector::add(fr, fr, fr).expect("op"));
    assert!(matches!(device.enqueue(well, &op), Err(Error::InvalidArgument(_))));
    device.synchronize(&device.record(well).expect("event"), SOON).expect("well");
}
