//! Virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A shared clock that only moves when it is told to, in nanoseconds since it was made. Clones
/// show the same time; it never goes back.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    /// Moves on by `by`.
    pub fn advance(&self, by: Duration) {
        let by = nanos(by);
        // The closure never declines, so neither does the update.
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(by)));
    }

    /// Moves on to `time`, unless it is past already.
    pub fn advance_to(&self, time: Duration) {
        self.0.fetch_max(nanos(time), Ordering::SeqCst);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back_and_never_wraps() {
        let clock = Clock::new();
        let other = clock.clone();
        clock.advance(Duration::from_nanos(7));
        other.advance_to(Duration::from_nanos(5));
        assert_eq!(other.now(), Duration::from_nanos(7));
        clock.advance_to(Duration::from_nanos(9));
        assert_eq!(other.now(), Duration::from_nanos(9));
        clock.advance(Duration::MAX);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
    }
}
