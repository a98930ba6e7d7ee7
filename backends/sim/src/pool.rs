//! A stream-ordered pool, as behind `cudaMallocAsync`.
//!
//! It counts bytes, not places: a real pool maps its pages anew where a hole is too small.

use std::time::Duration;

use crate::order::VectorClock;

/// Bytes freed on a stream.
#[derive(Debug, Clone, Copy)]
struct Freed {
    bytes: u64,
    stream: u64,
    count: u64,
    done: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Taken from the driver.
    pub(crate) reserved_bytes: u64,
    /// Kept through synchronisations, at most.
    pub(crate) release_threshold_bytes: u64,
    freed: Vec<Freed>,
}

/// Who asks for bytes.
pub(crate) struct Asking<'a> {
    pub(crate) stream: u64,
    pub(crate) order: &'a VectorClock,
    pub(crate) now: Duration,
}

/// Where the bytes of an allocation come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes to take from the driver.
    pub(crate) grow_bytes: u64,
    /// When the last of the freed bytes may be used: the stream waits until then.
    pub(crate) ready: Duration,
    /// The frees that the stream now comes after.
    pub(crate) after: Vec<(u64, u64)>,
    /// Bytes of each entry of `freed`.
    parts: Vec<u64>,
}

impl Pool {
    /// Finds `bytes`: first what `asking` may use at once (freed on its stream, ordered before it,
    /// or complete), then up to `free_bytes` from the driver, then bytes whose free it must wait
    /// for. Answers how many there are in all if these are too few.
    pub(crate) fn find(
        &self,
        bytes: u64,
        free_bytes: u64,
        asking: &Asking<'_>,
    ) -> Result<Found, u64> {
        let at_once = |freed: &Freed| {
            freed.stream == asking.stream
                || asking.order.covers(freed.stream, freed.count)
                || freed.done <= asking.now
        };
        let ready_bytes: u64 =
            self.freed.iter().filter(|f| at_once(f)).map(|freed| freed.bytes).sum();
        let freed_bytes: u64 = self.freed.iter().map(|freed| freed.bytes).sum();
        let grow_bytes = bytes.saturating_sub(ready_bytes).min(free_bytes);
        let mut missing = bytes - grow_bytes;
        if missing > freed_bytes {
            return Err(freed_bytes.saturating_add(free_bytes));
        }
        let parts = vec![0; self.freed.len()];
        let mut found = Found { grow_bytes, ready: asking.now, after: Vec::new(), parts };
        for pass in [true, false] {
            for (freed, taken) in self.freed.iter().zip(&mut found.parts) {
                if at_once(freed) != pass || missing == 0 {
                    continue;
                }
                *taken = missing.min(freed.bytes);
                missing -= *taken;
                found.after.push((freed.stream, freed.count));
                if !pass {
                    found.ready = found.ready.max(freed.done);
                }
            }
        }
        Ok(found)
    }

    /// Takes what was found.
    pub(crate) fn commit(&mut self, found: &Found) {
        for (freed, part) in self.freed.iter_mut().zip(&found.parts) {
            freed.bytes = freed.bytes.saturating_sub(*part);
        }
        self.freed.retain(|freed| freed.bytes > 0);
        self.reserved_bytes += found.grow_bytes;
    }

    /// Keeps bytes that operation `count` of `stream` freed; it ends at `done`.
    pub(crate) fn put(&mut self, bytes: u64, stream: u64, count: u64, done: Duration) {
        if bytes > 0 {
            self.freed.push(Freed { bytes, stream, count, done });
        }
    }

    /// Gives unused bytes back to the driver until `keep_bytes` are left, as far as the host has
    /// seen them freed. Answers how many.
    pub(crate) fn trim(&mut self, keep_bytes: u64, seen: &VectorClock) -> u64 {
        let mut excess = self.reserved_bytes.saturating_sub(keep_bytes);
        let mut released = 0;
        for freed in &mut self.freed {
            if seen.covers(freed.stream, freed.count) {
                let part = excess.min(freed.bytes);
                freed.bytes -= part;
                excess -= part;
                released += part;
            }
        }
        self.freed.retain(|freed| freed.bytes > 0);
        self.reserved_bytes -= released;
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    impl Pool {
        fn take(&mut self, bytes: u64, free: u64, asking: &Asking<'_>) -> Result<Found, u64> {
            let found = self.find(bytes, free, asking)?;
            self.commit(&found);
            Ok(found)
        }
    }

    #[test]
    fn reuses_in_the_order_of_cost() {
        let order = VectorClock::default();
        let mut pool = Pool::default();
        let mut asking = Asking { stream: 1, order: &order, now: s(0) };
        let found = pool.take(10, 100, &asking).unwrap();
        assert_eq!(found.grow_bytes, 10);
        pool.put(10, 1, 1, s(9));
        let found = pool.take(4, 100, &asking).unwrap();
        assert_eq!((found.grow_bytes, found.ready), (0, s(0)), "the same stream waits for nothing");
        asking.stream = 2;
        let found = pool.take(6, 100, &asking).unwrap();
        assert_eq!(found.grow_bytes, 6, "another stream grows rather than wait");
        let found = pool.take(6, 0, &asking).unwrap();
        assert_eq!((found.grow_bytes, found.ready), (0, s(9)), "with no room it waits");
        assert_eq!(found.after, [(1, 1)]);
        assert_eq!(pool.take(6, 5, &asking), Err(5));
        assert_eq!(pool.reserved_bytes, 16);
    }

    #[test]
    fn trims_only_what_the_host_has_seen() {
        let none = VectorClock::default();
        let mut pool = Pool::default();
        pool.take(30, 100, &Asking { stream: 1, order: &none, now: s(0) }).unwrap();
        pool.put(10, 1, 1, s(1));
        pool.put(20, 1, 2, s(2));
        assert_eq!(pool.trim(0, &none), 0);
        let mut seen = VectorClock::default();
        seen.know(1, 1);
        assert_eq!(pool.trim(0, &seen), 10);
        seen.know(1, 2);
        assert_eq!(pool.trim(5, &seen), 15);
        assert_eq!(pool.reserved_bytes, 5);
    }
}
