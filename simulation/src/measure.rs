//! What a run of partitions came to.

use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::events::Life;
use twinlock_api::Result;
use twinlock_sim::{Lane, SimCard};

use crate::check::Broken;
use crate::porep::{scene, shop};
use crate::program::Program;
use crate::protocol::naive::{self, NoRoom};
use crate::protocol::{ours, serial};
use crate::record::Record;

/// Times and counts of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Until the last partition ended, loading residents included.
    pub total: Duration,
    /// From the first kernel to the last.
    pub span: Duration,
    /// The time in it in which the device computed.
    pub busy: Duration,
    /// Partitions that ended with a proof.
    pub finished: usize,
    /// Partitions that ran out of memory.
    pub failed: usize,
}

impl Measured {
    fn of(record: &Record, card: &SimCard) -> Self {
        let log = card.log();
        let kernels =
            || log.spans.iter().filter(|span| span.lane == Lane::Compute && span.start < span.end);
        let first = kernels().map(|span| span.start).min().unwrap_or_default();
        let last = kernels().map(|span| span.end).max().unwrap_or_default();
        Self {
            total: record.events().last().map(|event| event.at).unwrap_or_default(),
            span: last.saturating_sub(first),
            busy: log.busy(Lane::Compute, first, last),
            finished: record.count(|life| *life == Life::Done),
            failed: record.count(|life| matches!(life, Life::Failed { .. })),
        }
    }

    /// The share of the time from the first kernel to the last in which the device computed.
    pub fn utilisation(&self) -> f64 {
        self.busy.as_secs_f64() / self.span.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// One lock.
///
/// # Errors
/// What the device answers.
pub fn one_lock(gib: u64, workers: usize, partitions: u32, p: &Arc<Program>) -> Result<Measured> {
    let (record, card) = serial::play(&shop(gib, workers, partitions.into(), p))?;
    Ok(Measured::of(&record, &card))
}

/// The naive two locks.
///
/// # Errors
/// What the device answers.
pub fn two_locks(gib: u64, workers: usize, partitions: u32, p: &Arc<Program>) -> Result<Measured> {
    let played = naive::play(&shop(gib, workers, partitions.into(), p), NoRoom::FallBack)?;
    Ok(Measured::of(&played.record, &played.card))
}

/// The product's scheduler.
///
/// # Errors
/// What the checks found.
pub fn scheduler(
    gib: u64,
    workers: usize,
    partitions: u32,
    program: &Arc<Program>,
) -> std::result::Result<Measured, Broken> {
    let played = ours::play(scene(gib, workers, partitions, program))?;
    let card = played.cards.first().ok_or_else(|| Broken::Setup("no card".into()))?;
    Ok(Measured::of(&played.record, card))
}
