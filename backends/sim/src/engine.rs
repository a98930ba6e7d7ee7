//! One engine of a card: runs one piece of work at a time.

use std::time::Duration;

/// In which order an engine runs the work of several streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineOrder {
    /// As enqueued: work that waits for an event holds up what was enqueued after it.
    #[default]
    Enqueued,
    /// Work enqueued later may use time in which the engine would be idle, where it fits whole. It
    /// never delays what was enqueued before it.
    Backfill,
}

/// When an engine is taken.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    order: EngineOrder,
    free_at: Duration,
    /// Idle times before `free_at`, in order.
    gaps: Vec<(Duration, Duration)>,
}

impl Engine {
    pub(crate) fn new(order: EngineOrder) -> Self {
        Self { order, ..Self::default() }
    }

    /// Forgets what is enqueued; idle from `at` on.
    pub(crate) fn reset(&mut self, at: Duration) {
        self.free_at = self.free_at.min(at);
        self.gaps.clear();
    }

    /// Takes the engine for `cost`, not before `ready` (which is not before `now`): start and end.
    pub(crate) fn place(
        &mut self,
        now: Duration,
        ready: Duration,
        cost: Duration,
    ) -> (Duration, Duration) {
        if self.order == EngineOrder::Backfill {
            self.gaps.retain(|gap| gap.1 > now);
            let found = self.gaps.iter().position(|gap| {
                let start = gap.0.max(ready);
                start.saturating_add(cost) <= gap.1 && start < gap.1
            });
            if let Some(at) = found {
                let gap = self.gaps.remove(at);
                let start = gap.0.max(ready);
                let end = start.saturating_add(cost);
                let rest = [(gap.0, start), (end, gap.1)];
                let rest = rest.into_iter().filter(|gap| gap.0 < gap.1);
                self.gaps.splice(at..at, rest);
                return (start, end);
            }
        }
        let start = ready.max(self.free_at);
        if self.order == EngineOrder::Backfill && start > self.free_at.max(now) {
            self.gaps.push((self.free_at.max(now), start));
        }
        let end = start.saturating_add(cost);
        self.free_at = end;
        (start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn enqueued_order_holds_up_later_work() {
        let mut engine = Engine::new(EngineOrder::Enqueued);
        assert_eq!(engine.place(s(0), s(10), s(2)), (s(10), s(12)));
        assert_eq!(engine.place(s(0), s(0), s(1)), (s(12), s(13)));
    }

    #[test]
    fn backfill_uses_idle_time_and_delays_nobody() {
        let mut engine = Engine::new(EngineOrder::Backfill);
        assert_eq!(engine.place(s(0), s(10), s(2)), (s(10), s(12)));
        assert_eq!(engine.place(s(0), s(3), s(2)), (s(3), s(5)));
        assert_eq!(engine.place(s(0), s(0), s(4)), (s(5), s(9)), "does not fit before 3");
        assert_eq!(engine.place(s(0), s(0), s(3)), (s(0), s(3)));
        assert_eq!(engine.place(s(0), s(0), s(2)), (s(12), s(14)));
        assert_eq!(engine.place(s(9), s(9), s(1)), (s(9), s(10)));
        assert_eq!(engine.place(s(9), s(9), s(1)), (s(14), s(15)));
    }
}
