//! The device: handles, streams, and what they are checked against.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUstream};
use twinlock_api::device::check_copy;
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error, Event, Group, KernelTime, MemoryClass, MemoryInfo, Op, Region,
    Result, Staging, StagingKind, Stream, View,
};

use crate::driver::check;
use crate::events::PooledEvent;
use crate::gpu::Gpu;
use crate::launcher::Launcher;
use crate::ops;
use crate::staging::CudaStaging;
use crate::streams::{StreamSlot, StreamState};

/// The longest wait for a device that is let go of; one that takes longer hangs.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// A copy of this size takes some 300 us on a link of 55 GB/s, which hides its launch, and the wake-up
/// of the threads that fill a slot.
const STAGING_SLOT_BYTES: u64 = 16 << 20;

/// A device's event.
struct CudaEvent {
    gpu: Arc<Gpu>,
    event: Arc<PooledEvent>,
    /// Why its stream had failed before.
    poison: Option<Error>,
}

/// One open device.
pub(crate) struct CudaDevice {
    gpu: Arc<Gpu>,
    streams: Mutex<HashMap<Stream, Arc<StreamSlot>>>,
}

/// How what was put on a stream ended on the host.
enum Outcome {
    Enqueued,
    /// The stream has failed, now or before.
    Skipped(Error),
}

impl CudaDevice {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, streams: Mutex::default() }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<Stream, Arc<StreamSlot>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, stream: Stream) -> Error {
        Error::invalid(format!("stream {} is not alive on {}", stream.id(), self.gpu.info.name))
    }

    fn slot(&self, stream: Stream) -> Result<Arc<StreamSlot>> {
        self.streams().get(&stream).cloned().ok_or_else(|| self.unknown(stream))
    }

    fn event<'e>(&self, event: &'e Event) -> Result<&'e CudaEvent> {
        event
            .payload::<CudaEvent>()
            .filter(|event| Arc::ptr_eq(&event.gpu, &self.gpu))
            .ok_or_else(|| Error::invalid("an event of another device"))
    }

    /// Puts work on a stream that is locked, unless it has failed; the context is current. What
    /// fails now poisons the stream, but the caller's mistakes do not.
    fn run(
        &self,
        slot: &Arc<StreamSlot>,
        state: &mut StreamState,
        name: &'static str,
        views: &[View],
        enqueue: impl FnOnce(&mut Launcher<'_>, CUstream) -> Result<()>,
    ) -> Result<Outcome> {
        let stream = state.raw()?;
        let places = self.gpu.memory.resolve(views, &self.gpu.info.name, slot)?;
        if let Some(poison) = &state.poison {
            return Ok(Outcome::Skipped(poison.clone()));
        }
        self.gpu.faults.gate(&self.gpu, state)?;
        let mut launcher = Launcher::new(&self.gpu, name, stream, places);
        let outcome = enqueue(&mut launcher, stream);
        let begun = launcher.has_begun();
        match outcome {
            Ok(()) => Ok(Outcome::Enqueued),
            Err(error @ Error::DeviceLost { .. }) => Err(error),
            Err(
                error @ (Error::InvalidArgument(_)
                | Error::Unsupported(_)
                | Error::ExceedsLimit { .. }),
            ) if !begun => Err(error),
            Err(error) => {
                // Half of an operation is none.
                let error = match error {
                    error @ (Error::KernelFailed { .. } | Error::OutOfMemory { .. }) => error,
                    other => Error::KernelFailed { name, reason: other.to_string() },
                };
                tracing::warn!(device = self.gpu.info.name, %error, "a stream has failed");
                state.poison = Some(error.clone());
                Ok(Outcome::Skipped(error))
            }
        }
    }

    /// Enqueues a copy between a staging buffer and a view.
    fn copy(
        &self,
        stream: Stream,
        staging: &mut dyn Staging,
        offset_bytes: u64,
        view: View,
        wanted: StagingKind,
    ) -> Result<()> {
        check_copy(staging.kind(), wanted, staging.size_bytes(), offset_bytes, view)?;
        let staging = staging
            .as_any_mut()
            .downcast_mut::<CudaStaging>()
            .filter(|staging| staging.is_of(&self.gpu))
            .ok_or_else(|| Error::invalid("a staging buffer of another device"))?;
        let _current = self.gpu.enter()?;
        let slot = self.slot(stream)?;
        let mut state = slot.lock();
        let upload = wanted == StagingKind::Upload;
        // As the profile knows them.
        let name = if upload { "upload" } else { "download" };
        // Within the buffer, so it is a number of host memory.
        let host = staging.pinned().0.wrapping_byte_add(offset_bytes as usize);
        let len = view.len_bytes() as usize;
        let outcome = self.run(&slot, &mut state, name, &[view], |launcher, stream| {
            if len == 0 {
                return Ok(());
            }
            let device = launcher.pointer(view)?;
            // SAFETY: both ranges have been checked, and both memories live until the copy has
            // run: the staging buffer by the event below, the region by its list of users.
            let code = self.gpu.timed(name, stream, || unsafe {
                if upload {
                    sys::cuMemcpyHtoDAsync_v2(device, host, len, stream)
                } else {
                    sys::cuMemcpyDtoHAsync_v2(host, device, len, stream)
                }
            });
            check(name, code).map_err(|refusal| self.gpu.failed(name, refusal))
        })?;
        match outcome {
            Outcome::Enqueued => {
                let end = self.gpu.record(state.raw()?)?;
                staging.used(stream, end);
            }
            Outcome::Skipped(error) => staging.failed(error),
        }
        Ok(())
    }

    /// Waits for all enqueued work, at most [`LAST_WAIT`].
    fn finish(&self) -> Result<()> {
        let slots: Vec<_> = self.streams().drain().map(|(_, slot)| slot).collect();
        let ends: Vec<_> = {
            let _current = self.gpu.enter()?;
            for slot in &slots {
                slot.destroy(&self.gpu)?;
            }
            self.gpu.streams.ends()
        };
        let start = Instant::now();
        ends.iter().try_for_each(|end| self.gpu.wait(end, "all work", start, LAST_WAIT))
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let _current = self.gpu.enter()?;
        self.gpu.memory.info(&self.gpu)
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let _current = self.gpu.enter()?;
        self.gpu.memory.allocate(&self.gpu, name, class, size_bytes)
    }

    fn free(&self, region: Region) -> Result<()> {
        let _current = self.gpu.enter()?;
        self.gpu.memory.free(&self.gpu, region)
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        let _current = self.gpu.enter()?;
        Ok(Box::new(CudaStaging::new(&self.gpu, name, kind, size_bytes)?))
    }

    fn good_plan_len(&self) -> u64 {
        // A plan of 2^24 takes 1 GB and proves in four fifths of the time that pieces of 2^20 do.
        u64::MAX
    }

    fn staging_slot_bytes(&self) -> u64 {
        STAGING_SLOT_BYTES
    }

    fn kernel_time(&self) -> Option<KernelTime> {
        let profile = self.gpu.profile.as_ref()?;
        let _current = self.gpu.enter().ok()?;
        profile.kernel_time()
    }

    fn create_stream(&self, _name: &'static str) -> Result<Stream> {
        let _current = self.gpu.enter()?;
        let raw = self.gpu.streams.take();
        let raw = raw.map_err(|refusal| self.gpu.failed("create_stream", refusal))?;
        let stream = Stream::fresh();
        self.streams().insert(stream, StreamSlot::new(stream, raw));
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let slot = self.streams().remove(&stream).ok_or_else(|| self.unknown(stream))?;
        let _current = self.gpu.enter()?;
        slot.destroy(&self.gpu)
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let _current = self.gpu.enter()?;
        let slot = self.slot(stream)?;
        let mut state = slot.lock();
        self.gpu.faults.gate(&self.gpu, &mut state)?;
        let event = self.gpu.record(state.raw()?)?;
        let (gpu, poison) = (Arc::clone(&self.gpu), state.poison.clone());
        Ok(Event::new(CudaEvent { gpu, event, poison }))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        let _current = self.gpu.enter()?;
        let event = self.event(event)?;
        let slot = self.slot(stream)?;
        let mut state = slot.lock();
        if let Some(poison) = &event.poison {
            state.poison.get_or_insert_with(|| poison.clone());
            return Ok(());
        }
        let waits = event.event.before(state.raw()?);
        waits.map_err(|refusal| self.gpu.lose(refusal.to_string()))
    }

    fn query(&self, event: &Event) -> Result<bool> {
        let event = self.event(event)?;
        let complete = self.gpu.is_complete(&event.event)?;
        match &event.poison {
            Some(poison) => Err(poison.clone()),
            None => Ok(complete),
        }
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        let event = self.event(event)?;
        self.gpu.wait(&event.event, "event", Instant::now(), timeout)?;
        event.poison.clone().map_or(Ok(()), Err)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        self.copy(stream, source, source_offset_bytes, target, StagingKind::Upload)
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.copy(stream, target, target_offset_bytes, source, StagingKind::Download)
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        let views: Vec<_> = op.views().into_iter().map(|(view, _)| view).collect();
        let _current = self.gpu.enter()?;
        let slot = self.slot(stream)?;
        let mut state = slot.lock();
        let broken = self.gpu.faults.take_op();
        // A failure shows at the stream's next event.
        self.run(&slot, &mut state, op.name(), &views, |launcher, _| {
            if broken {
                launcher.break_it()?;
            }
            ops::enqueue(launcher, op)
        })?;
        Ok(())
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        let limit = self.gpu.info.max_lg_domain;
        if lg_domain > limit {
            let what = "lg_domain of an NTT".to_owned();
            return Err(Error::ExceedsLimit {
                what,
                requested: lg_domain.into(),
                limit: limit.into(),
            });
        }
        ops::ntt::layout(&self.gpu.card, lg_domain)
    }

    fn window_bits(&self, group: Group, len: u64) -> u32 {
        ops::msm::window_bits(&self.gpu.card, group, len)
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        ops::digits::layout(&self.gpu.card, shape)
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        ops::msm::layout(&self.gpu.card, group, shape)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.gpu.faults.release();
        match self.finish() {
            Ok(()) => {
                if let (Some(profile), Ok(_current)) = (&self.gpu.profile, self.gpu.enter()) {
                    profile.report(&self.gpu.info.name);
                }
                self.gpu.release_regions();
            }
            Err(Error::Timeout { .. }) => {
                // The driver would wait for the work for ever when the context is destroyed.
                tracing::error!(device = self.gpu.info.name, "hangs; its memory is given up");
                self.gpu.lose("it hangs".to_owned());
                std::mem::forget(Arc::clone(&self.gpu));
            }
            // Its memory goes when the context has.
            Err(_) => {}
        }
    }
}
