//! The first design: one lock around the driver's allocator, the upload and a synchronisation of
//! the whole device; one around kernels.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::{Direction, Ntt, Order};
use twinlock_api::{Device, FrView, MemoryClass, Op, Result, StagingKind, Stream};

use super::{LockPlan, Seen};

/// Transforms between two waits, so that a driver's queue does not fill up.
const BATCH: u32 = 64;

/// What the workers share.
struct Shared<'a> {
    plan: &'a LockPlan,
    device: &'a dyn Device,
    start: Instant,
    /// Every worker's stream: the device is synchronised by waiting for all of them.
    streams: Vec<Stream>,
    mem: Mutex<()>,
    compute: Mutex<()>,
    next: AtomicUsize,
    seen: Mutex<Seen>,
}

/// Runs as many partitions, each with `held_bytes` of device memory and transforms for as long as
/// `compute`.
pub(super) fn run(
    plan: &LockPlan,
    device: &Arc<dyn Device>,
    compute: Duration,
    held_bytes: u64,
) -> Result<Seen> {
    let streams = (0..plan.workers.max(1))
        .map(|_| device.create_stream("naive"))
        .collect::<Result<Vec<_>>>()?;
    let shared = Shared {
        plan,
        device: &**device,
        start: Instant::now(),
        streams,
        mem: Mutex::default(),
        compute: Mutex::default(),
        next: AtomicUsize::new(0),
        seen: Mutex::default(),
    };
    let outcome = std::thread::scope(|scope| {
        let shared = &shared;
        let workers: Vec<_> = (0..shared.streams.len())
            .map(|worker| scope.spawn(move || shared.work(worker, compute, held_bytes)))
            .collect();
        // All are waited for before the first failure is told.
        let ends: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ends.into_iter().collect::<Result<Vec<()>>>()
    });
    for stream in &shared.streams {
        device.destroy_stream(*stream)?;
    }
    outcome?;
    Ok(shared.seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Shared<'_> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// What `cudaDeviceSynchronize` does.
    fn synchronize_device(&self) -> Result<()> {
        let events = self.streams.iter().map(|stream| self.device.record(*stream));
        let events = events.collect::<Result<Vec<_>>>()?;
        events.iter().try_for_each(|event| self.device.synchronize(event, self.plan.timeout))
    }

    fn under_mem<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let guard = self.mem.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        let outcome = f();
        let held = since.elapsed();
        drop(guard);
        self.note(|seen| seen.holds.push(held));
        outcome
    }

    fn note(&self, f: impl FnOnce(&mut Seen)) {
        f(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn work(&self, worker: usize, compute: Duration, held_bytes: u64) -> Result<()> {
        let Some(stream) = self.streams.get(worker).copied() else { return Ok(()) };
        let device = self.device;
        let layout = device.ntt_layout(self.plan.lg)?;
        let vector_bytes = FR_BYTES << self.plan.lg;
        let mut staging =
            device.allocate_staging("naive", StagingKind::Upload, device.staging_slot_bytes())?;
        let region_bytes = held_bytes.max(vector_bytes);
        while self.next.fetch_add(1, Ordering::Relaxed) < self.plan.partitions {
            let staging_since = self.now();
            let (region, workspace) = self.under_mem(|| {
                self.synchronize_device()?;
                let region = device.allocate("naive", MemoryClass::Work, region_bytes)?;
                let workspace = device.allocate(
                    "naive workspace",
                    MemoryClass::Work,
                    layout.workspace_bytes.max(1).next_multiple_of(4),
                )?;
                let mut offset = 0;
                while offset < vector_bytes {
                    let len = staging.size_bytes().min(vector_bytes - offset);
                    staging.host(self.plan.timeout)?;
                    let target = region.view("naive", offset, len)?;
                    device.upload(stream, &mut *staging, 0, target)?;
                    offset += len;
                }
                self.synchronize_device()?;
                Ok((region, workspace))
            })?;
            self.note(|seen| seen.staging.push((worker, (staging_since, self.now()))));
            {
                let _compute = self.compute.lock().unwrap_or_else(PoisonError::into_inner);
                let since = self.now();
                let data = FrView::new(region.view("naive", 0, vector_bytes)?)?;
                let orders = (Order::Natural, Order::BitReversed);
                let scratch = workspace.view("naive workspace", 0, layout.workspace_bytes)?;
                let ntt = Ntt::new(&layout, data, Direction::Forward, false, orders, scratch)?;
                let op = Op::Ntt(ntt);
                while self.now().saturating_sub(since) < compute {
                    for _ in 0..BATCH {
                        device.enqueue(stream, &op)?;
                        if self.plan.lg > 16 {
                            break;
                        }
                    }
                    device.synchronize(&device.record(stream)?, self.plan.timeout)?;
                }
                self.note(|seen| seen.computing.push((worker, (since, self.now()))));
            }
            self.under_mem(|| {
                self.synchronize_device()?;
                device.free(region)?;
                device.free(workspace)
            })?;
        }
        Ok(())
    }
}
