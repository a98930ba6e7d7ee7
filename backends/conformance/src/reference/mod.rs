//! A device in its simplest form: bytes in a map, every operation run at once by the oracles.
//!
//! It is one half of [`crate::dual::Dual`], and what the suite tests itself with.

mod kernels;

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::device::check_copy;
use twinlock_api::layout::MAX_LG_DOMAIN;
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Backend, Device, DeviceInfo, Discovered, Error, Event, Group, MemoryClass, MemoryInfo, Op,
    OpenOptions, Region, Result, Staging, StagingKind, Stream, View,
};

const NAME: &str = "reference";

/// The family of the one device `reference`.
#[derive(Debug, Clone)]
pub struct ReferenceBackend {
    memory_bytes: u64,
}

impl ReferenceBackend {
    /// Devices that hold `memory_bytes` bytes.
    pub const fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes }
    }
}

impl Default for ReferenceBackend {
    fn default() -> Self {
        Self::new(8 << 30)
    }
}

impl Backend for ReferenceBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        let usable = Ok(Reference::new(self.memory_bytes).info);
        vec![Discovered { name: NAME.into(), usable }]
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        if name != NAME {
            return Err(Error::invalid(format!("no device {name}, only {NAME}")));
        }
        Ok(Arc::new(Reference::new(self.memory_bytes)))
    }
}

/// The device.
pub struct Reference {
    info: DeviceInfo,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: kernels::Memory,
    /// What each live stream failed with, if it did.
    streams: HashMap<Stream, Option<Error>>,
}

/// What the stream had failed with when the event was recorded.
struct Recorded(Option<Error>);

struct HostBuffer {
    kind: StagingKind,
    bytes: Vec<u8>,
}

impl Staging for HostBuffer {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
        Ok(&mut self.bytes)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn host_buffer(staging: &mut dyn Staging) -> Result<&mut HostBuffer> {
    staging
        .as_any_mut()
        .downcast_mut()
        .ok_or_else(|| Error::invalid("a staging buffer of another device"))
}

fn recorded(event: &Event) -> Result<()> {
    let recorded: &Recorded =
        event.payload().ok_or_else(|| Error::invalid("an event of another device"))?;
    recorded.0.clone().map_or(Ok(()), Err)
}

/// Zeroed host memory, or an answer if there is none.
fn zeroed(what: &str, size_bytes: u64, limit_bytes: u64) -> Result<Vec<u8>> {
    let exceeds = || Error::ExceedsLimit {
        what: format!("{what}, bytes"),
        requested: size_bytes,
        limit: limit_bytes,
    };
    if size_bytes > limit_bytes {
        return Err(exceeds());
    }
    let len = usize::try_from(size_bytes).map_err(|_| exceeds())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        what: what.into(),
        requested_bytes: size_bytes,
        free_bytes: None,
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}

impl Reference {
    /// A device that holds `memory_bytes` bytes.
    pub fn new(memory_bytes: u64) -> Self {
        let info = DeviceInfo {
            name: NAME.into(),
            backend: NAME,
            model: "host memory and one thread".into(),
            driver: "none".into(),
            memory_bytes,
            max_region_bytes: memory_bytes,
            max_lg_domain: MAX_LG_DOMAIN.min(memory_bytes.max(32).ilog2() - 5),
        };
        Self { info, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` unless the stream has failed; what fails in it fails the stream.
    fn on_stream(
        &self,
        stream: Stream,
        views: &[View],
        work: impl FnOnce(&mut kernels::Memory) -> Result<()>,
    ) -> Result<()> {
        let State { memory, streams } = &mut *self.state();
        let failure = streams.get_mut(&stream).ok_or_else(|| no_stream(stream))?;
        for view in views {
            memory.check(*view)?;
        }
        if failure.is_none() {
            *failure = work(memory).err();
        }
        Ok(())
    }
}

fn no_stream(stream: Stream) -> Error {
    Error::invalid(format!("stream {} is not alive here", stream.id()))
}

impl Device for Reference {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let regions_bytes = self.state().memory.regions_bytes();
        let total_bytes = self.info.memory_bytes;
        Ok(MemoryInfo { free_bytes: total_bytes - regions_bytes, total_bytes, regions_bytes })
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let memory = &mut self.state().memory;
        let free_bytes = self.info.memory_bytes - memory.regions_bytes();
        let bytes = zeroed(name, size_bytes, self.info.max_region_bytes)?;
        if size_bytes > free_bytes {
            return Err(Error::OutOfMemory {
                what: name.into(),
                requested_bytes: size_bytes,
                free_bytes: Some(free_bytes),
            });
        }
        let region = Region::fresh(class, size_bytes);
        memory.insert(region, bytes);
        Ok(region)
    }

    fn free(&self, region: Region) -> Result<()> {
        self.state().memory.remove(region)
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        let bytes = zeroed(name, size_bytes, self.info.memory_bytes)?;
        Ok(Box::new(HostBuffer { kind, bytes }))
    }

    fn create_stream(&self, _name: &'static str) -> Result<Stream> {
        let stream = Stream::fresh();
        self.state().streams.insert(stream, None);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        self.state().streams.remove(&stream).map(drop).ok_or_else(|| no_stream(stream))
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let state = self.state();
        let failure = state.streams.get(&stream).ok_or_else(|| no_stream(stream))?;
        Ok(Event::new(Recorded(failure.clone())))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        match recorded(event) {
            Err(foreign @ Error::InvalidArgument(_)) => Err(foreign),
            outcome => self.on_stream(stream, &[], |_| outcome),
        }
    }

    fn query(&self, event: &Event) -> Result<bool> {
        recorded(event).map(|()| true)
    }

    fn synchronize(&self, event: &Event, _timeout: Duration) -> Result<()> {
        recorded(event)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        let buffer = host_buffer(source)?;
        let size_bytes = buffer.size_bytes();
        check_copy(buffer.kind, StagingKind::Upload, size_bytes, source_offset_bytes, target)?;
        let start = source_offset_bytes as usize;
        let bytes = &buffer.bytes[start..start + target.len_bytes() as usize];
        self.on_stream(stream, &[target], |memory| memory.write(target, bytes))
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        let buffer = host_buffer(target)?;
        let size_bytes = buffer.size_bytes();
        check_copy(buffer.kind, StagingKind::Download, size_bytes, target_offset_bytes, source)?;
        let start = target_offset_bytes as usize;
        let bytes = &mut buffer.bytes[start..start + source.len_bytes() as usize];
        self.on_stream(stream, &[source], |memory| {
            bytes.copy_from_slice(memory.read(source)?);
            Ok(())
        })
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        let views: Vec<_> = op.views().into_iter().map(|(view, _)| view).collect();
        self.on_stream(stream, &views, |memory| {
            kernels::run(memory, op)
                .map_err(|reason| Error::KernelFailed { name: op.name(), reason })
        })
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        if lg_domain > self.info.max_lg_domain {
            return Err(Error::ExceedsLimit {
                what: "lg of the domain".into(),
                requested: lg_domain.into(),
                limit: self.info.max_lg_domain.into(),
            });
        }
        Ok(NttLayout { lg_domain, workspace_bytes: 0 })
    }

    fn window_bits(&self, _group: Group, _len: u64) -> u32 {
        8
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        check_window_bits(shape)?;
        let plan_bytes = kernels::plan_bytes(shape.max_len).ok_or_else(|| Error::ExceedsLimit {
            what: "scalars of a plan".into(),
            requested: shape.max_len,
            limit: self.info.memory_bytes / 32,
        })?;
        if plan_bytes > self.info.memory_bytes {
            return Err(Error::ExceedsLimit {
                what: "bytes of a plan".into(),
                requested: plan_bytes,
                limit: self.info.memory_bytes,
            });
        }
        Ok(DigitsLayout { shape, plan_bytes, workspace_bytes: 0 })
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        self.digits_layout(shape)?;
        let num_windows = kernels::num_windows(shape);
        Ok(MsmLayout {
            shape,
            group,
            accumulator_bytes: u64::from(num_windows) * group.jacobian_bytes(),
            accumulate_workspace_bytes: 0,
            reduce_workspace_bytes: 0,
            num_windows,
        })
    }
}

fn check_window_bits(shape: DigitsShape) -> Result<()> {
    if shape.tables == 0 {
        return Err(Error::Unsupported("no table of bases".into()));
    }
    if (1..=32).contains(&shape.window_bits) {
        return Ok(());
    }
    Err(Error::Unsupported(format!("windows of {} bits, only 1 to 32", shape.window_bits)))
}
