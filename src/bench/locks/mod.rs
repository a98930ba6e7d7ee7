//! How long `mem` is held, and what runs at the same time: the scheduler's protocol on real
//! proofs, and beside it the first design's, which synchronises the device and calls the driver's
//! allocator under the lock.

mod naive;

use std::sync::Arc;
use std::time::{Duration, Instant};

use blstrs::Scalar;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use twinlock_api::Device;

use super::{Scalars, milliseconds, proofs};
use crate::circuits::mix::{Mix, MixShape};
use crate::scheduler::events::{EventKind, EventSink, Recorder, TimedEvent};
use crate::scheduler::locks::breaches;
use crate::scheduler::occupancy::{Observer, Spans, total};
use crate::{Error, Job, PartitionInput, Prover, ProverOptions, Result};

const SEED: u64 = 3;

/// What is run on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlan {
    /// Constraints of a partition, as a base-2 logarithm.
    pub lg: u32,
    /// What witnesses are like.
    pub scalars: Scalars,
    /// Partitions, and the workers that carry them.
    pub partitions: usize,
    /// Partitions at work at once.
    pub workers: usize,
    /// The most device memory to take.
    pub memory_bytes: Option<u64>,
    /// How long to wait for the device.
    pub timeout: Duration,
}

/// What was seen of one protocol.
#[derive(Clone, Debug, Serialize)]
pub struct LockTimes {
    /// `twinlock` or `naive`.
    pub protocol: &'static str,
    /// How often `mem` was held.
    pub holds: usize,
    /// Median of the times that it was held, in milliseconds.
    pub median_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub longest_ms: f64,
    /// Time that partitions staged, in milliseconds, summed.
    pub staging_ms: f64,
    /// The part of it during which another partition held `compute`.
    pub overlap_ms: f64,
    /// From the first partition's start to the last one's end.
    pub total_ms: f64,
    /// Waits and allocations under `mem`, where they are watched.
    pub breaches: u64,
}

/// What a protocol did.
#[derive(Default)]
struct Seen {
    holds: Vec<Duration>,
    spans: Spans,
}

impl Seen {
    fn times(mut self, protocol: &'static str, whole: Duration, breaches: u64) -> LockTimes {
        self.holds.sort_unstable();
        let at = |share: f64| {
            let index = (self.holds.len().saturating_sub(1) as f64 * share).ceil() as usize;
            milliseconds(self.holds.get(index).copied().unwrap_or_default())
        };
        LockTimes {
            protocol,
            holds: self.holds.len(),
            median_ms: at(0.5),
            p99_ms: at(0.99),
            longest_ms: at(1.0),
            staging_ms: milliseconds(total(&self.spans.staging)),
            overlap_ms: milliseconds(self.spans.overlap()),
            total_ms: milliseconds(whole),
            breaches,
        }
    }

    /// What the scheduler told of one device.
    fn of_events(events: &[TimedEvent], device: &str) -> Self {
        let observer = Observer::default();
        let mut holds = Vec::new();
        for event in events {
            observer.take(event);
            if let EventKind::MemHeld { since } = event.kind {
                holds.push(event.at.saturating_sub(since));
            }
        }
        Self { holds, spans: observer.spans_of(device) }
    }

    /// The mean time that a partition computes.
    fn mean_compute(&self) -> Duration {
        let compute = &self.spans.compute;
        total(compute) / u32::try_from(compute.len()).unwrap_or(u32::MAX).max(1)
    }
}

/// Runs both protocols on a device, ours first.
///
/// # Errors
/// What proofs can fail with; `Device` for what the device answers.
pub fn run(
    plan: &LockPlan,
    device: &Arc<dyn Device>,
    progress: &dyn Fn(&str),
) -> Result<Vec<LockTimes>> {
    let shape = MixShape::new(plan.lg, plan.scalars.profile())?;
    shape.require_key_room()?;
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    progress("key");
    let params = proofs::key(std::slice::from_ref(device), shape, &mut rng)?;
    let assignment = Mix::random(shape, &mut rng).assignment()?;

    progress("proofs");
    let before = breaches();
    let (seen, held_bytes, whole) = {
        let options = ProverOptions {
            timeout: plan.timeout,
            workers: plan.workers,
            memory_bytes: plan.memory_bytes,
            ..ProverOptions::default()
        };
        let prover = Prover::with_devices(vec![device.clone()], options)?;
        let key = prover.load(&params)?;
        // From here on the memories are there and the key is on the device.
        let recorder = Arc::new(Recorder::default());
        prover.observe(recorder.clone());
        let start = Instant::now();
        let held_bytes = prover.serve(|session| {
            let partition = |number: usize| {
                let blinding = |salt: u64| Scalar::from(number as u64 + salt);
                PartitionInput::ready(&assignment, blinding(1), blinding(2))
            };
            let partitions = (0..plan.partitions).map(partition).collect();
            let job = session.submit(Job { key: &key, priority: 0, partitions })?;
            for proved in job {
                proved?;
            }
            device.memory().map_err(|source| named(&**device, source))
        })?;
        (
            Seen::of_events(&recorder.events(), &device.info().name),
            held_bytes.regions_bytes,
            start.elapsed(),
        )
    };
    let compute = seen.mean_compute();
    let ours = seen.times("twinlock", whole, breaches() - before);

    progress("the naive protocol");
    let start = Instant::now();
    let seen = naive::run(plan, device, compute, held_bytes / plan.workers.max(1) as u64)
        .map_err(|source| named(&**device, source))?;
    Ok(vec![ours, seen.times("naive", start.elapsed(), 0)])
}

fn named(device: &dyn Device, source: twinlock_api::Error) -> Error {
    Error::Device { device: device.info().name.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_counts_other_workers_only() {
        let ms = Duration::from_millis;
        let seen = Seen {
            holds: (1..=100).map(ms).collect(),
            spans: Spans {
                staging: vec![(0, (ms(0), ms(10))), (1, (ms(5), ms(20)))],
                compute: vec![(0, (ms(10), ms(15))), (1, (ms(20), ms(30)))],
            },
        };
        assert_eq!(seen.mean_compute(), Duration::from_micros(7500));
        let times = seen.times("x", ms(30), 0);
        assert_eq!((times.holds, times.staging_ms, times.overlap_ms), (100, 25.0, 5.0));
        // Nearest rank, rounded up: never below what 99 of 100 stayed under.
        assert_eq!((times.p99_ms, times.longest_ms), (100.0, 100.0));
        let nothing = Seen::default().times("x", ms(0), 0);
        assert_eq!((nothing.holds, nothing.p99_ms), (0, 0.0));
    }

    #[test]
    fn both_protocols_run_on_the_cpu() {
        let options = twinlock_api::OpenOptions::default();
        let device = crate::registry::open("cpu", &options).unwrap();
        let plan = LockPlan {
            lg: 8,
            scalars: Scalars::Random,
            partitions: 4,
            workers: 2,
            memory_bytes: Some(256 << 20),
            timeout: Duration::from_secs(600),
        };
        let times = run(&plan, &device, &|_| ()).unwrap();
        let [ours, naive] = &times[..] else { panic!("{times:?}") };
        assert!(ours.holds > 4 && ours.breaches == 0, "{ours:?}");
        assert_eq!(naive.holds, 2 * plan.partitions, "{naive:?}");
        assert!(naive.median_ms > 0.0 && naive.longest_ms >= naive.p99_ms, "{naive:?}");
        assert_eq!(device.memory().unwrap().regions_bytes, 0);
    }
}
