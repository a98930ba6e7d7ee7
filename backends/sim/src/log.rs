//! What happened when, in virtual time.

use std::time::Duration;

use twinlock_api::Stream;

/// Where time was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The compute engine.
    Compute,
    /// The engine that copies from the host.
    Upload,
    /// The engine that copies to the host.
    Download,
    /// A host thread in a call that went to the driver's allocator or waited for the device.
    Host,
}

/// A stretch of virtual time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub lane: Lane,
    /// The stream; none on [`Lane::Host`].
    pub stream: Option<Stream>,
    /// The stream's name; empty on [`Lane::Host`].
    pub stream_name: &'static str,
    /// The operation's name, `upload`, `download`, or the host's call.
    pub op: &'static str,
    /// Name of what it writes (reads, for a download); of the region for a host call.
    pub view: &'static str,
    /// Bytes of that.
    pub bytes: u64,
    /// Since the clock's start.
    pub start: Duration,
    /// Since the clock's start.
    pub end: Duration,
}

/// Memory in use from one moment to the next sample's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySample {
    /// Since the clock's start.
    pub at: Duration,
    /// Held by the devices opened on the card: contexts, regions, pools.
    pub held_bytes: u64,
    /// Held by other processes.
    pub other_bytes: u64,
}

/// The record of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// In the order in which they were enqueued or called. A lost device's spans that had not
    /// ended are cut at the loss.
    pub spans: Vec<Span>,
    /// Every change of the memory in use.
    pub memory: Vec<MemorySample>,
}

impl Log {
    /// How long `lane` was busy between two times.
    pub fn busy(&self, lane: Lane, from: Duration, to: Duration) -> Duration {
        let spans = self.spans.iter().filter(|span| span.lane == lane);
        total(&union(spans.map(|span| (span.start.max(from), span.end.min(to)))))
    }

    /// The share of the time between `from` and `to` in which the compute engine was busy; 0 when
    /// there is no time between them.
    pub fn utilisation(&self, from: Duration, to: Duration) -> f64 {
        let all = to.saturating_sub(from);
        if all.is_zero() {
            return 0.0;
        }
        self.busy(Lane::Compute, from, to).as_secs_f64() / all.as_secs_f64()
    }

    /// For how long spans picked by `a` and spans picked by `b` ran at once.
    pub fn overlap_of(&self, a: impl Fn(&Span) -> bool, b: impl Fn(&Span) -> bool) -> Duration {
        let times = |pick: &dyn Fn(&Span) -> bool| {
            union(self.spans.iter().filter(|s| pick(s)).map(|s| (s.start, s.end)))
        };
        let (a, b) = (times(&a), times(&b));
        let both = a.iter().flat_map(|a| b.iter().map(|b| (a.0.max(b.0), a.1.min(b.1))));
        total(&union(both))
    }

    /// For how long two streams ran at once.
    pub fn overlap(&self, a: Stream, b: Stream) -> Duration {
        self.overlap_of(|span| span.stream == Some(a), |span| span.stream == Some(b))
    }

    /// The most memory that this card's devices held, and when first.
    pub fn peak(&self) -> MemorySample {
        let none = MemorySample { at: Duration::ZERO, held_bytes: 0, other_bytes: 0 };
        self.memory.iter().fold(none, |peak, sample| {
            if sample.held_bytes > peak.held_bytes { *sample } else { peak }
        })
    }
}

/// Disjoint stretches that cover the same time, in order.
fn union(times: impl Iterator<Item = (Duration, Duration)>) -> Vec<(Duration, Duration)> {
    let mut times: Vec<_> = times.filter(|(start, end)| start < end).collect();
    times.sort_unstable();
    let mut merged: Vec<(Duration, Duration)> = Vec::new();
    for (start, end) in times {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn total(times: &[(Duration, Duration)]) -> Duration {
    times.iter().map(|(start, end)| end.saturating_sub(*start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lane: Lane, stream: Stream, start: u64, end: u64) -> Span {
        let (start, end) = (Duration::from_secs(start), Duration::from_secs(end));
        let (op, view, stream_name) = ("op", "view", "s");
        Span { lane, stream: Some(stream), stream_name, op, view, bytes: 0, start, end }
    }

    #[test]
    fn busy_time_counts_each_moment_once() {
        let (a, b) = (Stream::fresh(), Stream::fresh());
        let spans = vec![
            span(Lane::Compute, a, 0, 4),
            span(Lane::Compute, a, 6, 10),
            span(Lane::Upload, b, 3, 7),
            span(Lane::Download, b, 3, 4),
        ];
        let log = Log { spans, memory: Vec::new() };
        let s = Duration::from_secs;
        assert_eq!(log.busy(Lane::Compute, s(1), s(7)), s(4));
        assert!((log.utilisation(s(0), s(10)) - 0.8).abs() < 1e-9);
        assert_eq!(log.utilisation(s(3), s(3)), 0.0);
        assert_eq!(log.overlap(a, b), s(2));
    }
}
