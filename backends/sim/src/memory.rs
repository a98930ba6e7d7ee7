//! The bytes of a card: who holds them now, and other processes that come and go.

use std::time::Duration;

use crate::log::MemorySample;

/// Another process that holds memory for a while.
#[derive(Debug, Clone, Copy)]
struct Other {
    from: Duration,
    until: Duration,
    bytes: u64,
    taken: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    total_bytes: u64,
    held_bytes: u64,
    others: Vec<Other>,
    samples: Vec<MemorySample>,
}

impl Ledger {
    pub(crate) fn new(total_bytes: u64) -> Self {
        Self { total_bytes, held_bytes: 0, others: Vec::new(), samples: Vec::new() }
    }

    /// Another process will ask for `bytes` at `from`, get as many as are free, and end at `until`.
    pub(crate) fn add_other(&mut self, from: Duration, until: Duration, bytes: u64) {
        self.others.push(Other { from, until, bytes, taken: None });
    }

    fn other_bytes(&self) -> u64 {
        self.others.iter().filter_map(|other| other.taken).sum()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.held_bytes).saturating_sub(self.other_bytes())
    }

    pub(crate) fn samples(&self) -> &[MemorySample] {
        &self.samples
    }

    /// Lets other processes come and go up to `now`. Our own memory changes only in calls, each of
    /// which comes here first, so what was free at `from` is what is free before the call.
    pub(crate) fn others_until(&mut self, now: Duration) {
        for at in 0..self.others.len() {
            let free = self.free_bytes();
            let Some(other) = self.others.get_mut(at) else { return };
            if other.taken.is_none() && other.from <= now && now < other.until {
                other.taken = Some(other.bytes.min(free));
                let from = other.from;
                self.sample(from);
            }
        }
        let ended: Vec<Duration> =
            self.others.iter().filter(|o| o.until <= now).map(|o| o.until).collect();
        if !ended.is_empty() {
            self.others.retain(|other| other.until > now);
            let last = ended.into_iter().max().unwrap_or(now);
            self.sample(last);
        }
    }

    /// Takes `bytes`, or answers how many are free.
    pub(crate) fn take(&mut self, bytes: u64, now: Duration) -> Result<(), u64> {
        let free = self.free_bytes();
        if bytes > free {
            return Err(free);
        }
        self.held_bytes += bytes;
        self.sample(now);
        Ok(())
    }

    pub(crate) fn give(&mut self, bytes: u64, now: Duration) {
        debug_assert!(bytes <= self.held_bytes);
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
        self.sample(now);
    }

    fn sample(&mut self, at: Duration) {
        let at = self.samples.last().map_or(at, |last| last.at.max(at));
        let sample =
            MemorySample { at, held_bytes: self.held_bytes, other_bytes: self.other_bytes() };
        self.samples.push(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_take_what_is_free_and_give_it_back() {
        let s = Duration::from_secs;
        let mut ledger = Ledger::new(100);
        ledger.add_other(s(2), s(5), 70);
        ledger.others_until(s(1));
        ledger.take(60, s(1)).unwrap();
        ledger.others_until(s(3));
        assert_eq!(ledger.free_bytes(), 0, "only 40 were left to take");
        assert_eq!(ledger.take(1, s(3)), Err(0));
        ledger.give(60, s(4));
        assert_eq!(ledger.free_bytes(), 60);
        ledger.others_until(s(5));
        assert_eq!(ledger.free_bytes(), 100);
    }
}
