//! The driver's calls that wait or allocate, those of CUDA among them that the contract lacks.

use std::sync::Arc;
use std::time::Duration;

use twinlock_api::{
    Device, Error, Event, MemoryClass, Region, Result, Staging, StagingKind, Stream,
};

use crate::card::{SimCard, State, Waited, lost};
use crate::context::Recorded;
use crate::cost::interpolate;
use crate::device::{INNER_TIMEOUT, SimDevice};
use crate::mem_guard::{MemGuard, enter_mem};
use crate::pool::Asking;

impl SimDevice {
    /// The card it was opened on.
    pub fn card(&self) -> &Arc<SimCard> {
        &self.core.card
    }

    /// As [`crate::enter_mem`].
    pub fn enter_mem(&self) -> MemGuard {
        enter_mem()
    }

    /// When the work before `event` ends, or fails. For drivers that simulate several workers in
    /// one thread: advance the clock there, then `query`.
    ///
    /// # Errors
    /// `InvalidArgument` for an event of another device.
    pub fn completion_time(&self, event: &Event) -> Result<Duration> {
        self.core.recorded(event).map(|recorded| recorded.done)
    }

    /// When all work enqueued so far ends: until then a device-wide synchronise, an allocation or a
    /// free would wait.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn idle_time(&self) -> Result<Duration> {
        Ok(self.core.enter()?.context(self.core.context)?.idle_at)
    }

    /// Waits for every stream, as `cudaDeviceSynchronize`.
    ///
    /// # Errors
    /// The first failure of any stream, `Timeout` or `DeviceLost`.
    pub fn device_synchronize(&self, timeout: Duration) -> Result<()> {
        let core = &self.core;
        let mut state = core.call()?;
        let idle_at = state.context(core.context)?.idle_at;
        core.card.check_rule(&mut state, "device_synchronize", "", idle_at)?;
        self.wait_until(&mut state, ("device_synchronize", ""), idle_at, timeout)?;
        state.context(core.context)?.see_all();
        self.release_past_threshold(&mut state)?;
        let failed = state.context(core.context)?.streams.values().find_map(|s| s.failure.clone());
        failed.map_or(Ok(()), Err)
    }

    /// A staging buffer in pageable memory: copies with it are slow, and the host waits for them.
    ///
    /// # Errors
    /// As [`Device::allocate_staging`].
    pub fn allocate_pageable_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        self.core.allocate_staging(name, kind, size_bytes, true)
    }

    /// Takes memory from the stream-ordered pool, for work on `stream` and what comes after it.
    /// Waits for nothing; where only memory still in use elsewhere is left, `stream` will.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    pub fn pool_allocate(
        &self,
        stream: Stream,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
    ) -> Result<Region> {
        let core = &self.core;
        let mut state = core.call()?;
        self.check_size(name, size_bytes)?;
        let start = core.card.clock().now();
        let free_bytes = state.memory.free_bytes();
        let no_room = |free_bytes| Error::OutOfMemory {
            what: name.into(),
            requested_bytes: size_bytes,
            free_bytes: Some(free_bytes),
        };
        let context = state.context(core.context)?;
        let mut order = context.seen.clone();
        order.join(&context.stream(stream)?.order);
        let asking = Asking { stream: stream.id(), order: &order, now: start };
        let found = context.pool.find(size_bytes, free_bytes, &asking).map_err(no_room)?;
        if found.grow_bytes > 0 {
            core.card.check_rule(&mut state, "pool_grow", name, start)?;
            if state.faults.on_allocation(start) {
                return Err(no_room(free_bytes));
            }
        }
        let inner =
            core.inner().map(|inner| inner.allocate(name, class, size_bytes)).transpose()?;
        // What was found was within the free bytes.
        state.memory.take(found.grow_bytes, start).map_err(no_room)?;
        let region = Region::fresh(class, size_bytes);
        let context = state.context(core.context)?;
        context.pool.commit(&found);
        context.insert_region(region, name, true, inner);
        let stream = context.stream(stream)?;
        stream.ready = stream.ready.max(found.ready);
        for (other, count) in found.after {
            stream.order.know(other, count);
        }
        if found.grow_bytes > 0 {
            let cost = interpolate(&core.card.config().driver_costs.allocate, found.grow_bytes);
            core.spend(&mut state, cost)?;
            core.add_host_span(&mut state, "pool_grow", name, found.grow_bytes, start);
        }
        Ok(region)
    }

    /// Gives a region of the pool back to it, after the work enqueued on `stream` so far. Waits for
    /// nothing; the driver's free memory does not grow.
    ///
    /// # Errors
    /// `InvalidArgument` for a region that did not come from the pool, `DeviceLost`.
    pub fn pool_free(&self, stream: Stream, region: Region) -> Result<()> {
        let core = &self.core;
        let mut state = core.call()?;
        let now = core.card.clock().now();
        let context = state.context(core.context)?;
        context.stream(stream)?;
        if !context.region(region)?.is_pooled {
            return Err(Error::invalid(format!("region {} is not of the pool", region.id())));
        }
        let (removed, race) = context.remove_region(region, "pool_free", Some(stream), now)?;
        let done = context.stream(stream)?.ready.max(now);
        context.count_op(stream, "pool_free", (done, done), &[])?;
        let count = context.stream(stream)?.count;
        context.pool.put(region.size_bytes(), stream.id(), count, done);
        state.add_races(race);
        drop(state);
        match (core.inner(), removed.inner) {
            (Some(inner), Some(region)) => inner.free(region),
            _ => Ok(()),
        }
    }

    /// Gives unused memory of the pool back to the driver until `keep_bytes` are left: only what the
    /// host has seen freed, by a synchronise or query behind it. Answers how many bytes went.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn pool_trim(&self, keep_bytes: u64) -> Result<u64> {
        let core = &self.core;
        let mut state = core.call()?;
        let idle_at = state.context(core.context)?.idle_at;
        let synchronizes = core.card.config().trim_synchronizes;
        let start = core.card.clock().now();
        let waits_until = if synchronizes { idle_at } else { start };
        core.card.check_rule(&mut state, "pool_trim", "", waits_until)?;
        // What is seen is settled before the wait.
        let released = self.release(&mut state, keep_bytes)?;
        if released > 0 && synchronizes {
            self.wait_until(&mut state, ("pool_trim", ""), idle_at, Duration::MAX)?;
        }
        self.pay_release(&mut state, "pool_trim", released)?;
        Ok(released)
    }

    /// The pool keeps at most this much unused memory through a synchronise (0 unless set).
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        let mut state = self.core.call()?;
        state.context(self.core.context)?.pool.release_threshold_bytes = bytes;
        Ok(())
    }

    /// Bytes that the pool holds, in use or not.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn pool_reserved_bytes(&self) -> Result<u64> {
        let mut state = self.core.enter()?;
        Ok(state.context(self.core.context)?.pool.reserved_bytes)
    }

    pub(crate) fn allocate_from_driver(
        &self,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
    ) -> Result<Region> {
        let core = &self.core;
        let mut state = core.call()?;
        self.check_size(name, size_bytes)?;
        let idle_at = state.context(core.context)?.idle_at;
        core.card.check_rule(&mut state, "allocate", name, idle_at)?;
        let start = core.card.clock().now();
        core.wait_idle(&mut state)?;
        let cost = interpolate(&core.card.config().driver_costs.allocate, size_bytes);
        core.spend(&mut state, cost)?;
        core.add_host_span(&mut state, "allocate", name, size_bytes, start);
        let now = core.card.clock().now();
        let no_room = |free_bytes| Error::OutOfMemory {
            what: name.into(),
            requested_bytes: size_bytes,
            free_bytes: Some(free_bytes),
        };
        let free_bytes = state.memory.free_bytes();
        if state.faults.on_allocation(now) || size_bytes > free_bytes {
            return Err(no_room(free_bytes));
        }
        let inner =
            core.inner().map(|inner| inner.allocate(name, class, size_bytes)).transpose()?;
        state.memory.take(size_bytes, now).map_err(no_room)?;
        let region = Region::fresh(class, size_bytes);
        state.context(core.context)?.insert_region(region, name, false, inner);
        Ok(region)
    }

    pub(crate) fn free_to_driver(&self, region: Region) -> Result<()> {
        let core = &self.core;
        let mut state = core.call()?;
        let context = state.context(core.context)?;
        let idle_at = context.idle_at;
        let found = context.region(region)?;
        let name = found.name;
        if found.is_pooled {
            return Err(Error::invalid(format!("region {} belongs to the pool", region.id())));
        }
        core.card.check_rule(&mut state, "free", name, idle_at)?;
        let start = core.card.clock().now();
        let context = state.context(core.context)?;
        // The contract asks the caller to have seen the last use end, although this driver waits.
        let (removed, race) = context.remove_region(region, "free", None, start)?;
        state.add_races(race);
        // It is removed, so nothing else gives its bytes back if the card is lost meanwhile.
        let waited = core.wait_idle(&mut state);
        state.memory.give(region.size_bytes(), core.card.clock().now());
        waited?;
        let cost = interpolate(&core.card.config().driver_costs.free, region.size_bytes());
        core.spend(&mut state, cost)?;
        core.add_host_span(&mut state, "free", name, region.size_bytes(), start);
        drop(state);
        match (core.inner(), removed.inner) {
            (Some(inner), Some(region)) => inner.free(region),
            _ => Ok(()),
        }
    }

    pub(crate) fn synchronize_event(&self, event: &Event, timeout: Duration) -> Result<()> {
        let core = &self.core;
        let mut state = core.call()?;
        let recorded = core.recorded(event)?;
        let call = ("synchronize", recorded.stream_name);
        core.card.check_rule(&mut state, call.0, call.1, recorded.done)?;
        self.wait_until(&mut state, call, recorded.done, timeout)?;
        state.context(core.context)?.see(&recorded.order);
        self.release_past_threshold(&mut state)?;
        drop(state);
        self.outcome(recorded)
    }

    /// What the work before a complete event came to.
    pub(crate) fn outcome(&self, recorded: &Recorded) -> Result<()> {
        match (&recorded.failure, self.core.inner(), &recorded.inner) {
            (Some(failure), ..) => Err(failure.clone()),
            (None, Some(inner), Some(event)) => inner.synchronize(event, INNER_TIMEOUT),
            _ => Ok(()),
        }
    }

    fn check_size(&self, name: &'static str, size_bytes: u64) -> Result<()> {
        let limit = self.info().max_region_bytes;
        if size_bytes <= limit {
            return Ok(());
        }
        Err(Error::ExceedsLimit { what: format!("{name}, bytes"), requested: size_bytes, limit })
    }

    /// Lets time pass until `done`, `timeout` at most.
    fn wait_until(
        &self,
        state: &mut State,
        (call, subject): (&'static str, &'static str),
        done: Duration,
        timeout: Duration,
    ) -> Result<()> {
        let core = &self.core;
        let start = core.card.clock().now();
        let waited = core.card.pass_until(state, done, start.saturating_add(timeout));
        core.add_host_span(state, call, subject, 0, start);
        match waited {
            Ok(()) => Ok(()),
            Err(Waited::Lost) => Err(lost()),
            Err(Waited::TooLong) => Err(Error::Timeout {
                what: format!("{call} {subject}").trim_end().into(),
                timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    fn release_past_threshold(&self, state: &mut State) -> Result<()> {
        let keep_bytes = state.context(self.core.context)?.pool.release_threshold_bytes;
        let released = self.release(state, keep_bytes)?;
        self.pay_release(state, "pool_release", released)
    }

    /// Gives back what the pool may, without the time for it.
    fn release(&self, state: &mut State, keep_bytes: u64) -> Result<u64> {
        let now = self.core.card.clock().now();
        let context = state.context(self.core.context)?;
        let released = context.pool.trim(keep_bytes, &context.seen);
        if released > 0 {
            state.memory.give(released, now);
        }
        Ok(released)
    }

    fn pay_release(&self, state: &mut State, call: &'static str, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let start = self.core.card.clock().now();
        let cost = interpolate(&self.core.card.config().driver_costs.free, bytes);
        self.core.spend(state, cost)?;
        self.core.add_host_span(state, call, "", bytes, start);
        Ok(())
    }
}
