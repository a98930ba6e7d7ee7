//! Who goes on when.

use std::collections::BTreeMap;
use std::time::Duration;

/// Things to do, by time; those of one time in the order in which they were noted.
#[derive(Debug)]
pub struct Agenda<T> {
    entries: BTreeMap<(Duration, u64), T>,
    noted: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), noted: 0 }
    }
}

impl<T> Agenda<T> {
    /// Notes that `what` goes on at `at`.
    pub fn note(&mut self, at: Duration, what: T) {
        self.noted += 1;
        self.entries.insert((at, self.noted), what);
    }

    /// The next thing and its time.
    pub fn pop(&mut self) -> Option<(Duration, T)> {
        self.entries.pop_first().map(|((at, _), what)| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_then_in_order() {
        let mut agenda = Agenda::default();
        for (at, what) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b')] {
            agenda.note(Duration::from_secs(at), what);
        }
        let order: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }
}
