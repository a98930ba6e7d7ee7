//! A device made of two: every operation runs on both, and every result that the contract defines
//! is compared. So any workload becomes a differential test.
//!
//! * Compared bit for bit: what `Fill`, `Copy`, `Gather`, `Vector`, the conversions,
//!   `DecodePoints` (points up to the first bad one, and the status) and `Ntt` write. Compared as
//!   points: what the window sums of `MsmReduce` combine to.
//! * Digit plans, accumulators and workspaces are opaque and differ. So does memory nobody wrote;
//!   the pair knows which bytes are defined and compares results of defined inputs only.
//! * A difference is `KernelFailed` with the operation's name; the reason names the view and the
//!   first element that differs. It poisons the stream, as any failure does.
//! * It trades speed for certainty: `enqueue` waits for both halves, other than the contract says.

mod backend;
mod compare;
mod ranges;
mod staging;
mod streams;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use twinlock_api::device::check_copy;
use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error, Event, Group, MemoryClass, MemoryInfo, Op, Region, Result, Staging,
    StagingKind, Stream, View,
};

pub use backend::DualBackend;
use compare::TIMEOUT;
use ranges::Defined;
use staging::DualStaging;
use streams::{DualEvent, StreamState};

/// Two devices as one. What it reports and downloads is the subject's, what it compares with is
/// the oracle's.
pub struct Dual {
    info: DeviceInfo,
    oracle: Arc<dyn Device>,
    subject: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The oracle's and the subject's region.
    regions: HashMap<Region, [Region; 2]>,
    streams: HashMap<Stream, StreamState>,
    defined: Defined,
}

impl State {
    fn check(&self, view: View) -> Result<()> {
        self.halves(view.region()).map(drop)
    }

    fn halves(&self, region: Region) -> Result<[Region; 2]> {
        self.regions
            .get(&region)
            .copied()
            .ok_or_else(|| Error::invalid(format!("region {} is not alive here", region.id())))
    }

    fn stream(&mut self, stream: Stream) -> Result<&mut StreamState> {
        self.streams
            .get_mut(&stream)
            .ok_or_else(|| Error::invalid(format!("stream {} is not alive here", stream.id())))
    }
}

impl Dual {
    /// Checks `subject` by `oracle`.
    pub fn new(oracle: Arc<dyn Device>, subject: Arc<dyn Device>) -> Self {
        let (a, b) = (oracle.info(), subject.info());
        let info = DeviceInfo {
            name: format!("dual:{}+{}", a.name, b.name),
            backend: "dual",
            model: format!("{}, checked by {}", b.model, a.model),
            driver: b.driver.clone(),
            memory_bytes: a.memory_bytes.min(b.memory_bytes),
            max_region_bytes: a.max_region_bytes.min(b.max_region_bytes),
            max_lg_domain: a.max_lg_domain.min(b.max_lg_domain),
        };
        Self { info, oracle, subject, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dual_staging(staging: &mut dyn Staging) -> Result<&mut DualStaging> {
    staging
        .as_any_mut()
        .downcast_mut()
        .ok_or_else(|| Error::invalid("a staging buffer of another device"))
}

impl Device for Dual {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let (a, b) = (self.oracle.memory()?, self.subject.memory()?);
        Ok(MemoryInfo {
            free_bytes: a.free_bytes.min(b.free_bytes),
            total_bytes: a.total_bytes.min(b.total_bytes),
            regions_bytes: a.regions_bytes.max(b.regions_bytes),
        })
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let oracle = self.oracle.allocate(name, class, size_bytes)?;
        let subject = match self.subject.allocate(name, class, size_bytes) {
            Ok(subject) => subject,
            Err(error) => {
                self.oracle.free(oracle)?;
                return Err(error);
            }
        };
        let region = Region::fresh(class, size_bytes);
        self.state().regions.insert(region, [oracle, subject]);
        Ok(region)
    }

    fn free(&self, region: Region) -> Result<()> {
        let [oracle, subject] = {
            let mut state = self.state();
            let halves = state.halves(region)?;
            state.regions.remove(&region);
            state.defined.forget(region);
            halves
        };
        self.oracle.free(oracle).and(self.subject.free(subject))
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        Ok(Box::new(DualStaging {
            oracle: self.oracle.allocate_staging(name, kind, size_bytes)?,
            subject: self.subject.allocate_staging(name, kind, size_bytes)?,
            touched: false,
            size_bytes,
        }))
    }

    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        let halves = [self.oracle.create_stream(name)?, self.subject.create_stream(name)?];
        let stream = Stream::fresh();
        self.state().streams.insert(stream, StreamState { halves, failure: None });
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let [oracle, subject] = {
            let mut state = self.state();
            let halves = state.stream(stream)?.halves;
            state.streams.remove(&stream);
            halves
        };
        self.oracle.destroy_stream(oracle).and(self.subject.destroy_stream(subject))
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let mut state = self.state();
        let StreamState { halves, failure } = state.stream(stream)?;
        Ok(Event::new(DualEvent {
            failure: failure.clone(),
            oracle: self.oracle.record(halves[0])?,
            subject: self.subject.record(halves[1])?,
        }))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        let event = DualEvent::of(event)?;
        let mut state = self.state();
        let StreamState { halves, failure } = state.stream(stream)?;
        if let (None, Some(other)) = (&failure, &event.failure) {
            *failure = Some(other.clone());
        }
        self.oracle.wait(halves[0], &event.oracle)?;
        self.subject.wait(halves[1], &event.subject)
    }

    fn query(&self, event: &Event) -> Result<bool> {
        let event = DualEvent::of(event)?;
        event.failed()?;
        Ok(self.oracle.query(&event.oracle)? & self.subject.query(&event.subject)?)
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        let event = DualEvent::of(event)?;
        event.failed()?;
        self.oracle.synchronize(&event.oracle, timeout)?;
        self.subject.synchronize(&event.subject, timeout)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        let staging = dual_staging(source)?;
        let (kind, size_bytes) = (staging.kind(), staging.size_bytes);
        check_copy(kind, StagingKind::Upload, size_bytes, source_offset_bytes, target)?;
        let mut state = self.state();
        let regions = state.halves(target.region())?;
        let StreamState { halves, failure } = state.stream(stream)?;
        if failure.is_some() {
            return Ok(());
        }
        staging.follow(TIMEOUT)?;
        let [oracle, subject] = *halves;
        let to = |region| target.moved_to(region);
        let (own, offset) = (&mut *staging.oracle, source_offset_bytes);
        self.oracle.upload(oracle, own, offset, to(regions[0])?)?;
        self.subject.upload(subject, &mut *staging.subject, offset, to(regions[1])?)?;
        state.defined.mark(target, true);
        Ok(())
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        let staging = dual_staging(target)?;
        let (kind, size_bytes) = (staging.kind(), staging.size_bytes);
        check_copy(kind, StagingKind::Download, size_bytes, target_offset_bytes, source)?;
        let mut state = self.state();
        let regions = state.halves(source.region())?;
        let StreamState { halves, failure } = state.stream(stream)?;
        if failure.is_some() {
            return Ok(());
        }
        let (from, offset) = (source.moved_to(regions[1])?, target_offset_bytes);
        self.subject.download(halves[1], from, &mut *staging.subject, offset)
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        let mut state = self.state();
        for (view, _) in op.views() {
            state.check(view)?;
        }
        let StreamState { halves, failure } = state.stream(stream)?;
        if failure.is_some() {
            return Ok(());
        }
        let halves = *halves;
        match self.run_on_both(&mut state, halves, op) {
            Err(refused @ (Error::InvalidArgument(_) | Error::Unsupported(_))) => Err(refused),
            outcome => {
                state.stream(stream)?.failure = outcome.err();
                Ok(())
            }
        }
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        let (a, b) = (self.oracle.ntt_layout(lg_domain)?, self.subject.ntt_layout(lg_domain)?);
        Ok(NttLayout { lg_domain, workspace_bytes: a.workspace_bytes.max(b.workspace_bytes) })
    }

    fn window_bits(&self, group: Group, len: u64) -> u32 {
        self.subject.window_bits(group, len)
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        let (a, b) = (self.oracle.digits_layout(shape)?, self.subject.digits_layout(shape)?);
        Ok(DigitsLayout {
            shape,
            plan_bytes: a.plan_bytes.max(b.plan_bytes),
            workspace_bytes: a.workspace_bytes.max(b.workspace_bytes),
        })
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        let a = self.oracle.msm_layout(group, shape)?;
        let b = self.subject.msm_layout(group, shape)?;
        Ok(MsmLayout {
            shape,
            group,
            accumulator_bytes: a.accumulator_bytes.max(b.accumulator_bytes),
            accumulate_workspace_bytes: a
                .accumulate_workspace_bytes
                .max(b.accumulate_workspace_bytes),
            reduce_workspace_bytes: a.reduce_workspace_bytes.max(b.reduce_workspace_bytes),
            num_windows: a.num_windows.max(b.num_windows),
        })
    }
}
