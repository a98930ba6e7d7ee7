//! The device: handles, streams, and what they are checked against.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use twinlock_api::device::check_copy;
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error, Event, Group, KernelTime, MemoryClass, MemoryInfo, Op, Region,
    Result, Staging, StagingKind, Stream, View,
};

use crate::chunks::Piece;
use crate::gpu::Gpu;
use crate::launcher::Launcher;
use crate::memory::Regions;
use crate::ops;
use crate::staging::WgslStaging;
use crate::timeline::Timeline;
use crate::worker;

/// The longest wait for a device that is let go of; one that takes longer hangs.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// A device's event.
struct WgslEvent {
    timeline: Arc<Timeline>,
    /// The last ticket of its stream.
    ticket: u64,
    /// Why its stream had failed before.
    poison: Option<Error>,
}

#[derive(Default)]
struct StreamState {
    ticket: u64,
    poison: Option<Error>,
}

/// One open device.
pub(crate) struct WgslDevice {
    gpu: Arc<Gpu>,
    regions: Regions,
    streams: Mutex<HashMap<Stream, StreamState>>,
    thread: Option<JoinHandle<()>>,
}

impl WgslDevice {
    pub(crate) fn new(gpu: Arc<Gpu>, memory_bytes: Option<u64>) -> Result<Self> {
        let thread = worker::start(&gpu)?;
        Ok(Self {
            regions: Regions::new(memory_bytes),
            streams: Mutex::default(),
            thread: Some(thread),
            gpu,
        })
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<Stream, StreamState>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, stream: Stream) -> Error {
        Error::invalid(format!("stream {} is not alive on {}", stream.id(), self.gpu.info.name))
    }

    /// Looks at, or changes, a stream.
    fn on_stream<T>(&self, stream: Stream, f: impl FnOnce(&mut StreamState) -> T) -> Result<T> {
        self.streams().get_mut(&stream).map(f).ok_or_else(|| self.unknown(stream))
    }

    fn event<'e>(&self, event: &'e Event) -> Result<&'e WgslEvent> {
        event
            .payload::<WgslEvent>()
            .filter(|event| Arc::ptr_eq(&event.timeline, &self.gpu.timeline))
            .ok_or_else(|| Error::invalid("an event of another device"))
    }

    /// Encodes and enqueues what `encode` says, unless the stream has failed; the ticket, or why
    /// the stream has failed now.
    fn run(
        &self,
        stream: Stream,
        name: &'static str,
        views: &[View],
        encode: impl FnOnce(&mut Launcher<'_>) -> Result<()>,
    ) -> Result<Result<u64, Error>> {
        self.gpu.timeline.check_alive()?;
        let regions = self.regions.resolve(views, &self.gpu.info.name)?;
        if let Some(poison) = self.on_stream(stream, |state| state.poison.clone())? {
            return Ok(Err(poison));
        }
        let mut launcher = Launcher::new(&self.gpu, name, regions);
        let encoded = match encode(&mut launcher) {
            Ok(()) => launcher.finish(),
            // The caller's mistake: nothing is enqueued.
            Err(
                error @ (Error::InvalidArgument(_)
                | Error::Unsupported(_)
                | Error::ExceedsLimit { .. }),
            ) => return Err(error),
            Err(error) => Err(error),
        };
        self.gpu.timeline.check_alive()?;
        // Held while the parts are pushed, so that a stream's tickets grow.
        let mut streams = self.streams();
        let state = streams.get_mut(&stream).ok_or_else(|| self.unknown(stream))?;
        match encoded {
            Ok(parts) => {
                if !parts.is_empty() {
                    state.ticket = self.gpu.timeline.push(parts);
                }
                Ok(Ok(state.ticket))
            }
            Err(error) => {
                tracing::warn!(device = self.gpu.info.name, %error, "a stream has failed");
                state.poison = Some(error.clone());
                Ok(Err(error))
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
            .downcast_mut::<WgslStaging>()
            .filter(|staging| staging.is_of(&self.gpu))
            .ok_or_else(|| Error::invalid("a staging buffer of another device"))?;
        // Before the buffer is taken from the host.
        self.gpu.timeline.check_alive()?;
        self.regions.resolve(&[view], &self.gpu.info.name)?;
        self.on_stream(stream, |_| ())?;

        let upload = wanted == StagingKind::Upload;
        let name = if upload { "upload" } else { "download" };
        let outcome = {
            let buffer = staging.for_device();
            self.run(stream, name, &[view], |launcher| {
                let device = launcher.view(view)?;
                let len_bytes = view.len_bytes();
                let host = [Piece { buffer, start_bytes: offset_bytes, len_bytes }];
                let device = device.pieces();
                let (source, target) =
                    if upload { (&host[..], &*device) } else { (&*device, &host[..]) };
                launcher.copy_pieces(source, target)
            })?
        };
        match outcome {
            Ok(ticket) => {
                let end = offset_bytes + view.len_bytes();
                staging.used(ticket, (!upload).then_some(offset_bytes..end));
            }
            Err(error) => staging.failed(error),
        }
        Ok(())
    }
}

impl Device for WgslDevice {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.gpu.timeline.check_alive()?;
        Ok(self.regions.memory(&self.gpu))
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        self.gpu.timeline.check_alive()?;
        self.regions.allocate(&self.gpu, name, class, size_bytes)
    }

    fn free(&self, region: Region) -> Result<()> {
        self.regions.free(region, &self.gpu.info.name)?;
        self.gpu.timeline.check_alive()
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        self.gpu.timeline.check_alive()?;
        let buffer = Regions::staging_buffer(&self.gpu, name, kind, size_bytes)?;
        // The buffer has been made, so its size is one of host memory.
        let size_bytes = size_bytes as usize;
        Ok(Box::new(WgslStaging::new(Arc::clone(&self.gpu), buffer, name, kind, size_bytes)?))
    }

    fn good_plan_len(&self) -> u64 {
        // Longer ones were not measured.
        1 << 22
    }

    fn staging_slot_bytes(&self) -> u64 {
        4 << 20
    }

    fn kernel_time(&self) -> Option<KernelTime> {
        self.gpu.profile.as_ref()?.kernel_time()
    }

    fn create_stream(&self, _name: &'static str) -> Result<Stream> {
        self.gpu.timeline.check_alive()?;
        let stream = Stream::fresh();
        self.streams().insert(stream, StreamState::default());
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let state = self.streams().remove(&stream).ok_or_else(|| self.unknown(stream))?;
        self.gpu.timeline.flush(state.ticket);
        self.gpu.timeline.check_alive()
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        self.gpu.timeline.check_alive()?;
        let (ticket, poison) =
            self.on_stream(stream, |state| (state.ticket, state.poison.clone()))?;
        self.gpu.timeline.flush(ticket);
        Ok(Event::new(WgslEvent { timeline: Arc::clone(&self.gpu.timeline), ticket, poison }))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.gpu.timeline.check_alive()?;
        let event = self.event(event)?;
        // The queue runs in order of tickets, and what the stream enqueues later has later ones.
        self.on_stream(stream, |state| {
            if state.poison.is_none() {
                state.poison.clone_from(&event.poison);
            }
        })
    }

    fn query(&self, event: &Event) -> Result<bool> {
        let event = self.event(event)?;
        let complete = self.gpu.timeline.is_complete(event.ticket)?;
        match &event.poison {
            Some(poison) => Err(poison.clone()),
            None => Ok(complete),
        }
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        let event = self.event(event)?;
        self.gpu.timeline.wait(event.ticket, "event", timeout)?;
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
        let broken = self.gpu.faults.take_op();
        // A failure on the device shows at the stream's next event.
        let outcome = self.run(stream, op.name(), &views, |launcher| {
            if broken {
                launcher.break_it();
            }
            ops::encode(launcher, op)
        });
        outcome.map(|_| ())
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
        ops::ntt::layout(&self.gpu, lg_domain)
    }

    fn window_bits(&self, group: Group, len: u64) -> u32 {
        ops::msm::window_bits(&self.gpu, group, len)
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        ops::digits::layout(&self.gpu, shape)
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        ops::msm::layout(&self.gpu, group, shape)
    }
}

impl Drop for WgslDevice {
    fn drop(&mut self) {
        self.gpu.timeline.hold(false);
        let finished = self.gpu.timeline.wait_for_all(LAST_WAIT);
        if matches!(finished, Err(Error::Timeout { .. })) {
            // wgpu would wait for the queue for ever when the last handle goes.
            tracing::error!(device = self.gpu.info.name, "hangs; its memory is given up");
            self.gpu.timeline.lose("it hangs");
            std::mem::forget(Arc::clone(&self.gpu));
        }
        self.gpu.timeline.stop();
        if let Some(profile) = &self.gpu.profile {
            profile.report();
        }
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}
