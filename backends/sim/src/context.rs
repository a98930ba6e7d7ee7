//! What one open device has: streams, regions, a pool, and what the host has seen of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use twinlock_api::op::Access;
use twinlock_api::{Device, Error, Event, Region, Result, Stream, View};

use crate::order::VectorClock;
use crate::pool::Pool;
use crate::races::{Race, Tracker, Use};

pub(crate) struct Context {
    pub(crate) streams: BTreeMap<u64, StreamState>,
    pub(crate) regions: BTreeMap<u64, RegionState>,
    pub(crate) pool: Pool,
    /// Work whose end the host has seen: it comes before all that is enqueued from now on.
    pub(crate) seen: VectorClock,
    /// When all that was ever enqueued has ended.
    pub(crate) idle_at: Duration,
    /// All that was ever enqueued.
    pub(crate) enqueued: VectorClock,
    context_bytes: u64,
    inner: Option<Arc<dyn Device>>,
}

#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) name: &'static str,
    /// When its last work ends.
    pub(crate) ready: Duration,
    /// Its operations so far.
    pub(crate) count: u64,
    /// What comes before its next operation.
    pub(crate) order: VectorClock,
    /// What it failed with, if it did.
    pub(crate) failure: Option<Error>,
    pub(crate) inner: Option<Stream>,
}

#[derive(Debug)]
pub(crate) struct RegionState {
    pub(crate) region: Region,
    pub(crate) name: &'static str,
    pub(crate) is_pooled: bool,
    pub(crate) inner: Option<Region>,
    tracker: Tracker,
}

/// An event's own part.
pub(crate) struct Recorded {
    pub(crate) card: usize,
    pub(crate) context: u64,
    pub(crate) stream_name: &'static str,
    pub(crate) done: Duration,
    pub(crate) order: VectorClock,
    pub(crate) failure: Option<Error>,
    pub(crate) inner: Option<Event>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("streams", &self.streams)
            .field("regions", &self.regions)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(inner: Option<Arc<dyn Device>>, context_bytes: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            regions: BTreeMap::new(),
            pool: Pool::default(),
            seen: VectorClock::default(),
            idle_at: Duration::ZERO,
            enqueued: VectorClock::default(),
            context_bytes,
            inner,
        }
    }

    /// Bytes of device memory it holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        let regions = self.regions.values().filter(|region| !region.is_pooled);
        let regions: u64 = regions.map(|region| region.region.size_bytes()).sum();
        self.context_bytes + regions + self.pool.reserved_bytes
    }

    /// Bytes of all regions, from the driver or the pool.
    pub(crate) fn regions_bytes(&self) -> u64 {
        self.regions.values().map(|region| region.region.size_bytes()).sum()
    }

    pub(crate) fn stream(&mut self, stream: Stream) -> Result<&mut StreamState> {
        self.streams
            .get_mut(&stream.id())
            .ok_or_else(|| Error::invalid(format!("stream {} is not alive here", stream.id())))
    }

    pub(crate) fn region(&self, region: Region) -> Result<&RegionState> {
        self.regions
            .get(&region.id())
            .filter(|state| state.region == region)
            .ok_or_else(|| no_region(region))
    }

    pub(crate) fn insert_region(
        &mut self,
        region: Region,
        name: &'static str,
        is_pooled: bool,
        inner: Option<Region>,
    ) {
        let tracker = Tracker::default();
        self.regions.insert(region.id(), RegionState { region, name, is_pooled, inner, tracker });
    }

    /// The same view of the inner device's region, if there is one.
    pub(crate) fn inner_view(&self, view: View) -> Result<Option<View>> {
        let state = self.region(view.region())?;
        // A view lies within its region by construction; this keeps it true for the inner one.
        view.region().view(view.name(), view.offset_bytes(), view.len_bytes())?;
        state.inner.map(|inner| view.moved_to(inner)).transpose()
    }

    /// Counts an operation of `stream` that ends at `end`, and what it touches.
    pub(crate) fn count_op(
        &mut self,
        stream: Stream,
        op: &'static str,
        (start, end): (Duration, Duration),
        views: &[(View, Access)],
    ) -> Result<Vec<Race>> {
        let id = stream.id();
        let seen = self.seen.clone();
        let state = self.stream(stream)?;
        state.order.join(&seen);
        let order = state.order.clone();
        state.count += 1;
        state.ready = end;
        let count = state.count;
        state.order.know(id, count);
        self.enqueued.know(id, count);
        self.idle_at = self.idle_at.max(end);
        let mut races = Vec::new();
        for (view, access) in views {
            let Some(region) = self.regions.get_mut(&view.region().id()) else { continue };
            let bytes = view.offset_bytes()..view.end_bytes();
            let by = Use { stream: id, count, op, view: view.name(), at: start };
            races.extend(region.tracker.access(region.name, bytes, *access, by, &order));
        }
        Ok(races)
    }

    /// Removes a region that is freed by `op` on `stream` (the host without one).
    pub(crate) fn remove_region(
        &mut self,
        region: Region,
        op: &'static str,
        stream: Option<Stream>,
        at: Duration,
    ) -> Result<(RegionState, Option<Race>)> {
        let mut order = self.seen.clone();
        let mut by = Use { stream: 0, count: 0, op, view: "", at };
        if let Some(stream) = stream {
            let state = self.stream(stream)?;
            (by.stream, by.count) = (stream.id(), state.count + 1);
            order.join(&state.order);
        }
        self.region(region)?;
        let state = self.regions.remove(&region.id()).ok_or_else(|| no_region(region))?;
        by.view = state.name;
        let race = state.tracker.free(state.name, by, &order);
        Ok((state, race))
    }

    /// The host has seen all of `order` end.
    pub(crate) fn see(&mut self, order: &VectorClock) {
        self.seen.join(order);
    }

    /// The host has seen everything end.
    pub(crate) fn see_all(&mut self) {
        self.seen.join(&self.enqueued);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Some(inner) = &self.inner else { return };
        // The inner device refuses only handles that it has lost itself.
        for stream in self.streams.values().filter_map(|stream| stream.inner) {
            let _ = inner.destroy_stream(stream);
        }
        for region in self.regions.values().filter_map(|region| region.inner) {
            let _ = inner.free(region);
        }
    }
}

fn no_region(region: Region) -> Error {
    Error::invalid(format!("region {} is not alive here", region.id()))
}
