//! The device: the contract's calls.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use twinlock_api::device::check_copy;
use twinlock_api::op::{Access, DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error, Event, Group, MemoryClass, MemoryInfo, Op, Region, Result, Staging,
    StagingKind, Stream, View,
};

use crate::card::{SimCard, State, Waited, lost};
use crate::context::{Recorded, StreamState};
use crate::cost::interpolate;
use crate::faults::OpFault;
use crate::log::{Lane, Span};
use crate::sizes;
use crate::staging::SimStaging;

/// Real time that the inner device may take to finish what it was given.
pub(crate) const INNER_TIMEOUT: Duration = Duration::from_secs(3_600);

/// One open device on a [`SimCard`].
pub struct SimDevice {
    pub(crate) core: Arc<Core>,
}

/// What staging buffers share with their device.
pub(crate) struct Core {
    pub(crate) card: Arc<SimCard>,
    pub(crate) context: u64,
}

/// Work to place on an engine.
struct Work<'a> {
    lane: Lane,
    op: &'static str,
    cost: Duration,
    views: &'a [(View, Access)],
    /// What the log shows.
    shown: Option<View>,
}

impl Core {
    /// The state as of now, if the device is alive.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.card.enter()?;
        state.context(self.context)?;
        Ok(state)
    }

    /// As [`Core::enter`], after the host's time for a call.
    pub(crate) fn call(&self) -> Result<MutexGuard<'_, State>> {
        self.card.clock().advance(self.card.config().driver_costs.call);
        self.enter()
    }

    pub(crate) fn inner(&self) -> Option<&Arc<dyn Device>> {
        self.card.config().arithmetic.device()
    }

    /// Records what the host spent from `start` to now, if anything.
    pub(crate) fn add_host_span(
        &self,
        state: &mut State,
        op: &'static str,
        view: &'static str,
        bytes: u64,
        start: Duration,
    ) {
        let end = self.card.clock().now();
        if start < end {
            let (lane, stream, stream_name) = (Lane::Host, None, "");
            state.add_span(Span { lane, stream, stream_name, op, view, bytes, start, end });
        }
    }

    /// Lets all enqueued work end, as the driver does before it allocates or frees.
    pub(crate) fn wait_idle(&self, state: &mut State) -> Result<()> {
        let idle_at = state.context(self.context)?.idle_at;
        match self.card.pass_until(state, idle_at, Duration::MAX) {
            Err(Waited::Lost) => Err(lost()),
            Ok(()) | Err(Waited::TooLong) => {
                state.context(self.context)?.see_all();
                Ok(())
            }
        }
    }

    /// Lets `cost` pass on the host.
    pub(crate) fn spend(&self, state: &mut State, cost: Duration) -> Result<()> {
        let end = self.card.clock().now().saturating_add(cost);
        match self.card.pass_until(state, end, Duration::MAX) {
            Err(Waited::Lost) => Err(lost()),
            Ok(()) | Err(Waited::TooLong) => Ok(()),
        }
    }

    pub(crate) fn recorded<'a>(&self, event: &'a Event) -> Result<&'a Recorded> {
        let foreign = || Error::invalid("an event of another device");
        let recorded: &Recorded = event.payload().ok_or_else(foreign)?;
        let here = recorded.card == self.card_id() && recorded.context == self.context;
        if here { Ok(recorded) } else { Err(foreign()) }
    }

    fn card_id(&self) -> usize {
        Arc::as_ptr(&self.card).addr()
    }

    /// Puts work on its engine: start and end.
    fn place(
        &self,
        state: &mut State,
        stream: Stream,
        work: &Work<'_>,
    ) -> Result<(Duration, Duration)> {
        let now = self.card.clock().now();
        let State { contexts, compute, upload, download, .. } = &mut *state;
        let context = contexts.get_mut(&self.context).ok_or_else(lost)?;
        let (ready, stream_name) = {
            let stream = context.stream(stream)?;
            (stream.ready.max(now), stream.name)
        };
        let engine = match work.lane {
            Lane::Upload => upload,
            Lane::Download => download,
            Lane::Compute | Lane::Host => compute,
        };
        let (start, end) = engine.place(now, ready, work.cost);
        let races = context.count_op(stream, work.op, (start, end), work.views)?;
        state.add_races(races);
        state.add_span(Span {
            lane: work.lane,
            stream: Some(stream),
            stream_name,
            op: work.op,
            view: work.shown.map_or("", View::name),
            bytes: work.shown.map_or(0, View::len_bytes),
            start,
            end,
        });
        Ok((start, end))
    }

    /// A copy in either direction.
    fn copy(
        self: &Arc<Self>,
        stream: Stream,
        wanted: StagingKind,
        (staging, offset_bytes): (&mut dyn Staging, u64),
        view: View,
    ) -> Result<()> {
        let mut state = self.call()?;
        let foreign = || Error::invalid("a staging buffer of another device");
        let staging: &mut SimStaging = staging.as_any_mut().downcast_mut().ok_or_else(foreign)?;
        if !Arc::ptr_eq(&staging.core, self) {
            return Err(foreign());
        }
        check_copy(staging.kind, wanted, staging.size_bytes, offset_bytes, view)?;
        let context = state.context(self.context)?;
        let inner_view = context.inner_view(view)?;
        let StreamState { ready, failure, inner: inner_stream, .. } = context.stream(stream)?;
        if let Some(failure) = failure {
            staging.done = staging.done.max(*ready);
            staging.failure.get_or_insert_with(|| failure.clone());
            state.faults.skip_copy();
            return Ok(());
        }
        if let (Some(inner), Some(inner_stream), Some(view), Some(buffer)) =
            (self.inner(), *inner_stream, inner_view, &mut staging.inner)
        {
            match wanted {
                StagingKind::Upload => {
                    inner.upload(inner_stream, buffer.as_mut(), offset_bytes, view)?;
                }
                StagingKind::Download => {
                    inner.download(inner_stream, view, buffer.as_mut(), offset_bytes)?;
                }
            }
        }
        let config = self.card.config();
        let (lane, op, rate, access) = match wanted {
            StagingKind::Upload => (Lane::Upload, "upload", &config.upload, Access::Write),
            StagingKind::Download => (Lane::Download, "download", &config.download, Access::Read),
        };
        let slower = state.faults.on_copy(self.card.clock().now());
        let cost = rate.cost(view.len_bytes(), staging.is_pageable).saturating_mul(slower);
        let work = Work { lane, op, cost, views: &[(view, access)], shown: Some(view) };
        let (_, end) = self.place(&mut state, stream, &work)?;
        staging.done = staging.done.max(end);
        staging.order.join(&state.context(self.context)?.stream(stream)?.order);
        if staging.is_pageable {
            // The driver copies through buffers of its own and returns when that is done.
            self.card.check_rule(&mut state, op, staging.name, end)?;
            let start = self.card.clock().now();
            let waited = self.card.pass_until(&mut state, end, Duration::MAX);
            self.add_host_span(&mut state, op, staging.name, view.len_bytes(), start);
            waited.map_err(|_| lost())?;
            state.context(self.context)?.see(&staging.order);
        }
        Ok(())
    }

    /// A staging buffer, page-locked or not.
    pub(crate) fn allocate_staging(
        self: &Arc<Self>,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
        is_pageable: bool,
    ) -> Result<Box<dyn Staging>> {
        let mut state = self.call()?;
        let limit = self.card.config().max_staging_bytes;
        if size_bytes > limit {
            return Err(Error::ExceedsLimit {
                what: format!("{name}, bytes"),
                requested: size_bytes,
                limit,
            });
        }
        if !is_pageable {
            let idle_at = state.context(self.context)?.idle_at;
            self.card.check_rule(&mut state, "allocate_staging", name, idle_at)?;
            let start = self.card.clock().now();
            self.wait_idle(&mut state)?;
            let cost = interpolate(&self.card.config().driver_costs.staging, size_bytes);
            self.spend(&mut state, cost)?;
            self.add_host_span(&mut state, "allocate_staging", name, size_bytes, start);
        }
        let inner = self.inner().map(|inner| inner.allocate_staging(name, kind, size_bytes));
        Ok(Box::new(SimStaging {
            core: self.clone(),
            name,
            kind,
            size_bytes,
            is_pageable,
            done: Duration::ZERO,
            failure: None,
            order: Default::default(),
            inner: inner.transpose()?,
            bytes: None,
        }))
    }
}

/// The first view that an operation writes for its caller.
fn written(views: &[(View, Access)]) -> Option<View> {
    let mut written =
        views.iter().filter(|(_, access)| matches!(access, Access::Write | Access::ReadWrite));
    written.next().map(|(view, _)| *view)
}

/// Flips a bit of `view` behind the work of `stream`.
fn flip_bit(device: &dyn Device, stream: Stream, view: View, bit: u64) -> Result<()> {
    if view.len_bytes() < 4 {
        return Ok(());
    }
    let bit = bit % (view.len_bytes() * 8);
    let word = view.slice(bit / 32 * 4, 4)?;
    let mut down = device.allocate_staging("flip", StagingKind::Download, 4)?;
    let mut up = device.allocate_staging("flip", StagingKind::Upload, 4)?;
    device.download(stream, word, down.as_mut(), 0)?;
    let old = down.host(INNER_TIMEOUT)?;
    let new = up.host(INNER_TIMEOUT)?;
    for (at, (new, old)) in new.iter_mut().zip(old).take(4).enumerate() {
        let mask = if at as u64 == bit / 8 % 4 { 1 << (bit % 8) } else { 0 };
        *new = *old ^ mask;
    }
    device.upload(stream, up.as_mut(), 0, word)?;
    up.host(INNER_TIMEOUT).map(drop)
}

impl SimDevice {
    pub(crate) fn new(card: Arc<SimCard>, context: u64) -> Self {
        Self { core: Arc::new(Core { card, context }) }
    }
}

impl Device for SimDevice {
    fn info(&self) -> &DeviceInfo {
        self.core.card.info()
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let mut state = self.core.call()?;
        let free_bytes = state.memory.free_bytes();
        let regions_bytes = state.context(self.core.context)?.regions_bytes();
        let total_bytes = self.info().memory_bytes;
        Ok(MemoryInfo { free_bytes, total_bytes, regions_bytes })
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        self.allocate_from_driver(name, class, size_bytes)
    }

    fn free(&self, region: Region) -> Result<()> {
        self.free_to_driver(region)
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        self.core.allocate_staging(name, kind, size_bytes, false)
    }

    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        let mut state = self.core.call()?;
        let inner = self.core.inner().map(|inner| inner.create_stream(name)).transpose()?;
        let stream = Stream::fresh();
        let context = state.context(self.core.context)?;
        let created = StreamState {
            name,
            ready: Duration::ZERO,
            count: 0,
            order: context.seen.clone(),
            failure: None,
            inner,
        };
        context.streams.insert(stream.id(), created);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let mut state = self.core.call()?;
        let context = state.context(self.core.context)?;
        let inner_stream = context.stream(stream)?.inner;
        context.streams.remove(&stream.id());
        match (self.core.inner(), inner_stream) {
            (Some(inner), Some(stream)) => inner.destroy_stream(stream),
            _ => Ok(()),
        }
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let mut state = self.core.call()?;
        let stream = state.context(self.core.context)?.stream(stream)?;
        let inner = match (self.core.inner(), stream.inner) {
            (Some(inner), Some(inner_stream)) => Some(inner.record(inner_stream)?),
            _ => None,
        };
        Ok(Event::new(Recorded {
            card: self.core.card_id(),
            context: self.core.context,
            stream_name: stream.name,
            done: stream.ready,
            order: stream.order.clone(),
            failure: stream.failure.clone(),
            inner,
        }))
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        let mut state = self.core.call()?;
        let recorded = self.core.recorded(event)?;
        let stream = state.context(self.core.context)?.stream(stream)?;
        if let (Some(inner), Some(inner_stream), Some(inner_event)) =
            (self.core.inner(), stream.inner, &recorded.inner)
        {
            inner.wait(inner_stream, inner_event)?;
        }
        stream.ready = stream.ready.max(recorded.done);
        stream.order.join(&recorded.order);
        if stream.failure.is_none() {
            stream.failure.clone_from(&recorded.failure);
        }
        Ok(())
    }

    fn query(&self, event: &Event) -> Result<bool> {
        let mut state = self.core.call()?;
        let recorded = self.core.recorded(event)?;
        if recorded.done > self.core.card.clock().now() {
            return Ok(false);
        }
        state.context(self.core.context)?.see(&recorded.order);
        drop(state);
        self.outcome(recorded).map(|()| true)
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        self.synchronize_event(event, timeout)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        self.core.copy(stream, StagingKind::Upload, (source, source_offset_bytes), target)
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.core.copy(stream, StagingKind::Download, (target, target_offset_bytes), source)
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        let core = &self.core;
        let mut state = core.call()?;
        let context = state.context(core.context)?;
        let views = op.views();
        for (view, _) in &views {
            context.inner_view(*view)?;
        }
        let StreamState { failure, inner: inner_stream, .. } = context.stream(stream)?;
        if failure.is_some() {
            state.faults.skip_op();
            return Ok(());
        }
        let target = written(&views);
        let inner = core.inner().zip(*inner_stream);
        let fault = state.faults.on_op(core.card.clock().now());
        if let Some((inner, inner_stream)) = inner
            && fault != OpFault::Failed
        {
            let context = state.context(core.context)?;
            let mapped = op.clone().map_views(|view, _| {
                context.inner_view(view)?.ok_or_else(|| Error::invalid("a view without bytes"))
            })?;
            inner.enqueue(inner_stream, &mapped)?;
            if let (OpFault::Flip(bit), Some(target)) = (fault, target)
                && let Some(target) = context.inner_view(target)?
            {
                flip_bit(inner.as_ref(), inner_stream, target, bit)?;
            }
        }
        let cost = core.card.config().kernel_cost.of(op);
        let work = Work { lane: Lane::Compute, op: op.name(), cost, views: &views, shown: target };
        let (start, end) = core.place(&mut state, stream, &work)?;
        match fault {
            OpFault::None | OpFault::Flip(_) => {}
            OpFault::Failed => {
                let reason = "injected fault".into();
                let failure = Error::KernelFailed { name: op.name(), reason };
                state.context(core.context)?.stream(stream)?.failure = Some(failure);
            }
            OpFault::Lost => {
                let middle = start.saturating_add(end.saturating_sub(start) / 2);
                let first = state.lost_by_op.map_or(middle, |at| at.min(middle));
                state.lost_by_op = Some(first);
            }
        }
        Ok(())
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        sizes::check_lg_domain(self.info(), lg_domain)?;
        match self.core.card.config().arithmetic.sizes() {
            Some(device) => device.ntt_layout(lg_domain),
            None => Ok(sizes::ntt(lg_domain)),
        }
    }

    fn window_bits(&self, group: Group, len: u64) -> u32 {
        match self.core.card.config().arithmetic.sizes() {
            Some(device) => device.window_bits(group, len),
            None => sizes::window_bits(len),
        }
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        match self.core.card.config().arithmetic.sizes() {
            Some(device) => device.digits_layout(shape),
            None => sizes::digits(self.info(), shape),
        }
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        match self.core.card.config().arithmetic.sizes() {
            Some(device) => device.msm_layout(group, shape),
            None => sizes::msm(self.info(), group, shape),
        }
    }
}

impl Drop for SimDevice {
    fn drop(&mut self) {
        // A lost device has nothing left to wait for.
        let Ok(mut state) = self.core.enter() else { return };
        let Ok(idle_at) = state.context(self.core.context).map(|context| context.idle_at) else {
            return;
        };
        // Dropping cannot be refused; the record is what counts.
        let _ = self.core.card.check_rule(&mut state, "drop_device", "", idle_at);
        let _ = self.core.wait_idle(&mut state);
        state.close(self.core.context, self.core.card.clock().now());
    }
}
