//! The rule: who could still finish after a grant, and where.

use super::Admission;
use super::partition::{Partition, Resident};
use super::place::{Goal, Layout, Range, merged, place};
use super::profile::{PoolId, Profile};
use crate::scheduler::allocator::Allocator;

impl Admission {
    /// Ranges that a partition holds, residents apart.
    pub(super) fn held_ranges(&self, partition: &Partition) -> Vec<Range> {
        self.ranges(&partition.profile, &partition.held, false)
    }

    /// Ranges of a layout.
    pub(super) fn ranges(&self, profile: &Profile, layout: &Layout, residents: bool) -> Vec<Range> {
        let buffers = profile.buffers().iter().zip(&layout.buffers);
        let mut ranges: Vec<Range> = buffers
            .filter_map(|(need, offset)| Some(self.range(need.pool, (*offset)?, need.size_bytes)))
            .collect();
        if residents {
            ranges.extend(profile.residents().iter().zip(&layout.residents).filter_map(
                |(need, offset)| Some(self.range(need.pool, (*offset)?, need.size_bytes)),
            ));
        }
        ranges
    }

    pub(super) fn resident_range(&self, resident: &Resident) -> Range {
        self.range(resident.pool, resident.offset_bytes, resident.size_bytes)
    }

    fn range(&self, pool: PoolId, start: u64, size_bytes: u64) -> Range {
        Range { pool, start, end: start.saturating_add(self.rounded(pool, size_bytes)) }
    }

    /// Who a resident counts for: its youngest user, `None` when it is idle.
    pub(super) fn holder_rank(&self, resident: &Resident) -> Option<usize> {
        let mut users = (0..self.partitions.len())
            .filter(|&rank| self.partitions.get(rank).is_some_and(|p| p.uses(resident.key)));
        if self.rules.youngest_user { users.next_back() } else { users.next() }
    }

    /// What a partition cannot use even when every older one is gone: all that younger ones hold,
    /// but for residents that it needs itself.
    pub(super) fn held_by_younger(&self, rank: usize) -> Vec<Range> {
        let mut ranges: Vec<Range> =
            self.partitions.iter().skip(rank + 1).flat_map(|p| self.held_ranges(p)).collect();
        let Some(own) = self.partitions.get(rank) else { return ranges };
        for resident in &self.residents {
            let blocks = match self.holder_rank(resident) {
                Some(holder) => holder > rank,
                None => !self.rules.evict_idle,
            };
            if blocks && own.resident_index(resident.key).is_none() {
                ranges.push(self.resident_range(resident));
            }
        }
        ranges
    }

    /// Where a partition's residents are and will stay until it runs: those it uses, and those
    /// that a younger partition uses.
    fn settled_residents(&self, rank: usize) -> Option<Layout> {
        let own = self.partitions.get(rank)?;
        let mut fixed = own.held.clone();
        for (need, slot) in own.profile.residents().iter().zip(&mut fixed.residents) {
            let Some(resident) = self.residents.iter().find(|r| r.key == need.key) else {
                continue;
            };
            let stays = match self.holder_rank(resident) {
                Some(holder) => holder > rank,
                None => !self.rules.evict_idle,
            };
            if stays {
                *slot = Some(resident.offset_bytes);
            }
        }
        Some(fixed)
    }

    /// A place for all that a partition lacks, once every older one is gone.
    pub(super) fn derive_promise(&self, rank: usize) -> Option<Layout> {
        let own = self.partitions.get(rank)?;
        let fixed = self.settled_residents(rank)?;
        let spaces = self.spaces(&self.limits(&own.profile), self.held_by_younger(rank));
        let whole = place(&own.profile, own.stage, &fixed, Goal::Whole, spaces)?;
        let rest = |whole: &[Option<u64>], held: &[Option<u64>]| {
            whole.iter().zip(held).map(|(w, h)| if h.is_some() { None } else { *w }).collect()
        };
        Some(Layout {
            buffers: rest(&whole.buffers, &own.held.buffers),
            residents: rest(&whole.residents, &own.held.residents),
        })
    }

    /// Whether what was promised to a partition is still there. Its own buffers do not conflict
    /// with each other: that was so when the promise was made, and only a grant to the partition
    /// itself could change it.
    pub(super) fn promise_holds(&self, rank: usize) -> bool {
        let Some(own) = self.partitions.get(rank) else { return false };
        let complete = (0..own.held.buffers.len()).all(|at| {
            !own.lives(at) || own.held.buffer(at).is_some() || own.promised.buffer(at).is_some()
        });
        if !complete {
            return false;
        }
        let Some(settled) = self.settled_residents(rank) else { return false };
        for index in 0..own.held.residents.len() {
            if own.held.resident(index).is_none() {
                let (is, promised) = (settled.resident(index), own.promised.resident(index));
                if promised.is_none() || (is.is_some() && is != promised) {
                    return false;
                }
            }
        }
        let blocked = self.held_by_younger(rank);
        self.ranges(&own.profile, &own.promised, true).iter().all(|range| {
            range.end <= self.capacity(range.pool) && !blocked.iter().any(|b| b.overlaps(range))
        })
    }

    /// After a grant to `rank`: makes the promises to it and to all older partitions good, or
    /// answers `false`. Younger ones are not touched, for to them the grant is held by an older.
    pub(super) fn settle(&mut self, rank: usize, from_promise: bool) -> bool {
        if !self.rules.banker {
            return true;
        }
        if !self.rules.placed {
            return (0..=rank).all(|older| self.enough_bytes(older));
        }
        for older in 0..rank {
            if !self.promise_holds(older) {
                let Some(promise) = self.derive_promise(older) else { return false };
                let Some(partition) = self.partition_at(older) else { return false };
                partition.promised = promise;
            }
        }
        match self.derive_promise(rank) {
            Some(promise) => {
                let Some(own) = self.partition_at(rank) else { return false };
                own.promised = promise;
                true
            }
            // What is left of a promise does not conflict with the part that was taken.
            None => from_promise && self.promise_holds(rank),
        }
    }

    /// The rule in bytes alone, which is not enough: only for tests that show why.
    fn enough_bytes(&self, rank: usize) -> bool {
        let Some(own) = self.partitions.get(rank) else { return false };
        let younger = merged(self.held_by_younger(rank));
        self.pool_ids().all(|pool| {
            let blocked = covered_bytes(&younger, pool);
            self.capacity(pool) >= blocked.saturating_add(self.peak_bytes(own, rank, pool))
        })
    }

    /// The most of `pool` that a partition will hold at once from now on, beside residents that
    /// younger partitions have in use.
    pub(super) fn peak_bytes(&self, own: &Partition, rank: usize, pool: PoolId) -> u64 {
        let residents = own.profile.residents().iter().filter(|need| need.pool == pool);
        let residents_bytes = residents
            .filter(|need| {
                let there = self.residents.iter().find(|resident| resident.key == need.key);
                there.and_then(|r| self.holder_rank(r)).is_none_or(|holder| holder <= rank)
            })
            .fold(0u64, |sum, need| sum.saturating_add(self.rounded(pool, need.size_bytes)));
        residents_bytes.saturating_add(self.buffers_peak_bytes(&own.profile, own.stage, pool))
    }

    /// The most of `pool` that the buffers of a profile hold at once from `stage` on.
    pub(super) fn buffers_peak_bytes(&self, profile: &Profile, stage: u8, pool: PoolId) -> u64 {
        let live = |now: u8| {
            let buffers = profile.buffers().iter();
            buffers
                .filter(|need| need.pool == pool && need.first <= now && now <= need.last)
                .fold(0u64, |sum, need| sum.saturating_add(self.rounded(pool, need.size_bytes)))
        };
        (stage..=profile.last_stage()).map(live).max().unwrap_or(0)
    }

    /// Whether the profile could run with the device to itself.
    pub(super) fn fits_alone(&self, profile: &Profile, limits: &[u64]) -> bool {
        let spaces = self.spaces(limits, Vec::new());
        place(profile, 0, &Layout::empty(profile), Goal::Whole, spaces).is_some()
    }

    /// How much of each memory a partition may be placed in: not what is owed to the driver,
    /// unless it cannot run without.
    pub(super) fn limits(&self, profile: &Profile) -> Vec<u64> {
        let after = self.limits_after_debt();
        if self.pools.iter().all(|pool| pool.owed_bytes == 0) || self.fits_alone(profile, &after) {
            return after;
        }
        self.pools.iter().map(|pool| pool.capacity_bytes).collect()
    }

    /// What remains of each memory once all that is owed is given back.
    pub(super) fn limits_after_debt(&self) -> Vec<u64> {
        self.pools.iter().map(|p| p.capacity_bytes.saturating_sub(p.owed_bytes)).collect()
    }

    /// The memories up to `limits` with `taken` taken.
    pub(super) fn spaces(&self, limits: &[u64], taken: Vec<Range>) -> Vec<Allocator> {
        let mut spaces: Vec<Allocator> = (self.pools.iter().zip(limits))
            .map(|(pool, limit)| Allocator::new(*limit, pool.align_bytes))
            .collect();
        for range in merged(taken) {
            if let Some(space) = spaces.get_mut(usize::from(range.pool.0)) {
                let end = range.end.min(space.capacity_bytes());
                if range.start < end {
                    space.allocate_at(range.start, end - range.start);
                }
            }
        }
        spaces
    }
}

/// Bytes of `pool` in ranges that do not overlap.
pub(super) fn covered_bytes(merged: &[Range], pool: PoolId) -> u64 {
    merged.iter().filter(|range| range.pool == pool).map(|range| range.end - range.start).sum()
}
