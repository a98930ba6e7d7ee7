//! How long each kernel runs on the device, for whoever tunes it: `TWINLOCK_WGSL_PROFILE=1`. Every
//! dispatch then has a pass of its own between two timestamps, which costs a little time itself.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::KernelTime;
use twinlock_api::kernel_time::KernelSpans;

use crate::gpu::Gpu;
use crate::timeline::MAX_DISPATCHES;

const TIMESTAMP_BYTES: u64 = 8;
const QUERIES: u32 = 2 * MAX_DISPATCHES;

#[derive(Default)]
struct Total {
    dispatches: u64,
    ns: f64,
    longest_ns: f64,
}

/// A device's kernels and their times so far.
pub(crate) struct Profile {
    tick_ns: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    totals: BTreeMap<&'static str, Total>,
    spans: KernelSpans,
}

/// The timestamps of one part.
pub(crate) struct PartProfile {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readback: wgpu::Buffer,
    kernels: Vec<&'static str>,
}

impl PartProfile {
    pub(crate) fn new(device: &wgpu::Device) -> Self {
        use wgpu::BufferUsages;
        let buffer = |label, usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size: TIMESTAMP_BYTES * u64::from(QUERIES),
                usage,
                mapped_at_creation: false,
            })
        };
        Self {
            queries: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: QUERIES,
            }),
            resolved: buffer("timestamps", BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            readback: buffer("profile", BufferUsages::MAP_READ | BufferUsages::COPY_DST),
            kernels: Vec::new(),
        }
    }

    /// Where the pass of one more dispatch, of `kernel`, writes its times.
    pub(crate) fn next(&mut self, kernel: &'static str) -> wgpu::ComputePassTimestampWrites<'_> {
        let at = 2 * self.kernels.len() as u32;
        self.kernels.push(kernel);
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    pub(crate) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        let queries = 2 * self.kernels.len() as u32;
        if queries > 0 {
            encoder.resolve_query_set(&self.queries, 0..queries, &self.resolved, 0);
            let len_bytes = TIMESTAMP_BYTES * u64::from(queries);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, len_bytes);
        }
    }
}

impl Profile {
    pub(crate) fn new(queue: &wgpu::Queue) -> Self {
        let tick_ns = f64::from(queue.get_timestamp_period());
        Self { tick_ns, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What ran since the last call. Copies and fills by the driver are not in it.
    pub(crate) fn kernel_time(&self) -> Option<KernelTime> {
        self.state().spans.take()
    }

    /// Adds the times of a part that has run.
    pub(crate) fn collect(&self, gpu: &Gpu, part: &PartProfile) {
        let (sender, receiver) = channel();
        part.readback.map_async(wgpu::MapMode::Read, .., move |outcome| {
            let _ = sender.send(outcome);
        });
        let poll = wgpu::PollType::Wait {
            submission_index: None,
            timeout: Some(Duration::from_millis(1)),
        };
        // The copy has run, so that one look is enough; whether others have not does not matter.
        let _ = gpu.poll(poll);
        if !matches!(receiver.try_recv(), Ok(Ok(()))) {
            self.state().spans.spoil();
            return;
        }
        let Ok(view) = part.readback.get_mapped_range(..) else {
            self.state().spans.spoil();
            return;
        };
        let ticks: Vec<u64> =
            view.chunks_exact(TIMESTAMP_BYTES as usize).map(bytemuck::pod_read_unaligned).collect();
        let State { totals, spans } = &mut *self.state();
        for (kernel, ticks) in part.kernels.iter().zip(ticks.chunks_exact(2)) {
            let ns = ticks[1].saturating_sub(ticks[0]) as f64 * self.tick_ns;
            let total = totals.entry(kernel).or_default();
            total.dispatches += 1;
            total.ns += ns;
            total.longest_ns = total.longest_ns.max(ns);
            let [start_ns, end_ns] =
                [ticks[0], ticks[1]].map(|at| (at as f64 * self.tick_ns) as u64);
            spans.add(start_ns, end_ns);
        }
    }

    /// Logs the times, the longest first.
    pub(crate) fn report(&self) {
        let state = self.state();
        let mut kernels: Vec<_> = state.totals.iter().collect();
        kernels.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns));
        for (kernel, total) in kernels {
            tracing::info!(
                kernel,
                dispatches = total.dispatches,
                ms = format!("{:.3}", total.ns / 1e6),
                longest_ms = format!("{:.3}", total.longest_ns / 1e6),
                "time on the device"
            );
        }
    }
}
