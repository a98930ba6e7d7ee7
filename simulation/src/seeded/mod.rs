//! Scenes drawn from a seed: cards of unequal sizes, jobs, cancels, faults, other processes.

mod programs;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use programs::Draft;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock::scheduler::admission::{PoolId, Ticket};
use twinlock::scheduler::core::Order;
use twinlock_api::MemoryClass;
use twinlock_sim::{CopyRate, Fault, FaultPlan, FaultRates, SimConfig};
pub use verdict::{Tally, run};

use crate::card::{SlotSpec, config};
use crate::program::Program;
use crate::protocol::ours::{CardSpec, Job, PoolWish, Pressure, Sabotage, Scene};

/// What sizes are drawn in. Cards are small so that runs are short; nothing depends on the scale.
const UNIT: u64 = 1 << 20;
/// From here on nothing goes wrong any more.
const FAULTS_END: Duration = Duration::from_secs(5);
/// When the last partition comes, to show that all works again.
const LAST: Duration = Duration::from_secs(60);
/// The job of that partition.
const LAST_JOB: u32 = 1_000;

/// The scene of a seed. One in four goes without any fault.
pub fn scene(seed: u64) -> Scene {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rng = &mut rng;
    let is_quiet = rng.gen_bool(0.25);
    let cards: Vec<CardSpec> =
        (0..rng.gen_range(1..=3)).map(|at| card(rng, seed, at, is_quiet)).collect();
    let residents: Vec<u64> =
        (0..rng.gen_range(0..=3)).map(|_| rng.gen_range(1..=3 * UNIT / 4) * 4).collect();
    let mut jobs = Vec::new();
    for job in 0..rng.gen_range(1..=4) {
        let priority = rng.gen_range(0..=2);
        let at = Duration::from_millis(rng.gen_range(0..3_000));
        let draft = Draft::draw(rng, &residents);
        let plans: Vec<Arc<Program>> =
            (0..rng.gen_range(1..=3)).filter_map(|lg| draft.plan(1 << lg)).collect();
        let host_bytes = rng.gen_range(0..20);
        for index in 0..rng.gen_range(1..=4) {
            let cancelled = !is_quiet && rng.gen_bool(0.15);
            let after = Duration::from_millis(rng.gen_range(0..2_000));
            jobs.push(Job {
                ticket: Order { priority, job, index }.ticket(),
                host_bytes,
                at,
                cancelled_at: cancelled.then_some(at + after),
                plans: cards.iter().map(|_| plans.clone()).collect(),
            });
        }
    }
    let small: Vec<Arc<Program>> = Draft::small().plan(1).into_iter().collect();
    jobs.push(Job {
        ticket: last_ticket(),
        host_bytes: 1,
        at: LAST,
        cancelled_at: None,
        plans: cards.iter().map(|_| small.clone()).collect(),
    });
    let pressures = if is_quiet { 0 } else { rng.gen_range(0..=2) };
    let pressures = (0..pressures).map(|_| pressure(rng, cards.len())).collect();
    let host_budget_bytes = rng.gen_range(1..60);
    Scene { cards, jobs, pressures, host_budget_bytes, sabotage: Sabotage::None }
}

/// The partition that comes last.
fn last_ticket() -> Ticket {
    Order { priority: 0, job: LAST_JOB, index: 0 }.ticket()
}

fn card(rng: &mut ChaCha8Rng, seed: u64, at: u64, is_quiet: bool) -> CardSpec {
    let memory_bytes = rng.gen_range(6..=40) * UNIT;
    let rate = CopyRate { pinned: 200e6, pageable: 20e6, latency: Duration::from_micros(5) };
    let rates = FaultRates {
        ops: 400,
        copies: 800,
        allocations: 8,
        time: FAULTS_END,
        out_of_memory: 0.1,
        slow_copies: 0.004,
        kernel_failed: 0.006,
        bit_flip: 0.006,
        lost: 0.003,
        open_fails: 0.4,
        other_process: 0.4,
        other_process_bytes: memory_bytes / 2,
        most: rng.gen_range(0..=6),
        until: FAULTS_END,
    };
    let mut faults = FaultPlan::from_seed(seed.wrapping_mul(31).wrapping_add(at), &rates);
    if rng.gen_bool(0.1) {
        faults.faults.push(Fault::LostAt { at: Duration::from_millis(rng.gen_range(50..4_000)) });
    }
    if is_quiet {
        faults = FaultPlan::none();
    }
    let config = SimConfig {
        context_bytes: UNIT,
        max_staging_bytes: 64 * UNIT,
        upload: rate,
        download: rate,
        faults,
        keeps_spans: false,
        ..config(format!("sim:{at}"), memory_bytes)
    };
    let wish = |class, share| PoolWish { class, share, most_bytes: u64::MAX };
    CardSpec {
        config,
        workers: rng.gen_range(1..=3),
        slots: SlotSpec { count: rng.gen_range(1..=4), size_bytes: UNIT >> rng.gen_range(0..=3) },
        pools: vec![
            wish(MemoryClass::Work, rng.gen_range(128..=256)),
            wish(MemoryClass::Resident, rng.gen_range(60..=120)),
        ],
        open_attempts: rng.gen_range(1..=5),
    }
}

fn pressure(rng: &mut ChaCha8Rng, cards: usize) -> Pressure {
    let from = Duration::from_millis(rng.gen_range(1..4_000));
    Pressure {
        card: rng.gen_range(0..cards),
        pool: PoolId(rng.gen_range(0..2)),
        size_bytes: rng.gen_range(1..=12 * UNIT),
        from,
        until: from + Duration::from_millis(rng.gen_range(1..4_000)),
    }
}
