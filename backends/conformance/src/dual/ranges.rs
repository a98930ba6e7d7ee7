//! Which bytes of a region the contract defines, so that two devices must agree on them.

use std::collections::HashMap;

use twinlock_api::{Region, View};

/// For each region the ranges (start, end) whose content is defined, in no order, disjoint.
#[derive(Default)]
pub(super) struct Defined {
    regions: HashMap<Region, Vec<(u64, u64)>>,
}

impl Defined {
    /// Whether all of `view` is defined.
    pub(super) fn covers(&self, view: View) -> bool {
        if view.len_bytes() == 0 {
            return true;
        }
        let ranges = self.regions.get(&view.region());
        ranges.is_some_and(|ranges| {
            ranges
                .iter()
                .any(|(start, end)| *start <= view.offset_bytes() && view.end_bytes() <= *end)
        })
    }

    /// Forgets a region.
    pub(super) fn forget(&mut self, region: Region) {
        self.regions.remove(&region);
    }

    /// Marks all of `view`.
    pub(super) fn mark(&mut self, view: View, defined: bool) {
        let (start, end) = (view.offset_bytes(), view.end_bytes());
        if start == end {
            return;
        }
        let ranges = self.regions.entry(view.region()).or_default();
        let mut merged = (start, end);
        let mut kept = Vec::with_capacity(ranges.len() + 2);
        for (from, to) in ranges.drain(..) {
            if to < start || from > end {
                kept.push((from, to));
            } else if defined {
                merged = (merged.0.min(from), merged.1.max(to));
            } else {
                kept.extend([(from, start), (end, to)].into_iter().filter(|(a, b)| a < b));
            }
        }
        if defined {
            kept.push(merged);
        }
        *ranges = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlock_api::MemoryClass;

    #[test]
    fn ranges_merge_and_split() {
        let region = Region::fresh(MemoryClass::Work, 1000);
        let view = |start, len| region.view("v", start, len).unwrap();
        let mut defined = Defined::default();
        assert!(!defined.covers(view(0, 4)));
        assert!(defined.covers(view(8, 0)));
        defined.mark(view(0, 100), true);
        defined.mark(view(100, 100), true);
        assert!(defined.covers(view(40, 120)));
        defined.mark(view(60, 40), false);
        assert!(defined.covers(view(0, 60)));
        assert!(defined.covers(view(100, 100)));
        assert!(!defined.covers(view(56, 8)));
        assert!(!defined.covers(view(96, 8)));
        defined.mark(view(56, 48), true);
        assert!(defined.covers(view(0, 200)));
        assert!(!defined.covers(view(0, 204)));
    }
}
