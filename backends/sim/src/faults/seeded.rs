//! Plans drawn from a seed.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Fault, FaultPlan};

/// How likely each fault is, and over how much of a run. Chances are between 0 and 1 (others count
/// as the nearest of these).
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRates {
    /// Operations that may fail.
    pub ops: u64,
    /// Copies that may be slow.
    pub copies: u64,
    /// Allocations that may fail.
    pub allocations: u64,
    /// Times in which other processes come.
    pub time: Duration,
    /// Chance of an allocation to find no room.
    pub out_of_memory: f64,
    /// Chance of a copy to begin a slow stretch.
    pub slow_copies: f64,
    /// Chance of an operation to fail.
    pub kernel_failed: f64,
    /// Chance of an operation to have a bit flipped.
    pub bit_flip: f64,
    /// Chance of an operation to lose the card.
    pub lost: f64,
    /// Chance that reopening fails at first.
    pub open_fails: f64,
    /// Chance that another process comes.
    pub other_process: f64,
    /// The most that it takes, in bytes.
    pub other_process_bytes: u64,
    /// After this many faults no more happen.
    pub most: u64,
    /// From this time on no more happen.
    pub until: Duration,
}

impl Default for FaultRates {
    /// A few of each in a thousand operations.
    fn default() -> Self {
        Self {
            ops: 1_000,
            copies: 1_000,
            allocations: 50,
            time: Duration::from_secs(10),
            out_of_memory: 0.02,
            slow_copies: 0.002,
            kernel_failed: 0.001,
            bit_flip: 0.001,
            lost: 0.0005,
            open_fails: 0.1,
            other_process: 0.3,
            other_process_bytes: 4 << 30,
            most: u64::MAX,
            until: Duration::MAX,
        }
    }
}

impl FaultPlan {
    /// The plan that belongs to `seed` under `rates`.
    pub fn from_seed(seed: u64, rates: &FaultRates) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut faults = Vec::new();
        for allocation in hits(&mut rng, rates.allocations, rates.out_of_memory) {
            faults.push(Fault::OutOfMemory { allocation });
        }
        for first in hits(&mut rng, rates.copies, rates.slow_copies) {
            let (count, factor) = (rng.gen_range(1..=20), rng.gen_range(2..=50));
            faults.push(Fault::SlowCopies { first, count, factor });
        }
        for op in hits(&mut rng, rates.ops, rates.kernel_failed) {
            faults.push(Fault::KernelFailed { op });
        }
        for op in hits(&mut rng, rates.ops, rates.bit_flip) {
            faults.push(Fault::BitFlip { op, bit: rng.r#gen() });
        }
        for op in hits(&mut rng, rates.ops, rates.lost) {
            faults.push(Fault::LostAtOp { op });
        }
        if !hits(&mut rng, 1, rates.open_fails).is_empty() {
            faults.push(Fault::OpenFails { count: rng.gen_range(1..=3) });
        }
        if !hits(&mut rng, 1, rates.other_process).is_empty() && rates.other_process_bytes > 0 {
            let whole = u64::try_from(rates.time.as_nanos()).unwrap_or(u64::MAX).max(1);
            let from = rng.gen_range(0..whole);
            let len = rng.gen_range(1..=whole);
            faults.push(Fault::OtherProcess {
                from: Duration::from_nanos(from),
                until: Duration::from_nanos(from.saturating_add(len)),
                bytes: rng.gen_range(1..=rates.other_process_bytes),
            });
        }
        Self { seed: Some(seed), faults, most: rates.most, until: rates.until }
    }
}

/// Which of `count` things are hit, each with `chance`.
fn hits(rng: &mut ChaCha8Rng, count: u64, chance: f64) -> Vec<u64> {
    let chance = if chance.is_nan() { 0.0 } else { chance.clamp(0.0, 1.0) };
    (0..count).filter(|_| rng.gen_bool(chance)).collect()
}
