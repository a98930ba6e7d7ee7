//! Finds uses of the same bytes by two streams with no order between them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use twinlock_api::op::Access;

use crate::order::VectorClock;

/// One use of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The stream's number; 0 for the host.
    pub stream: u64,
    /// Its place among the stream's operations, from 1.
    pub count: u64,
    /// The operation.
    pub op: &'static str,
    /// The view.
    pub view: &'static str,
    /// When it starts.
    pub at: Duration,
}

/// What is wrong between two uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaceKind {
    /// Read, written by another stream with no order.
    ReadAfterWrite,
    /// Written, read by another stream with no order.
    WriteAfterRead,
    /// Written, written by another stream with no order.
    WriteAfterWrite,
    /// Freed while the host had not seen the use end, or on a stream not ordered after it.
    Free,
}

/// Two uses of the same bytes whose order nothing ensures, whatever their times were in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// What is wrong.
    pub kind: RaceKind,
    /// Name of the region.
    pub region: &'static str,
    /// Some of the bytes in question, from the region's start.
    pub bytes: Range<u64>,
    /// The use enqueued first.
    pub first: Use,
    /// The use enqueued later.
    pub second: Use,
}

/// The last uses of a range of bytes: one write, and the reads since.
#[derive(Debug, Clone, Default)]
struct Segment {
    end: u64,
    write: Option<Use>,
    reads: Vec<Use>,
}

/// The last uses of every byte of a region, by the start of each range.
#[derive(Debug, Default)]
pub(crate) struct Tracker(BTreeMap<u64, Segment>);

fn is_ordered(first: &Use, stream: u64, order: &VectorClock) -> bool {
    first.stream == stream || order.covers(first.stream, first.count)
}

impl Tracker {
    /// Records a use; `order` is what happened before it.
    pub(crate) fn access(
        &mut self,
        region: &'static str,
        bytes: Range<u64>,
        access: Access,
        second: Use,
        order: &VectorClock,
    ) -> Vec<Race> {
        let mut races = Vec::new();
        if bytes.is_empty() {
            return races;
        }
        self.split(bytes.start);
        self.split(bytes.end);
        let mut report = |kind, first: &Use, bytes: Range<u64>| {
            let known = races.iter().any(|race: &Race| race.kind == kind && race.first == *first);
            if !known && !is_ordered(first, second.stream, order) {
                races.push(Race { kind, region, bytes, first: *first, second });
            }
        };
        let writes = access != Access::Read;
        for (start, segment) in self.0.range(bytes.clone()) {
            if let Some(write) = &segment.write {
                let kind = if access == Access::Read || access == Access::ReadWrite {
                    RaceKind::ReadAfterWrite
                } else {
                    RaceKind::WriteAfterWrite
                };
                report(kind, write, *start..segment.end);
            }
            if writes {
                for read in &segment.reads {
                    report(RaceKind::WriteAfterRead, read, *start..segment.end);
                }
            }
        }
        if writes {
            self.write(bytes, second);
        } else {
            self.read(bytes, second);
        }
        races
    }

    /// The uses that a free does not come after; `order` is what happened before it.
    pub(crate) fn free(
        &self,
        region: &'static str,
        second: Use,
        order: &VectorClock,
    ) -> Option<Race> {
        let mut uses = self.0.iter().flat_map(|(start, segment)| {
            segment.write.iter().chain(&segment.reads).map(|first| (*start..segment.end, *first))
        });
        let (bytes, first) = uses.find(|(_, first)| !is_ordered(first, second.stream, order))?;
        Some(Race { kind: RaceKind::Free, region, bytes, first, second })
    }

    fn split(&mut self, at: u64) {
        let Some((_, segment)) = self.0.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let tail = segment.clone();
            segment.end = at;
            self.0.insert(at, tail);
        }
    }

    /// A write orders all that follows after what came before it, so it alone is kept.
    fn write(&mut self, bytes: Range<u64>, by: Use) {
        let inside: Vec<u64> = self.0.range(bytes.clone()).map(|(start, _)| *start).collect();
        for start in inside {
            self.0.remove(&start);
        }
        self.0.insert(bytes.start, Segment { end: bytes.end, write: Some(by), reads: Vec::new() });
    }

    fn read(&mut self, bytes: Range<u64>, by: Use) {
        let mut at = bytes.start;
        let mut holes = Vec::new();
        for (start, segment) in self.0.range_mut(bytes.clone()) {
            if at < *start {
                holes.push(at..*start);
            }
            at = segment.end;
            // A later read of the same stream stands for the earlier ones.
            segment.reads.retain(|read| read.stream != by.stream);
            segment.reads.push(by);
        }
        if at < bytes.end {
            holes.push(at..bytes.end);
        }
        for hole in holes {
            self.0.insert(hole.start, Segment { end: hole.end, write: None, reads: vec![by] });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by(stream: u64, count: u64) -> Use {
        Use { stream, count, op: "op", view: "view", at: Duration::ZERO }
    }

    /// The same, one byte at a time.
    #[derive(Default)]
    struct Naive(Vec<(Range<u64>, Access, Use)>);

    impl Naive {
        fn races(&self, bytes: &Range<u64>, access: Access, by: Use, order: &VectorClock) -> bool {
            (bytes.clone()).any(|byte| {
                let mut seen = Vec::new();
                for (range, earlier, first) in self.0.iter().rev() {
                    if !range.contains(&byte) {
                        continue;
                    }
                    let conflict = *earlier != Access::Read || access != Access::Read;
                    if conflict && !is_ordered(first, by.stream, order) {
                        seen.push(*first);
                    }
                    if *earlier != Access::Read {
                        break;
                    }
                }
                !seen.is_empty()
            })
        }
    }

    proptest! {
        /// Random uses by three streams with random joins: a race is found just where the naive
        /// search finds one.
        #[test]
        fn finds_what_the_naive_search_finds(
            uses in prop::collection::vec(
                (0usize..3, 0u64..24, 1u64..12, 0u8..4, prop::option::of(0usize..3)), 1..40)
        ) {
            let mut tracker = Tracker::default();
            let mut naive = Naive::default();
            let mut clocks = vec![VectorClock::default(); 3];
            let mut counts = [0u64; 3];
            for (stream, start, len, access, joins) in uses {
                let access = [Access::Read, Access::Write, Access::ReadWrite, Access::Scratch]
                    [access as usize];
                if let Some(other) = joins {
                    let other = clocks[other].clone();
                    clocks[stream].join(&other);
                }
                counts[stream] += 1;
                let second = by(stream as u64 + 1, counts[stream]);
                let bytes = start..start + len;
                let expected = naive.races(&bytes, access, second, &clocks[stream]);
                let found =
                    tracker.access("region", bytes.clone(), access, second, &clocks[stream]);
                prop_assert_eq!(expected, !found.is_empty());
                clocks[stream].know(second.stream, second.count);
                naive.0.push((bytes, access, second));
            }
        }
    }

    #[test]
    fn frees_come_after_every_use() {
        let mut tracker = Tracker::default();
        let mut order = VectorClock::default();
        tracker.access("r", 0..8, Access::Write, by(1, 1), &order);
        tracker.access("r", 8..16, Access::Read, by(2, 1), &order);
        order.know(1, 1);
        let race = tracker.free("r", by(0, 0), &order).unwrap();
        assert_eq!((race.bytes, race.first.stream), (8..16, 2));
        order.know(2, 1);
        assert!(tracker.free("r", by(0, 0), &order).is_none());
    }
}
