//! The events of a run, with virtual times.

use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock::scheduler::events::{EventKind, Life, TimedEvent};

/// From when to when.
pub type Span = (Duration, Duration);

/// What happened, in order.
#[derive(Debug, Clone, Default)]
pub struct Record {
    events: Vec<TimedEvent>,
}

impl Record {
    /// Notes an event.
    pub fn note(&mut self, at: Duration, device: Option<&str>, worker: usize, kind: EventKind) {
        self.events.push(TimedEvent { at, device: device.map(str::to_owned), worker, kind });
    }

    /// Notes a step of a partition's life.
    pub fn life(
        &mut self,
        at: Duration,
        device: Option<&str>,
        worker: usize,
        (ticket, life): (Ticket, Life),
    ) {
        self.note(at, device, worker, EventKind::Partition(ticket, life));
    }

    /// All events.
    pub fn events(&self) -> &[TimedEvent] {
        &self.events
    }

    /// How often `pick` is true of a step of a partition's life.
    pub fn count(&self, pick: impl Fn(&Life) -> bool) -> usize {
        let lives = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Partition(_, life) => Some(life),
            _ => None,
        });
        lives.filter(|life| pick(life)).count()
    }

    /// The spans between a start and an end of each partition.
    fn spans(
        &self,
        starts: impl Fn(&Life) -> bool,
        ends: impl Fn(&Life) -> bool,
    ) -> Vec<(Ticket, Span)> {
        let mut open: Vec<(Ticket, Duration)> = Vec::new();
        let mut spans = Vec::new();
        for event in &self.events {
            let EventKind::Partition(ticket, life) = &event.kind else { continue };
            if starts(life) {
                open.push((*ticket, event.at));
            } else if ends(life)
                && let Some(at) = open.iter().position(|(other, _)| other == ticket)
            {
                let (ticket, since) = open.swap_remove(at);
                spans.push((ticket, (since, event.at)));
            }
        }
        spans
    }

    /// When each partition was staged ahead.
    pub fn staging(&self) -> Vec<(Ticket, Span)> {
        self.stage("prestage")
    }

    /// When each partition ran a stage.
    pub fn stage(&self, name: &str) -> Vec<(Ticket, Span)> {
        self.spans(
            |life| matches!(life, Life::StageStarted(stage) if *stage == name),
            |life| matches!(life, Life::StageEnded(stage) if *stage == name),
        )
    }

    /// When each partition had `compute`.
    pub fn computing(&self) -> Vec<(Ticket, Span)> {
        self.spans(
            |life| *life == Life::ComputeStarted,
            |life| {
                *life == Life::ComputeEnded || life.is_end() || matches!(life, Life::Retried { .. })
            },
        )
    }

    /// When `mem` was held, by worker.
    pub fn mem_held(&self) -> Vec<(usize, Span)> {
        let held = self.events.iter().filter_map(|event| match event.kind {
            EventKind::MemHeld { since } => Some((event.worker, (since, event.at))),
            _ => None,
        });
        held.collect()
    }
}

/// For how long two lists of spans of *different* partitions ran at once.
pub fn overlap(a: &[(Ticket, Span)], b: &[(Ticket, Span)]) -> Duration {
    let pairs =
        a.iter().flat_map(|a| b.iter().filter(move |b| a.0 != b.0).map(move |b| (a.1, b.1)));
    pairs.map(|(a, b)| a.1.min(b.1).saturating_sub(a.0.max(b.0))).sum()
}
