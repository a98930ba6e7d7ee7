//! Regions: one buffer each, or several where one would be too long.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Error, MemoryClass, MemoryInfo, Region, Result, StagingKind, View};

use crate::budget;
use crate::chunks::Buffers;
use crate::gpu::{Gpu, Scopes, words};
#[cfg(not(target_vendor = "apple"))]
use crate::host_memory;

/// How long an allocation waits for work that may hold memory which has been freed.
const RECLAIM_WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    buffers: HashMap<Region, Buffers>,
    bytes: u64,
}

/// A device's regions.
pub(crate) struct Regions {
    state: Mutex<State>,
    /// The most bytes that are used, if somebody set that.
    setting_bytes: Option<u64>,
}

impl Regions {
    pub(crate) fn new(setting_bytes: Option<u64>) -> Self {
        Self { state: Mutex::default(), setting_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffers that `views` lie in.
    pub(crate) fn resolve(&self, views: &[View], device: &str) -> Result<Vec<(Region, Buffers)>> {
        let state = self.state();
        let mut found: Vec<(Region, Buffers)> = Vec::new();
        for view in views {
            let region = view.region();
            let buffers = state.buffers.get(&region).ok_or_else(|| {
                Error::invalid(format!("{}: its region is not alive on {device}", view.name()))
            })?;
            if found.iter().all(|(known, _)| *known != region) {
                found.push((region, buffers.clone()));
            }
        }
        Ok(found)
    }

    fn memory_with(&self, gpu: &Gpu, regions_bytes: u64) -> MemoryInfo {
        let total_bytes = gpu.info.memory_bytes;
        let mut free_bytes = total_bytes.saturating_sub(regions_bytes);
        // The driver's number has what wgpu and the driver hold for themselves in it already; a
        // setting has not.
        if self.setting_bytes.is_some() {
            free_bytes = free_bytes.saturating_sub(gpu.overhead_bytes);
        }
        if let Some(budget) = budget::of_adapter(&gpu.adapter) {
            free_bytes = match self.setting_bytes {
                Some(_) => free_bytes.min(budget.free_bytes),
                None => budget.free_bytes.min(total_bytes),
            };
        }
        MemoryInfo { free_bytes, total_bytes, regions_bytes }
    }

    /// What there is and what is held.
    pub(crate) fn memory(&self, gpu: &Gpu) -> MemoryInfo {
        let regions_bytes = self.state().bytes;
        self.memory_with(gpu, regions_bytes)
    }

    pub(crate) fn allocate(
        &self,
        gpu: &Gpu,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
    ) -> Result<Region> {
        let limit = gpu.info.max_region_bytes;
        if size_bytes > limit {
            let what = format!("{name} (bytes)");
            return Err(Error::ExceedsLimit { what, requested: size_bytes, limit });
        }
        if size_bytes == 0 {
            return Err(Error::invalid(format!("{name}: a region of 0 bytes")));
        }
        // Counted before it is asked for, so that two at once do not both take the last room.
        let memory = {
            let mut state = self.state();
            let memory = self.memory_with(gpu, state.bytes);
            if size_bytes > memory.free_bytes {
                return Err(out_of_memory(name, size_bytes, Some(memory.free_bytes)));
            }
            state.bytes += size_bytes;
            memory
        };
        match Self::buffers(gpu, name, class, size_bytes, memory.free_bytes) {
            Ok(buffers) => {
                let region = Region::fresh(class, size_bytes);
                self.state().buffers.insert(region, buffers);
                Ok(region)
            }
            Err(error) => {
                self.state().bytes -= size_bytes;
                Err(error)
            }
        }
    }

    fn buffers(
        gpu: &Gpu,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
        free_bytes: u64,
    ) -> Result<Buffers> {
        use wgpu::BufferUsages;
        // Both are copied to and from, and bound read-write.
        let usage = match class {
            MemoryClass::Resident | MemoryClass::Work => {
                BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC
            }
        };
        // Whole array elements can be bound wherever a view ends.
        let padded_bytes = size_bytes.next_multiple_of(ARENA_ALIGN_BYTES);
        let each_bytes = gpu.chunks.buffer_bytes;
        let make_all = || {
            let starts =
                (0..padded_bytes).step_by(usize::try_from(each_bytes).unwrap_or(usize::MAX));
            let buffers = starts.map(|start| {
                let size = each_bytes.min(padded_bytes - start);
                let label = Some(name);
                make(gpu, &wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })
            });
            buffers.collect::<Result<Vec<_>>>().map(|made| Buffers::new(made, each_bytes))
        };
        let again = || {
            // Regions that were freed live on until the work that used them has run.
            gpu.timeline.wait_for_all(RECLAIM_WAIT).ok()?;
            gpu.poll(wgpu::PollType::Poll).ok()
        };
        if gpu.faults.take_allocation() {
            return Err(out_of_memory(name, size_bytes, Some(free_bytes)));
        }
        match make_all() {
            Err(Error::OutOfMemory { .. }) if again().is_some() => make_all(),
            outcome => outcome,
        }
    }

    pub(crate) fn free(&self, region: Region, device: &str) -> Result<()> {
        let mut state = self.state();
        let buffers = state.buffers.remove(&region).ok_or_else(|| {
            Error::invalid(format!("region {} is not alive on {device}", region.id()))
        })?;
        state.bytes -= region.size_bytes();
        drop(state);
        // Work that uses the buffers holds them too.
        drop(buffers);
        Ok(())
    }

    /// A staging buffer.
    pub(crate) fn staging_buffer(
        gpu: &Gpu,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<StagingBuffer> {
        use wgpu::BufferUsages;
        let limit = gpu.limits.max_buffer_size / 8 * 8;
        let fits = size_bytes <= limit && usize::try_from(size_bytes).is_ok();
        if !fits {
            let what = format!("{name} (bytes)");
            return Err(Error::ExceedsLimit { what, requested: size_bytes, limit });
        }
        let size = size_bytes.next_multiple_of(8).max(8);
        let upload = kind == StagingKind::Upload;
        #[cfg(not(target_vendor = "apple"))]
        if upload && !gpu.portable {
            let scopes = Scopes::push(&gpu.device);
            let made = host_memory::upload_buffer(&gpu.device, name, size);
            let refused = scopes.pop();
            gpu.timeline.check_alive()?;
            match (made, refused) {
                (None, _) => {}
                (Some(made), None) => {
                    return made.map(|(buffer, memory)| StagingBuffer::Own(buffer, memory));
                }
                (Some(_), Some(error)) => return Err(refusal(gpu, name, size, &error)),
            }
        }
        let usage = match kind {
            StagingKind::Upload => BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
            StagingKind::Download => BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        };
        let descriptor =
            wgpu::BufferDescriptor { label: Some(name), size, usage, mapped_at_creation: upload };
        make(gpu, &descriptor).map(StagingBuffer::Mapped)
    }
}

/// What a staging buffer is made of.
pub(crate) enum StagingBuffer {
    /// One that wgpu maps; mapped if it is for uploads.
    Mapped(wgpu::Buffer),
    /// One that stays mapped.
    #[cfg(not(target_vendor = "apple"))]
    Own(wgpu::Buffer, std::sync::Arc<host_memory::HostMemory>),
}

fn make(gpu: &Gpu, descriptor: &wgpu::BufferDescriptor<'_>) -> Result<wgpu::Buffer> {
    let scopes = Scopes::push(&gpu.device);
    let buffer = gpu.device.create_buffer(descriptor);
    let outcome = scopes.pop();
    gpu.timeline.check_alive()?;
    let name = descriptor.label.unwrap_or_default();
    outcome.map_or(Ok(buffer), |error| Err(refusal(gpu, name, descriptor.size, &error)))
}

fn refusal(gpu: &Gpu, name: &str, size_bytes: u64, error: &wgpu::Error) -> Error {
    if matches!(error, wgpu::Error::OutOfMemory { .. }) {
        let free = budget::of_adapter(&gpu.adapter).map(|budget| budget.free_bytes);
        return out_of_memory(name, size_bytes, free);
    }
    let reason = format!("{name} of {size_bytes} bytes: {}", words(error));
    Error::KernelFailed { name: "allocate", reason }
}

fn out_of_memory(what: &str, requested_bytes: u64, free_bytes: Option<u64>) -> Error {
    Error::OutOfMemory { what: what.to_owned(), requested_bytes, free_bytes }
}
