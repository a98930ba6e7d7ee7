//! Why two locks alone are not enough, in miniature: three workers of 12 GiB on a 16 GiB card, with
//! a device-wide synchronise and the driver's allocator inside `mem`. The lock `mem` is meant to let
//! one worker upload while another computes. It does not; and a worker that found no room, and
//! falls back to allocating under `compute`, runs out of memory.
//!
//! The workers are simulated in one thread: each has a time at which it goes on, or waits for a
//! lock; the clock moves to the earliest.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use support::*;
use twinlock_api::op::Fill;
use twinlock_api::{Device, Error, Event, MemoryClass, Op, Region, Staging, StagingKind, Stream};
use twinlock_sim::{KernelCost, Lane, SimConfig, SimDevice, enter_mem};

/// What a partition holds on the device, and its kernels' time.
const PARTITION_BYTES: u64 = 12 * GIB;
const COMPUTE: Duration = Duration::from_millis(1_800);
/// The CPU's work between two partitions of one worker.
const ASSEMBLE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Mem,
    Compute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    WantMem,
    /// Holds `mem`; the device is being synchronised.
    Synchronising,
    Uploading,
    WantCompute,
    Computing,
    Ended,
}

struct Worker {
    step: Step,
    wakes: Option<Duration>,
    stream: Stream,
    staging: Box<dyn Staging>,
    region: Option<Region>,
    event: Option<Event>,
    left: u32,
    outcomes: Vec<Result<(), Error>>,
    /// Partitions that found no room to be staged ahead.
    skipped: u32,
    /// From when to when it held `mem`.
    mem_held: Vec<(Duration, Duration)>,
}

struct Naive {
    device: Arc<SimDevice>,
    workers: Vec<Worker>,
    /// Who holds each lock (first), and who waits for it.
    mem: VecDeque<usize>,
    compute: VecDeque<usize>,
}

impl Naive {
    fn new(workers: usize, partitions: u32) -> Self {
        let config = SimConfig {
            kernel_cost: KernelCost::new(|_| COMPUTE),
            ..SimConfig::new("sim:0", 16 * GIB)
        };
        let device = open(config);
        let workers = (0..workers).map(|_| Worker {
            step: Step::WantMem,
            wakes: None,
            stream: device.create_stream("worker").unwrap(),
            staging: device.allocate_staging("s", StagingKind::Upload, PARTITION_BYTES).unwrap(),
            region: None,
            event: None,
            left: partitions,
            outcomes: Vec::new(),
            skipped: 0,
            mem_held: Vec::new(),
        });
        let workers: Vec<_> = workers.collect();
        Self { device, workers, mem: VecDeque::new(), compute: VecDeque::new() }
    }

    fn queue(&mut self, lock: Lock) -> &mut VecDeque<usize> {
        match lock {
            Lock::Mem => &mut self.mem,
            Lock::Compute => &mut self.compute,
        }
    }

    fn ask(&mut self, lock: Lock, worker: usize) {
        let at = now(&self.device);
        let queue = self.queue(lock);
        queue.push_back(worker);
        let is_first = queue.len() == 1;
        self.workers[worker].wakes = is_first.then_some(at);
    }

    fn release(&mut self, lock: Lock) {
        let at = now(&self.device);
        let queue = self.queue(lock);
        queue.pop_front();
        if let Some(next) = queue.front().copied() {
            self.workers[next].wakes = Some(at);
        }
    }

    fn release_mem(&mut self, worker: usize) {
        let at = now(&self.device);
        if let Some(held) = self.workers[worker].mem_held.last_mut() {
            held.1 = at;
        }
        self.release(Lock::Mem);
    }

    fn run(&mut self) {
        for worker in 0..self.workers.len() {
            self.ask(Lock::Mem, worker);
        }
        loop {
            let times = self.workers.iter().enumerate();
            let next = times.filter_map(|(at, worker)| Some((worker.wakes?, at))).min();
            let Some((time, worker)) = next else { return };
            self.device.card().clock().advance_to(time);
            self.workers[worker].wakes = None;
            self.go_on(worker);
        }
    }

    fn go_on(&mut self, at: usize) {
        let device = self.device.clone();
        match self.workers[at].step {
            Step::WantMem => {
                let held_from = now(&device);
                self.workers[at].mem_held.push((held_from, held_from));
                self.workers[at].step = Step::Synchronising;
                self.workers[at].wakes = Some(held_from.max(device.idle_time().unwrap()));
            }
            Step::Synchronising => {
                let idle_at = device.idle_time().unwrap();
                if idle_at > now(&device) {
                    // More was enqueued meanwhile: it waits for that, too.
                    self.workers[at].wakes = Some(idle_at);
                    return;
                }
                let mem = enter_mem();
                device.device_synchronize(FOREVER).unwrap();
                if free_bytes(&device) >= PARTITION_BYTES {
                    let region = device.allocate("partition", MemoryClass::Work, PARTITION_BYTES);
                    drop(mem);
                    self.upload(at, region.unwrap());
                    let worker = &mut self.workers[at];
                    worker.step = Step::Uploading;
                    let uploaded = worker.event.as_ref().unwrap();
                    worker.wakes = Some(device.completion_time(uploaded).unwrap());
                } else {
                    drop(mem);
                    self.workers[at].skipped += 1;
                    self.workers[at].step = Step::WantCompute;
                    self.release_mem(at);
                    self.ask(Lock::Compute, at);
                }
            }
            Step::Uploading => {
                assert!(device.query(self.workers[at].event.as_ref().unwrap()).unwrap());
                self.workers[at].step = Step::WantCompute;
                self.release_mem(at);
                self.ask(Lock::Compute, at);
            }
            Step::WantCompute => {
                if self.workers[at].region.is_none() {
                    // The fallback: stage now, under `compute`.
                    match device.allocate("partition", MemoryClass::Work, PARTITION_BYTES) {
                        Ok(region) => self.upload(at, region),
                        Err(error) => {
                            self.workers[at].outcomes.push(Err(error));
                            self.release(Lock::Compute);
                            return self.next_partition(at);
                        }
                    }
                }
                let worker = &mut self.workers[at];
                let view = worker.region.unwrap().whole("partition").unwrap();
                device.enqueue(worker.stream, &Op::Fill(Fill::zero(view))).unwrap();
                let event = device.record(worker.stream).unwrap();
                worker.wakes = Some(device.completion_time(&event).unwrap());
                worker.event = Some(event);
                worker.step = Step::Computing;
            }
            Step::Computing => {
                let worker = &mut self.workers[at];
                device.synchronize(worker.event.as_ref().unwrap(), s(0)).unwrap();
                device.free(worker.region.take().unwrap()).unwrap();
                worker.outcomes.push(Ok(()));
                self.release(Lock::Compute);
                self.next_partition(at);
            }
            Step::Ended => {
                self.workers[at].step = Step::WantMem;
                self.ask(Lock::Mem, at);
            }
        }
    }

    fn upload(&mut self, at: usize, region: Region) {
        let worker = &mut self.workers[at];
        let view = region.whole("partition").unwrap();
        self.device.upload(worker.stream, worker.staging.as_mut(), 0, view).unwrap();
        worker.event = Some(self.device.record(worker.stream).unwrap());
        worker.region = Some(region);
    }

    fn next_partition(&mut self, at: usize) {
        let end = now(&self.device);
        let worker = &mut self.workers[at];
        worker.left -= 1;
        worker.step = Step::Ended;
        worker.wakes = (worker.left > 0).then_some(end + ASSEMBLE);
    }
}

#[test]
fn two_locks_serialise_and_the_fallback_runs_out_of_memory() {
    let mut naive = Naive::new(3, 3);
    naive.run();
    let log = naive.device.card().log();

    // The locks serialise: though `mem` is not `compute`, no upload ran beside a kernel, and
    let lane = |lane| move |span: &twinlock_sim::Span| span.lane == lane;
    let overlap = log.overlap_of(lane(Lane::Upload), lane(Lane::Compute));
    assert_eq!(overlap, Duration::ZERO);
    let busy = log.busy(Lane::Compute, s(0), FOREVER);
    assert!(busy >= COMPUTE * 3, "there were kernels to overlap with: {busy:?}");
    // a worker with nothing to do but look for room held `mem` through another's kernels.
    let held_longest = naive.workers.iter().flat_map(|worker| &worker.mem_held);
    let held_longest = held_longest.map(|(from, to)| *to - *from).max().unwrap();
    assert!(held_longest > COMPUTE, "held {held_longest:?}");

    // The fallback runs out of memory: some worker that had skipped staging met one that had not.
    let outcomes: Vec<_> = naive.workers.iter().flat_map(|worker| &worker.outcomes).collect();
    assert_eq!(outcomes.len(), 9);
    let failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(!failures.is_empty());
    for failure in failures {
        let Error::OutOfMemory { requested_bytes, free_bytes: Some(free), .. } = failure else {
            panic!("{failure}");
        };
        assert!(*requested_bytes == PARTITION_BYTES && *free < 4 * GIB, "{failure}");
    }
    assert!(naive.workers.iter().map(|worker| worker.skipped).sum::<u32>() > 0);

    // And the device saw the rule broken.
    let violations = naive.device.card().violations();
    for call in ["device_synchronize", "allocate"] {
        assert!(violations.iter().any(|violation| violation.call == call), "{call}");
    }
    assert!(naive.device.card().races().is_empty());
}

/// With room for all and one lock's worth of waiting taken away by hand, the same card overlaps: what
/// serialises above is the protocol, not the simulation.
#[test]
fn without_the_synchronise_the_same_card_overlaps() {
    let config = SimConfig {
        kernel_cost: KernelCost::new(|_| COMPUTE),
        ..SimConfig::new("sim:0", 48 * GIB)
    };
    let device = open(config);
    let regions = [(); 2].map(|()| region(&device, PARTITION_BYTES).unwrap());
    let streams = [(); 2].map(|()| device.create_stream("worker").unwrap());
    let mut staging = device.allocate_staging("s", StagingKind::Upload, PARTITION_BYTES).unwrap();
    {
        let _mem = enter_mem();
        for (region, stream) in regions.into_iter().zip(streams) {
            let view = region.whole("partition").unwrap();
            device.upload(stream, staging.as_mut(), 0, view).unwrap();
            device.enqueue(stream, &Op::Fill(Fill::zero(view))).unwrap();
        }
    }
    device.device_synchronize(FOREVER).unwrap();
    let overlap = device.card().log().overlap(streams[0], streams[1]);
    let upload_time = PARTITION_BYTES as f64 / 55.3e9;
    assert!((overlap.as_secs_f64() - upload_time).abs() < 1e-3, "{overlap:?}");
    assert!(device.card().violations().is_empty());
}
