//! One device during a measurement: its memory, a stream, the way in and out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use twinlock_api::{Device, Error as DeviceError, Event, MemoryClass, Op, Staging, Stream, View};

use super::{Step, median_ms};
use crate::scheduler::arena::{Arena, Lease};
use crate::scheduler::staging::{Readback, StagingRing};
use crate::{Error, Result};

const SLOTS: usize = 3;
const SLOT_BYTES: u64 = 8 << 20;

pub(super) struct Session {
    pub device: Arc<dyn Device>,
    arena: Arena,
    stream: Stream,
    /// For uploads beside the work of `stream`.
    upload_stream: Stream,
    staging: StagingRing,
    readback: Readback,
    pub timeout: Duration,
    pub clock: StepClock,
}

impl Session {
    pub fn new(device: &Arc<dyn Device>, timeout: Duration, steps: bool) -> Result<Self> {
        let device = device.clone();
        let name = device.info().name.clone();
        let open = || {
            Ok(Self {
                arena: Arena::new(device.clone(), device.memory()?.free_bytes),
                staging: StagingRing::new(&*device, SLOTS, SLOT_BYTES, timeout)?,
                readback: Readback::new(&*device, SLOT_BYTES, timeout)?,
                stream: device.create_stream("bench")?,
                upload_stream: device.create_stream("bench_upload")?,
                clock: StepClock::new(steps),
                device: device.clone(),
                timeout,
            })
        };
        open().map_err(|source| Error::Device { device: name, source })
    }

    pub fn named(&self, source: DeviceError) -> Error {
        Error::Device { device: self.device.info().name.clone(), source }
    }

    /// Takes memory from the driver; not to be timed.
    pub fn buffer(
        &self,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
    ) -> Result<Lease, DeviceError> {
        // Offered even where nothing is needed: every operation takes a view.
        let size_bytes = size_bytes.max(1);
        self.arena.reserve(class, size_bytes)?;
        self.arena.lease(name, class, size_bytes)
    }

    pub fn upload(&mut self, target: View, bytes: &[u8]) -> Result<(), DeviceError> {
        self.staging.upload(&*self.device, self.stream, target, 4, |offset, out| {
            let piece = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(piece.ok_or_else(|| DeviceError::invalid("upload past its end"))?);
            Ok::<(), DeviceError>(())
        })?;
        self.finish()
    }

    /// Enqueues a copy of what a staging buffer holds, beside other work; it is there when the
    /// event has come.
    pub fn upload_beside(
        &mut self,
        source: &mut dyn Staging,
        target: View,
    ) -> Result<Event, DeviceError> {
        self.device.upload(self.upload_stream, source, 0, target)?;
        self.device.record(self.upload_stream)
    }

    /// Makes what follows wait for `event`; the host, too, if steps are measured apart.
    pub fn after(&mut self, name: &'static str, event: &Event) -> Result<(), DeviceError> {
        self.device.wait(self.stream, event)?;
        if self.clock.is_on() {
            self.finish()?;
            self.clock.lap(name);
        }
        Ok(())
    }

    pub fn download(&mut self, source: View) -> Result<Vec<u8>, DeviceError> {
        Ok(self.readback.read(&*self.device, self.stream, source)?.to_vec())
    }

    /// Copies `source` over all of `target`.
    pub fn download_into(&mut self, source: View, target: &mut [u8]) -> Result<(), DeviceError> {
        self.readback.read_into(&*self.device, self.stream, source, target)
    }

    /// Enqueues a step. Waits for it if steps are measured apart.
    pub fn step(&mut self, name: &'static str, op: &Op) -> Result<(), DeviceError> {
        self.device.enqueue(self.stream, op)?;
        if self.clock.is_on() {
            self.finish()?;
            self.clock.lap(name);
        }
        Ok(())
    }

    /// Waits for everything enqueued.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.device.synchronize(&self.device.record(self.stream)?, self.timeout)
    }

    /// Times `iterations` runs. What each gives goes to `keep` with its number in its batch, and, when
    /// the batch has run, to `check`, both outside the clock. A run before all others is checked at
    /// once; one before each batch is not: it warms a device that idled while the host checked.
    pub fn time<T, K>(
        &mut self,
        (iterations, batch): (usize, usize),
        mut run: impl FnMut(&mut Self) -> Result<T, DeviceError>,
        mut keep: impl FnMut(&mut Self, usize, T) -> Result<K, DeviceError>,
        mut check: impl FnMut(&mut Self, usize, K) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let mut run = |session: &mut Self, at, counts| {
            let timed = session.timed(counts, &mut run);
            let kept = timed.and_then(|(time, found)| Ok((time, keep(session, at, found)?)));
            kept.map_err(|source| session.named(source))
        };
        let (_, first) = run(self, 0, false)?;
        check(self, 0, first)?;
        let mut times = Vec::with_capacity(iterations);
        while times.len() < iterations {
            run(self, 0, false)?;
            let mut kept = Vec::new();
            for at in 0..batch.clamp(1, iterations - times.len()) {
                let (time, found) = run(self, at, true)?;
                times.push(time);
                kept.push(found);
            }
            for (at, found) in kept.into_iter().enumerate() {
                check(self, at, found)?;
            }
        }
        Ok(times)
    }

    /// What `run` gives and how long it took; steps are noted if it `counts`.
    fn timed<T>(
        &mut self,
        counts: bool,
        run: impl FnOnce(&mut Self) -> Result<T, DeviceError>,
    ) -> Result<(Duration, T), DeviceError> {
        let start = Instant::now();
        self.clock.start(start, counts);
        let found = run(self);
        let time = start.elapsed();
        self.clock.counts = false;
        Ok((time, found?))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let ended = (self.finish())
            .and_then(|()| self.device.destroy_stream(self.stream))
            .and_then(|()| self.device.destroy_stream(self.upload_stream));
        if let Err(error) = ended {
            tracing::debug!(%error, "the stream of a measurement did not end cleanly");
        }
    }
}

/// Times of a run's steps.
pub(super) struct StepClock {
    last: Option<Instant>,
    /// Whether what runs now is noted.
    counts: bool,
    laps: Vec<(&'static str, Vec<Duration>)>,
}

impl StepClock {
    fn new(on: bool) -> Self {
        Self { last: on.then(Instant::now), counts: false, laps: Vec::new() }
    }

    pub fn is_on(&self) -> bool {
        self.last.is_some()
    }

    fn start(&mut self, now: Instant, counts: bool) {
        self.counts = counts;
        if let Some(last) = &mut self.last {
            *last = now;
        }
    }

    /// Ends a step that began where the last one ended.
    pub fn lap(&mut self, name: &'static str) {
        let Some(last) = &mut self.last else { return };
        let now = Instant::now();
        let time = now - std::mem::replace(last, now);
        if !self.counts {
            return;
        }
        match self.laps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(time),
            None => self.laps.push((name, vec![time])),
        }
    }

    pub fn steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.laps)
            .into_iter()
            .map(|(name, times)| Step { name, median_ms: median_ms(times) })
            .collect()
    }
}
