//! What a seed's run must have come to, beside what is checked in every run.

use std::fmt;

use twinlock::scheduler::admission::{Action, Admission, Event, PoolSpec, Ticket};
use twinlock::scheduler::core::{End, Fault as Cause};
use twinlock::scheduler::events::Life;
use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_sim::Fault;

use super::{last_ticket, scene};
use crate::check::Broken;
use crate::protocol::ours::{CardSpec, Job, Played, Scene, play};

/// What happened in some runs, to see that what can happen does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Steps of the core.
    pub steps: u64,
    /// Partitions that ended with a proof.
    pub finished: u64,
    /// Partitions that were stopped.
    pub cancelled: u64,
    /// Partitions that failed.
    pub failed: u64,
    /// Attempts that another followed.
    pub retried: u64,
    /// Prestages that found some room, or none.
    pub short: u64,
    /// Times that a budget shrank.
    pub shrunk: u64,
    /// Residents evicted.
    pub evicted: u64,
    /// Allocations that found no room by a fault.
    pub out_of_memory: u64,
    /// Slow stretches of copies.
    pub slow_copies: u64,
    /// Operations that failed.
    pub kernels_failed: u64,
    /// Bits flipped.
    pub flips: u64,
    /// Losses of a card.
    pub lost: u64,
    /// Cards that stayed lost.
    pub gone: u64,
    /// Other processes.
    pub others: u64,
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.fields().into_iter().zip(other.clone().fields()) {
            *own += *other;
        }
    }

    fn fields(&mut self) -> [&mut u64; 16] {
        [
            &mut self.seeds,
            &mut self.steps,
            &mut self.finished,
            &mut self.cancelled,
            &mut self.failed,
            &mut self.retried,
            &mut self.short,
            &mut self.shrunk,
            &mut self.evicted,
            &mut self.out_of_memory,
            &mut self.slow_copies,
            &mut self.kernels_failed,
            &mut self.flips,
            &mut self.lost,
            &mut self.gone,
            &mut self.others,
        ]
    }

    /// Whether nothing that can happen did not.
    pub fn is_varied(&self) -> bool {
        self.clone().fields().iter().all(|count| **count > 0)
    }

    fn of(played: &Played) -> Self {
        let ends =
            |pick: fn(&End) -> bool| played.ends.values().filter(|end| pick(end)).count() as u64;
        let lives = |pick: fn(&Life) -> bool| played.record.count(pick) as u64;
        let fired: Vec<Fault> = (played.cards.iter())
            .flat_map(|card| card.faults_fired().into_iter().map(|(_, fault)| fault))
            .collect();
        let faults =
            |pick: fn(&Fault) -> bool| fired.iter().filter(|fault| pick(fault)).count() as u64;
        Self {
            seeds: 1,
            steps: played.steps,
            finished: ends(|end| *end == End::Finished),
            cancelled: ends(|end| *end == End::Cancelled),
            failed: ends(|end| matches!(end, End::Failed(_))),
            retried: lives(|life| matches!(life, Life::Retried { .. })),
            short: lives(|life| {
                matches!(life, Life::PrestagePartial(_) | Life::PrestageDeferred(_))
            }),
            shrunk: played.shrunk,
            evicted: played.evicted,
            out_of_memory: faults(|fault| matches!(fault, Fault::OutOfMemory { .. })),
            slow_copies: faults(|fault| matches!(fault, Fault::SlowCopies { .. })),
            kernels_failed: faults(|fault| matches!(fault, Fault::KernelFailed { .. })),
            flips: faults(|fault| matches!(fault, Fault::BitFlip { .. })),
            lost: played.cards.iter().map(|card| card.losses()).sum(),
            gone: played.gone.iter().filter(|gone| **gone).count() as u64,
            others: faults(|fault| matches!(fault, Fault::OtherProcess { .. })),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} seeds, {} steps; {} finished, {} cancelled, {} failed, {} retried, {} prestages \
             short of room, {} times shrunk, {} evictions; faults: {} out of memory, {} slow, {} failed, {} \
             flipped, {} lost ({} for good), {} other processes",
            self.seeds,
            self.steps,
            self.finished,
            self.cancelled,
            self.failed,
            self.retried,
            self.short,
            self.shrunk,
            self.evicted,
            self.out_of_memory,
            self.slow_copies,
            self.kernels_failed,
            self.flips,
            self.lost,
            self.gone,
            self.others,
        )
    }
}

/// Plays a seed.
///
/// # Errors
/// What did not hold.
pub fn run(seed: u64) -> Result<Tally, Broken> {
    let scene = scene(seed);
    let played = play(scene.clone())?;
    let tally = Tally::of(&played);
    let is_quiet = scene.cards.iter().all(|card| card.config.faults.faults.is_empty())
        && scene.pressures.is_empty();
    for (ticket, end) in &played.ends {
        let unjust = |what: &str| {
            Err(Broken::NotAsPromised {
                ticket: *ticket,
                what: format!("ended as {end:?}: {what}"),
            })
        };
        let job = scene.jobs.iter().find(|job| job.ticket == *ticket);
        let Some(job) = job else { return unjust("nobody submitted it") };
        match end {
            End::Finished => {}
            End::Cancelled if job.cancelled_at.is_some() => {}
            End::Cancelled => return unjust("nobody cancelled it"),
            End::Failed(Cause::NoRoom) if is_quiet && fits_somewhere(&scene, job) => {
                return unjust("a card has room for one of its plans");
            }
            End::Failed(Cause::NoRoom) => {}
            End::Failed(Cause::Wrong) if tally.kernels_failed + tally.flips > 0 => {}
            // Also what is left when no card may take it any more.
            End::Failed(Cause::Lost) if tally.lost > 0 => {}
            End::Failed(_) => return unjust("no fault explains it"),
        }
    }
    let last = played.ends.get(&last_ticket());
    if last != Some(&End::Finished) && played.gone.iter().any(|gone| !gone) {
        let what = format!("all faults are over, yet it ended as {last:?}");
        return Err(Broken::NotAsPromised { ticket: last_ticket(), what });
    }
    Ok(tally)
}

fn fits_somewhere(scene: &Scene, job: &Job) -> bool {
    scene.cards.iter().zip(&job.plans).any(|(card, plans)| {
        plans.iter().any(|plan| {
            let event = Event::Arrive { ticket: Ticket(0), profile: plan.profile.clone() };
            let mut alone = Admission::new(pools(card));
            alone.step(event).iter().any(|action| matches!(action, Action::Admitted { .. }))
        })
    })
}

/// The memories that a card has when nobody else uses it.
fn pools(card: &CardSpec) -> Vec<PoolSpec> {
    let mut left_bytes = card.config.memory_bytes - card.config.context_bytes;
    let mut pools = Vec::new();
    for wish in card.pools.iter().rev() {
        let size_bytes = left_bytes * wish.share / 256 / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
        left_bytes -= size_bytes;
        pools.push(PoolSpec { capacity_bytes: size_bytes, align_bytes: ARENA_ALIGN_BYTES });
    }
    pools.reverse();
    pools
}
