//! What the suite cannot see: the scenes that all backends share, and how this one bounds its memory
//! and loses a device at work.

use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use twinlock_api::op::{Copy, Fill};
use twinlock_api::{Error, KernelTime, MemoryClass, Op};
use twinlock_conformance::on_first_device;
use twinlock_conformance::scenes::{
    Opened, SIZE_BYTES, SOON, bytes, fill, fill_and_check, long_queues_keep_their_order, open,
    scenes, work,
};
use twinlock_wgsl::{Steps, WgslBackend};

fn opened() -> Opened {
    open(&WgslBackend::default())
}

fn main() {
    macro_rules! on_a_device {
        ($($test:ident),* $(,)?) => {
            vec![$(on_first_device(WgslBackend::default(), stringify!($test), |_| $test())),*]
        };
    }
    let mut tests = scenes(WgslBackend::default());
    tests.extend(on_a_device![
        a_device_lost_at_work_ends_every_wait,
        a_setting_bounds_the_regions,
        thousands_of_operations_may_wait,
        fills_and_copies_in_steps,
        kernels_are_timed_where_that_is_asked_for,
    ]);
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}

/// Lost with work on the device rather than before it.
fn a_device_lost_at_work_ends_every_wait() {
    let (device, faults) = opened();
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
    let start = Instant::now();
    while after.is_ok() && start.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
        faults.lose();
        after = device.create_stream("late").map(drop);
    }
    assert!(matches!(after, Err(Error::DeviceLost { .. })), "{after:?}");
}

fn a_setting_bounds_the_regions() {
    // Opening a GPU takes memory too.
    let software = opened().0.info().model.contains("software");
    let limit = if software { 10 << 20 } else { 1 << 30 };
    let (device, _) = open(&WgslBackend::default().with_memory_bytes(limit));
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

/// Nothing blocks, whatever is enqueued behind work that does not run.
fn thousands_of_operations_may_wait() {
    long_queues_keep_their_order(opened(), 1500, true);
}

/// What takes several dispatches, the last a short one.
fn fills_and_copies_in_steps() {
    let steps = Steps { bytes: 4096, ..Steps::default() };
    let (device, _) = open(&WgslBackend::default().with_steps(steps));
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

fn kernels_are_timed_where_that_is_asked_for() {
    let (device, _) = opened();
    fill(&*device, work(&*device, SIZE_BYTES), 7).expect("fills");
    assert_eq!(device.kernel_time(), None);

    let (device, _) = open(&WgslBackend::default().profiled());
    // What opening it took.
    device.kernel_time().expect("it is told");
    let region = work(&*device, SIZE_BYTES);
    for word in 7..12 {
        fill(&*device, region, word).expect("fills");
    }
    let time = device.kernel_time().expect("it is told");
    assert_eq!(time.count, 5, "{time:?}");
    assert!(time.busy <= time.span, "{time:?}");
    assert_eq!(device.kernel_time(), Some(KernelTime::default()), "each is told once");
}
