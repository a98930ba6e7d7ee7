//! How much of the time a device's kernels ran.

use std::time::Duration;

/// Kernels of a device between two questions, by the device's own clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTime {
    /// How many ran.
    pub count: u64,
    /// From the first one's start to the last one's end.
    pub span: Duration,
    /// Time within the span in which at least one ran.
    pub busy: Duration,
}

impl KernelTime {
    /// The share of the span in which kernels ran; 0 where none did.
    pub fn share(&self) -> f64 {
        if self.span.is_zero() { 0.0 } else { self.busy.as_secs_f64() / self.span.as_secs_f64() }
    }
}

/// Collects when kernels ran, in nanoseconds of one clock, from any number of streams and in any
/// order; for backends.
#[derive(Debug, Default)]
pub struct KernelSpans {
    spans: Vec<(u64, u64)>,
    spoilt: bool,
}

impl KernelSpans {
    /// Spans kept between two questions; 64 MiB.
    const MOST: usize = 1 << 22;

    /// Notes that a kernel ran from `start_ns` to `end_ns`.
    pub fn add(&mut self, start_ns: u64, end_ns: u64) {
        if self.spoilt {
            // Nothing is told of this period.
        } else if self.spans.len() < Self::MOST && start_ns <= end_ns {
            self.spans.push((start_ns, end_ns));
        } else {
            self.spoil();
        }
    }

    /// Notes that a kernel's times are not known.
    pub fn spoil(&mut self) {
        self.spoilt = true;
        self.spans = Vec::new();
    }

    /// What was noted since the last call; `None` if some of it is not known.
    pub fn take(&mut self) -> Option<KernelTime> {
        let Self { mut spans, spoilt } = std::mem::take(self);
        spans.sort_unstable();
        let first = spans.first().map_or(0, |span| span.0);
        let (mut busy_ns, mut end_ns) = (0, first);
        for (start, end) in &spans {
            // What is before the end so far has been counted.
            busy_ns += end.saturating_sub(end_ns.max(*start));
            end_ns = end_ns.max(*end);
        }
        (!spoilt).then(|| KernelTime {
            count: spans.len() as u64,
            span: Duration::from_nanos(end_ns - first),
            busy: Duration::from_nanos(busy_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(spans: &[(u64, u64)]) -> Option<KernelTime> {
        let mut all = KernelSpans::default();
        spans.iter().for_each(|(start, end)| all.add(*start, *end));
        all.take()
    }

    fn time(count: u64, span_ns: u64, busy_ns: u64) -> Option<KernelTime> {
        let (span, busy) = (Duration::from_nanos(span_ns), Duration::from_nanos(busy_ns));
        Some(KernelTime { count, span, busy })
    }

    #[test]
    fn kernels_at_the_same_time_count_once() {
        assert_eq!(take(&[]), time(0, 0, 0));
        assert_eq!(take(&[(5, 5)]), time(1, 0, 0));
        assert_eq!(take(&[(10, 30)]), time(1, 20, 20));
        assert_eq!(take(&[(10, 20), (20, 30)]), time(2, 20, 20), "one after the other");
        assert_eq!(take(&[(10, 20), (25, 30)]), time(2, 20, 15), "with a gap");
        assert_eq!(take(&[(25, 30), (10, 20)]), time(2, 20, 15), "in any order");
        assert_eq!(take(&[(10, 20), (15, 30)]), time(2, 20, 20), "overlapping");
        assert_eq!(take(&[(10, 40), (15, 20), (30, 35)]), time(3, 30, 30), "one within another");
        assert_eq!(
            take(&[(10, 40), (15, 20), (50, 60)]),
            time(3, 50, 40),
            "a gap after one within"
        );
        assert_eq!(take(&[(10, 20), (10, 20), (10, 15)]), time(3, 10, 10), "the same");
        assert!((take(&[(0, 3), (6, 10)]).unwrap().share() - 0.7).abs() < 1e-9);
        assert_eq!(KernelTime::default().share(), 0.0);
    }

    /// Against a tick by tick count.
    #[test]
    fn merging_is_counting_ticks() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let count = 1 + draw(12);
            let spans: Vec<_> = (0..count).map(|_| (draw(60), draw(20))).collect();
            let spans: Vec<_> =
                spans.into_iter().map(|(start, len)| (start, start + len)).collect();
            let ticks = (0..100).filter(|t| spans.iter().any(|(a, b)| a <= t && t < b)).count();
            let first = spans.iter().map(|span| span.0).min().unwrap();
            let last = spans.iter().map(|span| span.1).max().unwrap();
            assert_eq!(take(&spans), time(count, last - first, ticks as u64), "{spans:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let mut spans = KernelSpans::default();
        spans.add(1, 2);
        spans.spoil();
        spans.add(3, 4);
        assert_eq!(spans.take(), None);
        spans.add(3, 7);
        assert_eq!(spans.take(), time(1, 4, 4), "since the last question all is");
        assert_eq!(take(&[(2, 1)]), None, "an end before its start");
    }
}
