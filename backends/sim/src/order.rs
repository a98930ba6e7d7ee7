//! What happened before what: vector clocks over streams.

use std::collections::BTreeMap;

/// For each stream, by its handle's number, how many of its operations happened before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(BTreeMap<u64, u64>);

impl VectorClock {
    /// Whether operation `count` of `stream` (counted from 1) happened before.
    pub(crate) fn covers(&self, stream: u64, count: u64) -> bool {
        self.0.get(&stream).is_some_and(|known| *known >= count)
    }

    /// Adds what `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        for (stream, count) in &other.0 {
            self.know(*stream, *count);
        }
    }

    /// Adds the first `count` operations of `stream`.
    pub(crate) fn know(&mut self, stream: u64, count: u64) {
        let known = self.0.entry(stream).or_default();
        *known = count.max(*known);
    }
}
