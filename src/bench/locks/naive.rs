//! The first design: one lock around the driver's allocator, the upload and a synchronisation of
//! the whole device; one around kernels.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::{Direction, Ntt, Order};
use twinlock_api::{
    Device, Error, FrView, MemoryClass, Op, Region, Result, Staging, StagingKind, Stream,
};

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
        let device = self.device;
        let vector_bytes = FR_BYTES << self.plan.lg;
        let mut staging =
            device.allocate_staging("naive", StagingKind::Upload, device.staging_slot_bytes())?;
        let region_bytes = held_bytes.max(vector_bytes);
        while self.next.fetch_add(1, Ordering::Relaxed) < self.plan.partitions {
            let mut held = Vec::new();
            let proved = self.partition(worker, &mut *staging, (region_bytes, compute), &mut held);
            // After a failure too.
            let freed = self.under_mem(|| {
                self.synchronize_device()?;
                held.into_iter().try_for_each(|region| device.free(region))
            });
            proved.and(freed)?;
        }
        Ok(())
    }

    /// Stages and computes one partition; what it takes from the driver is `held`.
    fn partition(
        &self,
        worker: usize,
        staging: &mut dyn Staging,
        (region_bytes, compute): (u64, Duration),
        held: &mut Vec<Region>,
    ) -> Result<()> {
        let Some(stream) = self.streams.get(worker).copied() else { return Ok(()) };
        let device = self.device;
        let layout = device.ntt_layout(self.plan.lg)?;
        let vector_bytes = FR_BYTES << self.plan.lg;
        let since = self.now();
        let (region, workspace) = self.under_mem(|| {
            self.synchronize_device()?;
            let mut take = |name, bytes| {
                let region = device.allocate(name, MemoryClass::Work, bytes)?;
                held.push(region);
                Ok::<Region, Error>(region)
            };
            let region = take("naive", region_bytes)?;
            let workspace_bytes = layout.workspace_bytes.max(1).next_multiple_of(4);
            let workspace = take("naive workspace", workspace_bytes)?;
            let mut offset = 0;
            while offset < vector_bytes {
                let len = staging.size_bytes().min(vector_bytes - offset);
                staging.host(self.plan.timeout)?;
                device.upload(stream, staging, 0, region.view("naive", offset, len)?)?;
                offset += len;
            }
            self.synchronize_device()?;
            Ok((region, workspace))
        })?;
        self.note(|seen| seen.spans.staging.push((worker, (since, self.now()))));

        let _compute = self.compute.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.now();
        let data = FrView::new(region.view("naive", 0, vector_bytes)?)?;
        let orders = (Order::Natural, Order::BitReversed);
        let scratch = workspace.view("naive workspace", 0, layout.workspace_bytes)?;
        let op = Op::Ntt(Ntt::new(&layout, data, Direction::Forward, false, orders, scratch)?);
        while self.now().saturating_sub(since) < compute {
            for _ in 0..BATCH {
                device.enqueue(stream, &op)?;
                if self.plan.lg > 16 {
                    break;
                }
            }
            device.synchronize(&device.record(stream)?, self.plan.timeout)?;
        }
        self.note(|seen| seen.spans.compute.push((worker, (since, self.now()))));
        Ok(())
    }
}
