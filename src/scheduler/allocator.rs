//! Where in a piece of device memory a buffer lies: best fit with coalescing, over numbers only.

use std::collections::BTreeMap;

/// Carves ranges of bytes from `[0, capacity_bytes)`.
///
/// Sizes are rounded up to the alignment, so every range starts and ends aligned. Best fit keeps
/// large holes whole; among equals the lowest wins, which makes runs repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Allocator {
    capacity_bytes: u64,
    align_bytes: u64,
    /// Start and length of each hole; no two touch.
    holes: BTreeMap<u64, u64>,
    /// Start and length of each range handed out.
    taken: BTreeMap<u64, u64>,
}

impl Allocator {
    /// An empty piece. A tail shorter than the alignment is never handed out.
    pub fn new(capacity_bytes: u64, align_bytes: u64) -> Self {
        let align_bytes = align_bytes.max(1);
        let capacity_bytes = capacity_bytes / align_bytes * align_bytes;
        let holes = (capacity_bytes > 0).then_some((0, capacity_bytes)).into_iter().collect();
        Self { capacity_bytes, align_bytes, holes, taken: BTreeMap::new() }
    }

    /// What `size_bytes` takes: rounded up to the alignment, at least one unit, so that no two
    /// ranges share a start.
    pub fn rounded(&self, size_bytes: u64) -> Option<u64> {
        size_bytes.max(1).checked_next_multiple_of(self.align_bytes)
    }

    /// The start of a range of `size_bytes`, or `None` when no hole is large enough.
    pub fn allocate(&mut self, size_bytes: u64) -> Option<u64> {
        let size = self.rounded(size_bytes)?;
        let (&start, &len) = self
            .holes
            .iter()
            .filter(|(_, len)| **len >= size)
            .min_by_key(|(start, len)| (**len, **start))?;
        self.holes.remove(&start);
        if len > size {
            self.holes.insert(start + size, len - size);
        }
        self.taken.insert(start, size);
        Some(start)
    }

    /// The start of a range of `size_bytes` with as few bytes as can be outside `own` (ranges in
    /// order that do not touch), and of such the one nearest to an end of the piece: the end that
    /// `own` is nearer to; without any, the end that the range comes nearer to.
    pub fn allocate_beside(&mut self, size_bytes: u64, own: &[(u64, u64)]) -> Option<u64> {
        let size = self.rounded(size_bytes)?;
        let ends = own.first().zip(own.last());
        let is_low = ends.map(|((from, _), (_, to))| *from <= self.capacity_bytes - to);
        let mut best: Option<(u64, u64, u64)> = None;
        for (&hole, &len) in self.holes.iter().filter(|(_, len)| **len >= size) {
            let last = hole + len - size;
            // A range elsewhere shares no more with `own` than one of these.
            let edges = own.iter().flat_map(|(from, to)| [*from, to.saturating_sub(size)]);
            for start in [hole, last].into_iter().chain(edges) {
                if !(hole..=last).contains(&start) || !start.is_multiple_of(self.align_bytes) {
                    continue;
                }
                let end = start + size;
                let shared = own.iter().map(|(a, b)| end.min(*b).saturating_sub(start.max(*a)));
                let above = self.capacity_bytes - end;
                let away = match is_low {
                    Some(true) => start,
                    Some(false) => above,
                    None => start.min(above),
                };
                let rank = (size - shared.sum::<u64>(), away, start);
                best = Some(best.map_or(rank, |best| best.min(rank)));
            }
        }
        let (_, _, start) = best?;
        self.allocate_at(start, size).then_some(start)
    }

    /// Hands out exactly the range of `size_bytes` at `start`. `false`, and nothing changes, when
    /// `start` is not aligned or part of the range is taken.
    pub fn allocate_at(&mut self, start: u64, size_bytes: u64) -> bool {
        let Some(size) = self.rounded(size_bytes) else { return false };
        let Some(end) = start.checked_add(size) else { return false };
        let Some((&hole, &len)) = self.holes.range(..=start).next_back() else { return false };
        let hole_end = hole + len;
        if !start.is_multiple_of(self.align_bytes) || hole_end < end {
            return false;
        }
        self.holes.remove(&hole);
        if hole < start {
            self.holes.insert(hole, start - hole);
        }
        if end < hole_end {
            self.holes.insert(end, hole_end - end);
        }
        self.taken.insert(start, size);
        true
    }

    /// Gives the range that starts at `start` back. `false` when there is none.
    pub fn free(&mut self, start: u64) -> bool {
        let Some(mut len) = self.taken.remove(&start) else { return false };
        let mut start = start;
        if let Some((&before, &before_len)) = self.holes.range(..start).next_back()
            && before + before_len == start
        {
            self.holes.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after_len) = self.holes.remove(&(start + len)) {
            len += after_len;
        }
        self.holes.insert(start, len);
        true
    }

    /// Size of the piece in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes handed out, rounding included.
    pub fn taken_bytes(&self) -> u64 {
        self.taken.values().sum()
    }

    /// Bytes in holes.
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes - self.taken_bytes()
    }

    /// The largest range that can be handed out.
    pub fn largest_hole_bytes(&self) -> u64 {
        self.holes.values().copied().max().unwrap_or(0)
    }

    /// Whether nothing is handed out.
    pub fn is_idle(&self) -> bool {
        self.taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn best_fit_takes_the_smallest_hole() {
        let mut memory = Allocator::new(1000, 10);
        let starts: Vec<_> = [100, 300, 100, 200, 300].map(|n| memory.allocate(n).unwrap()).into();
        assert_eq!(starts, [0, 100, 400, 500, 700]);
        assert!(memory.free(100) && memory.free(500));
        assert_eq!(memory.allocate(150), Some(500));
        assert_eq!(memory.allocate(301), None);
        assert_eq!(memory.allocate(300), Some(100));
        assert!(!memory.free(101));
    }

    #[test]
    fn beside_covers_little_and_keeps_to_an_end() {
        let beside = |size, own: &[(u64, u64)]| {
            let mut memory = Allocator::new(1000, 10);
            // Holes: 100 to 400, 500 to 1000.
            assert!(memory.allocate_at(0, 100) && memory.allocate_at(400, 100));
            memory.allocate_beside(size, own)
        };
        assert_eq!(beside(100, &[]), Some(900), "the upper end is free");
        assert_eq!(beside(100, &[(0, 100)]), Some(100), "beside what is at the lower end");
        assert_eq!(beside(400, &[(0, 100)]), Some(500), "there is no room nearer to it");
        assert_eq!(beside(100, &[(600, 800)]), Some(700), "within, towards the end");
        assert_eq!(beside(300, &[(600, 800)]), Some(600), "all of it, and then the end");
        assert_eq!(beside(100, &[(350, 550)]), Some(300), "halves; the lower end is nearer");
        assert_eq!(beside(501, &[(0, 1000)]), None);
    }

    #[test]
    fn exact_ranges_need_a_hole_and_the_alignment() {
        let mut memory = Allocator::new(100, 10);
        assert!(memory.allocate_at(30, 15));
        assert_eq!((memory.taken_bytes(), memory.largest_hole_bytes()), (20, 50));
        for (start, size) in [(45, 1), (40, 10), (20, 11), (100, 1), (95, 1), (u64::MAX, 1)] {
            assert!(!memory.allocate_at(start, size), "{size} at {start}");
        }
        assert!(!memory.allocate_at(50, u64::MAX));
        assert!(memory.allocate_at(50, 50) && memory.allocate_at(0, 30));
        assert_eq!(memory.free_bytes(), 0);
        assert!(memory.free(30) && memory.free(0) && memory.free(50));
        assert_eq!(memory, Allocator::new(100, 10));
    }

    proptest! {
        /// Against a map of single units: ranges never overlap, and holes are as large as can be.
        #[test]
        fn agrees_with_a_map_of_units(steps in prop::collection::vec((any::<bool>(), 1u64..40), 1..200)) {
            let mut memory = Allocator::new(128, 1);
            let mut owner = [0usize; 128];
            let mut live: Vec<(u64, usize)> = Vec::new();
            for (step, (take, n)) in steps.into_iter().enumerate() {
                if take || live.is_empty() {
                    let longest = owner.split(|o| *o != 0).map(<[usize]>::len).max().unwrap_or(0);
                    prop_assert_eq!(memory.largest_hole_bytes(), longest as u64);
                    match memory.allocate(n) {
                        Some(start) => {
                            for unit in &mut owner[start as usize..(start + n) as usize] {
                                prop_assert_eq!(*unit, 0);
                                *unit = step + 1;
                            }
                            live.push((start, step + 1));
                        }
                        None => prop_assert!((longest as u64) < n),
                    }
                } else {
                    let (start, id) = live.swap_remove(n as usize % live.len());
                    prop_assert!(memory.free(start));
                    owner.iter_mut().filter(|o| **o == id).for_each(|o| *o = 0);
                }
                let used = owner.iter().filter(|o| **o != 0).count() as u64;
                prop_assert_eq!(memory.taken_bytes(), used);
            }
        }
    }
}
