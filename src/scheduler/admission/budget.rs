//! The size of a memory, and how it changes while partitions run.

use super::Admission;
use super::event::Action;
use super::place::Range;
use super::profile::PoolId;
use crate::scheduler::allocator::Allocator;

/// How a machine's memory is given: one continuous space of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Its size; a tail shorter than the alignment is never used.
    pub capacity_bytes: u64,
    /// Offsets and sizes are rounded up to a multiple of this.
    pub align_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pool {
    pub capacity_bytes: u64,
    pub align_bytes: u64,
    /// Asked back and not yet spared.
    pub owed_bytes: u64,
}

impl Pool {
    pub fn new(spec: PoolSpec) -> Self {
        let align_bytes = spec.align_bytes.max(1);
        let capacity_bytes = spec.capacity_bytes / align_bytes * align_bytes;
        Self { capacity_bytes, align_bytes, owed_bytes: 0 }
    }
}

impl Admission {
    /// Size of a memory now; 0 for one that does not exist.
    pub fn capacity(&self, pool: PoolId) -> u64 {
        self.pool(pool).map_or(0, |pool| pool.capacity_bytes)
    }

    /// Bytes asked back that could not be spared yet.
    pub fn owed_bytes(&self, pool: PoolId) -> u64 {
        self.pool(pool).map_or(0, |pool| pool.owed_bytes)
    }

    pub(super) fn pool(&self, pool: PoolId) -> Option<&Pool> {
        self.pools.get(usize::from(pool.0))
    }

    /// The memories.
    pub fn pool_ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..=u8::MAX).take(self.pools.len()).map(PoolId)
    }

    /// What a buffer takes; more than any memory holds when it overflows.
    pub(super) fn rounded(&self, pool: PoolId, size_bytes: u64) -> u64 {
        let align_bytes = self.pool(pool).map_or(1, |pool| pool.align_bytes);
        Allocator::new(0, align_bytes).rounded(size_bytes).unwrap_or(u64::MAX)
    }

    /// Notes a debt; [`Self::pay`] pays it as the rule allows.
    pub(super) fn owe(&mut self, pool: PoolId, size_bytes: u64) -> bool {
        let Some(pool) = self.pools.get_mut(usize::from(pool.0)) else { return false };
        let size = size_bytes.checked_next_multiple_of(pool.align_bytes).unwrap_or(u64::MAX);
        pool.owed_bytes = pool.owed_bytes.saturating_add(size).min(pool.capacity_bytes);
        true
    }

    pub(super) fn grow(&mut self, pool: PoolId, size_bytes: u64) -> bool {
        let Some(pool) = self.pools.get_mut(usize::from(pool.0)) else { return false };
        let size = size_bytes / pool.align_bytes * pool.align_bytes;
        let forgiven = size.min(pool.owed_bytes);
        pool.owed_bytes -= forgiven;
        let most = u64::MAX / pool.align_bytes * pool.align_bytes;
        pool.capacity_bytes = pool.capacity_bytes.saturating_add(size - forgiven).min(most);
        true
    }

    /// Gives back what can be spared of what is owed: all of it if every promise can move below
    /// the new end, else down to the highest end of what is held or promised.
    pub(super) fn pay(&mut self, actions: &mut Vec<Action>) {
        for pool in self.pool_ids() {
            let Some(state) = self.pool(pool) else { continue };
            if state.owed_bytes == 0 {
                continue;
            }
            let target = state.capacity_bytes - state.owed_bytes;
            let bound = |ranges: Vec<Range>| {
                ranges.iter().filter(|r| r.pool == pool).map(|r| r.end).max().unwrap_or(0)
            };
            let in_use = self.residents.iter().filter(|r| self.holder_rank(r).is_some());
            let resident_end = bound(in_use.map(|r| self.resident_range(r)).collect());
            let needed = self.partitions.iter().map(|partition| {
                let promised = self.ranges(&partition.profile, &partition.promised, true);
                bound(self.held_ranges(partition)).max(bound(promised))
            });
            let highest = needed.max().unwrap_or(0).max(resident_end);
            if !self.shrink_to(pool, target, actions) && highest > target {
                self.shrink_to(pool, highest, actions);
            }
        }
    }

    fn shrink_to(&mut self, pool: PoolId, new_bytes: u64, actions: &mut Vec<Action>) -> bool {
        let mut next = self.clone();
        let Some(state) = next.pools.get_mut(usize::from(pool.0)) else { return false };
        let Some(size_bytes) = state.capacity_bytes.checked_sub(new_bytes).filter(|n| *n > 0)
        else {
            return false;
        };
        state.capacity_bytes = new_bytes;
        state.owed_bytes -= size_bytes.min(state.owed_bytes);
        let owed_bytes = state.owed_bytes;
        let above = |range: &Range| range.pool == pool && range.end > new_bytes;
        let mut evicted = Vec::new();
        for resident in self.residents.iter().filter(|r| above(&self.resident_range(r))) {
            if self.holder_rank(resident).is_some() || !self.rules.evict_idle {
                return false;
            }
            evicted.push(resident.key);
        }
        next.residents.retain(|resident| !evicted.contains(&resident.key));
        if next.partitions.iter().any(|p| next.held_ranges(p).iter().any(above)) {
            return false;
        }
        if self.rules.spare_shrink && self.rules.banker {
            for rank in 0..next.partitions.len() {
                if !next.promise_holds(rank) {
                    let Some(promise) = next.derive_promise(rank) else { return false };
                    let Some(partition) = next.partition_at(rank) else { return false };
                    partition.promised = promise;
                }
            }
        }
        *self = next;
        actions.extend(evicted.into_iter().map(|key| Action::Evict { key }));
        let capacity_bytes = new_bytes;
        actions.push(Action::Shrunk { pool, size_bytes, capacity_bytes, owed_bytes });
        true
    }
}
