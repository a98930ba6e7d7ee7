//! Measurements of devices through the public [`Device`] trait, with every result checked.
//!
//! A measurement is the median of some runs after others that warm up. The result of each timed run,
//! and of the very first, is held against an oracle outside of the clock, at its full size; a wrong
//! one is an error. A sum is compared with that of the bases' known logarithms. An NTT's output is
//! copied aside on the device, the input restored by the inverse, and the output compared at a random
//! point: as many runs go between two checks as the device has room for, so that it does not idle. A
//! proof is verified.

mod locks;
mod machine;
mod msm;
mod ntt;
mod proofs;
mod room;
mod scalars;
mod session;

use std::sync::Arc;
use std::time::Duration;

use blstrs::{G1Projective, G2Projective};
use serde::Serialize;
use twinlock_api::{Device, Group};

pub use locks::{LockPlan, LockTimes, run as run_locks};
pub use machine::Machine;
pub use scalars::Scalars;

pub use crate::times::milliseconds;
use crate::{Error, Result};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A forward NTT on device data, natural order in, bit-reversed out.
    Ntt,
    /// An MSM, bases on the device, from scalars in a staging buffer to the sum on the host.
    Msm(Group),
    /// A proof of `mix` from its assignment, key on the device.
    Prove,
}

/// How it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is measured.
    pub subject: Subject,
    /// Sizes as base-2 logarithms: elements, points or constraints.
    pub lgs: Vec<u32>,
    /// What MSM scalars and witnesses are like.
    pub scalars: Scalars,
    /// Runs that the median is of; at least one.
    pub iterations: usize,
    /// Tables of bases that MSMs and proofs may use, 1 for the bases alone.
    pub base_tables: u32,
    /// Whether to measure the steps apart too. Waiting for each costs some time of its own.
    pub steps: bool,
    /// How long to wait for a device.
    pub timeout: Duration,
}

/// The outcome for one size on one device.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Size as a base-2 logarithm.
    pub lg: u32,
    /// The device's name.
    pub device: String,
    /// The median of the runs in milliseconds.
    pub median_ms: f64,
    /// The shortest run in milliseconds.
    pub fastest_ms: f64,
    /// This median over the first device's, at the same size.
    pub ratio: f64,
    /// Medians of the steps in milliseconds, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A part of what is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Median in milliseconds.
    pub median_ms: f64,
}

/// Measures every size on every device; all devices get the same input. `progress` is told of
/// each measurement before it starts.
///
/// # Errors
/// `Limit` for a size that the host or a device has no room for, `Invalid` for a wrong result or
/// no runs at all, `Device` for what a device answers, and what a
/// proof can fail with.
pub fn run(
    plan: &Plan,
    devices: &[Arc<dyn Device>],
    progress: &dyn Fn(u32, &str),
) -> Result<Vec<Measurement>> {
    if plan.iterations == 0 {
        return Err(Error::Invalid { what: "iterations".into(), problem: "0 runs".into() });
    }
    let mut measurements = Vec::new();
    for &lg in &plan.lgs {
        let start = measurements.len();
        match plan.subject {
            Subject::Ntt => ntt::run(plan, lg, devices, progress, &mut measurements)?,
            Subject::Msm(Group::G1) => {
                msm::run::<G1Projective>(plan, lg, devices, progress, &mut measurements)?
            }
            Subject::Msm(Group::G2) => {
                msm::run::<G2Projective>(plan, lg, devices, progress, &mut measurements)?
            }
            Subject::Prove => proofs::run(plan, lg, devices, progress, &mut measurements)?,
        }
        let of_lg = measurements.get_mut(start..).unwrap_or_default();
        let first = of_lg.first().map_or(0.0, |measurement: &Measurement| measurement.median_ms);
        for measurement in of_lg {
            measurement.ratio = measurement.median_ms / first;
        }
    }
    Ok(measurements)
}

impl Measurement {
    fn new(lg: u32, device: &dyn Device, times: Vec<Duration>, steps: Vec<Step>) -> Self {
        let fastest = times.iter().min().copied().unwrap_or_default();
        Self {
            lg,
            device: device.info().name.clone(),
            median_ms: median_ms(times),
            fastest_ms: milliseconds(fastest),
            ratio: 1.0,
            steps,
        }
    }
}

/// The median in milliseconds; of an even number the mean of the middle two, of none 0.
fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let middle = times.len() / 2;
    let at = |i: usize| times.get(i).copied().unwrap_or_default();
    milliseconds(match times.len() % 2 {
        1 => at(middle),
        _ => (at(middle.wrapping_sub(1)) + at(middle)) / 2,
    })
}

/// Refuses a size whose elements a host vector or an index cannot hold.
fn length(lg: u32) -> Result<usize> {
    const LIMIT: u32 = 31;
    match 1usize.checked_shl(lg) {
        Some(len) if lg <= LIMIT => Ok(len),
        _ => Err(Error::Limit { what: "lg".into(), value: lg.into(), limit: LIMIT.into() }),
    }
}

fn wrong(device: &dyn Device, lg: u32, what: &str) -> Error {
    Error::Invalid {
        what: format!("{what} of lg {lg} on {}", device.info().name),
        problem: "the result is wrong".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let times = |list: &[u64]| list.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assert_eq!(median_ms(times(&[9, 1, 5])), 5.0);
        assert_eq!(median_ms(times(&[9, 1, 5, 6])), 5.5);
        assert_eq!(median_ms(Vec::new()), 0.0);
    }

    #[test]
    fn sizes_are_limited() {
        assert_eq!(length(31).unwrap(), 1 << 31);
        assert!(length(32).is_err());
        assert!(length(200).is_err());
    }
}
