//! Looking for a grant that the rule allows.

use std::sync::Arc;

use super::Admission;
use super::event::{Action, Shortage};
use super::partition::Resident;
use super::place::{Goal, Layout, Range, merged, place};
use super::profile::{PoolId, ResidentKey};
use super::safety::covered_bytes;

/// How an attempt looks for room.
#[derive(Debug, Clone, Copy)]
enum Room {
    /// Keep clear of what is promised to older partitions: no promise has to change.
    Unpromised,
    /// Anywhere that is free; older promises move, if they can.
    Free,
    /// Exactly where it was promised.
    Promised,
}

impl Admission {
    /// Gives `goal` to a partition if the rule allows; says what was evicted for it. Idle
    /// residents go one by one, the longest idle first, and only when nothing else helps.
    pub(super) fn grant(&mut self, rank: usize, goal: Goal, actions: &mut Vec<Action>) -> bool {
        let Some(own) = self.partitions.get(rank) else { return false };
        if own.holds(goal) {
            return true;
        }
        let older_promises = self.partitions.iter().take(rank).any(|older| {
            let promised = &older.promised;
            promised.buffers.iter().chain(&promised.residents).any(Option::is_some)
        });
        let mut idle: Vec<ResidentKey> = Vec::new();
        if self.rules.evict_idle {
            let unused = self.residents.iter().filter(|r| self.holder_rank(r).is_none());
            idle.extend(unused.map(|resident| resident.key));
            // What the partition reads itself goes last.
            idle.sort_by_key(|key| own.resident_index(*key).is_some());
        }
        for evicted in 0..=idle.len() {
            let out = idle.get(..evicted).unwrap_or_default();
            let rooms = [older_promises.then_some(Room::Unpromised), Some(Room::Free)];
            for room in rooms.into_iter().flatten() {
                if self.attempt(rank, goal, room, out, actions) {
                    return true;
                }
            }
        }
        self.attempt(rank, goal, Room::Promised, &idle, actions)
    }

    /// Tries one way on a copy, and becomes the copy if all holds.
    fn attempt(
        &mut self,
        rank: usize,
        goal: Goal,
        room: Room,
        out: &[ResidentKey],
        actions: &mut Vec<Action>,
    ) -> bool {
        let mut next = self.clone();
        next.residents.retain(|resident| !out.contains(&resident.key));
        let Some(layout) = next.find(rank, goal, room) else { return false };
        if !next.hold(rank, goal, &layout) || !next.settle(rank, matches!(room, Room::Promised)) {
            return false;
        }
        *self = next;
        actions.extend(out.iter().map(|&key| Action::Evict { key }));
        true
    }

    /// Places for all of `goal` among what is held now.
    fn find(&self, rank: usize, goal: Goal, room: Room) -> Option<Layout> {
        let own = self.partitions.get(rank)?;
        let mut fixed = own.held.clone();
        for (need, slot) in own.profile.residents().iter().zip(&mut fixed.residents) {
            if let Some(resident) = self.residents.iter().find(|r| r.key == need.key) {
                *slot = Some(resident.offset_bytes);
            }
        }
        let mut taken = self.held_now(Some(rank));
        match room {
            Room::Unpromised => {
                for older in self.partitions.iter().take(rank) {
                    taken.extend(self.ranges(&older.profile, &older.promised, true));
                }
            }
            Room::Free => {}
            Room::Promised => {
                let mut layout = fixed.clone();
                for (slot, promised) in layout.buffers.iter_mut().zip(&own.promised.buffers) {
                    *slot = slot.or(*promised);
                }
                for (slot, promised) in layout.residents.iter_mut().zip(&own.promised.residents) {
                    if slot.is_some() && promised.is_some() && slot != promised {
                        return None;
                    }
                    *slot = slot.or(*promised);
                }
                let ranges = self.ranges(&own.profile, &own.promised, true);
                let clear = |range: &Range| {
                    range.end <= self.capacity(range.pool)
                        && !taken.iter().any(|other| other.overlaps(range))
                };
                return ranges.iter().all(clear).then_some(layout);
            }
        }
        let spaces = self.spaces(&self.limits(&own.profile), taken);
        place(&own.profile, own.stage, &fixed, goal, spaces)
    }

    /// What is held, idle residents included, but not by the partition at `except` nor the
    /// residents that it reads.
    fn held_now(&self, except: Option<usize>) -> Vec<Range> {
        let partitions = self.partitions.iter().enumerate();
        let mut ranges: Vec<Range> = partitions
            .filter(|(rank, _)| Some(*rank) != except)
            .flat_map(|(_, partition)| self.held_ranges(partition))
            .collect();
        let own = except.and_then(|rank| self.partitions.get(rank));
        let reads = |key| own.is_some_and(|own| own.resident_index(key).is_some());
        ranges.extend(
            (self.residents.iter().filter(|resident| !reads(resident.key)))
                .map(|resident| self.resident_range(resident)),
        );
        ranges
    }

    /// Moves what `goal` wants from `layout` into what the partition holds.
    fn hold(&mut self, rank: usize, goal: Goal, layout: &Layout) -> bool {
        let Some(own) = self.partitions.get_mut(rank).map(Arc::make_mut) else { return false };
        for index in 0..own.held.buffers.len() {
            if goal.wants_buffer(&own.profile, index)
                && own.lives(index)
                && let (Some(held), Some(promised)) =
                    (own.held.buffers.get_mut(index), own.promised.buffers.get_mut(index))
            {
                *held = held.or(layout.buffer(index));
                *promised = None;
            }
        }
        for (index, need) in own.profile.residents().iter().enumerate() {
            if goal.wants_resident(index)
                && let Some(offset_bytes) = layout.resident(index)
                && let (Some(held), Some(promised)) =
                    (own.held.residents.get_mut(index), own.promised.residents.get_mut(index))
            {
                *held = Some(offset_bytes);
                *promised = None;
                if !self.residents.iter().any(|resident| resident.key == need.key) {
                    self.residents.push(Resident {
                        key: need.key,
                        pool: need.pool,
                        offset_bytes,
                        size_bytes: need.size_bytes,
                        loaded: false,
                    });
                }
            }
        }
        own.holds(goal)
    }

    /// Whether an older partition waits for memory.
    pub(super) fn older_waits(&self, rank: usize) -> bool {
        self.rules.in_order && (0..rank).any(|older| self.waits_for_memory(older))
    }

    /// The numbers behind a refusal of `goal`: of the first memory that lacks bytes, else of the
    /// first that is asked for (there are enough bytes, in pieces).
    pub(super) fn shortage(&self, rank: usize, goal: Goal) -> Shortage {
        let mut answer: Option<Shortage> = None;
        for pool in self.pool_ids() {
            let needed_bytes = self.needed_bytes(rank, goal, pool);
            let free_bytes = self.free_bytes(pool);
            let usable_bytes = self.usable_bytes(rank, pool).min(free_bytes);
            let shortage = Shortage { pool, needed_bytes, free_bytes, usable_bytes };
            if needed_bytes > usable_bytes {
                return shortage;
            }
            if needed_bytes > 0 && answer.is_none() {
                answer = Some(shortage);
            }
        }
        answer.unwrap_or(Shortage {
            pool: PoolId(0),
            needed_bytes: 0,
            free_bytes: 0,
            usable_bytes: 0,
        })
    }

    /// Bytes that `goal` asks for beyond what the partition holds.
    fn needed_bytes(&self, rank: usize, goal: Goal, pool: PoolId) -> u64 {
        let Some(own) = self.partitions.get(rank) else { return 0 };
        let there = |key| self.residents.iter().any(|resident| resident.key == key);
        let residents = own.profile.residents().iter().enumerate();
        let mut bytes = residents
            .filter(|(at, need)| need.pool == pool && goal.wants_resident(*at) && !there(need.key))
            .fold(0u64, |sum, (_, need)| sum.saturating_add(self.rounded(pool, need.size_bytes)));
        if goal == Goal::Whole {
            let held = covered_bytes(&merged(self.held_ranges(own)), pool);
            let peak = self.buffers_peak_bytes(&own.profile, own.stage, pool);
            return bytes.saturating_add(peak.saturating_sub(held));
        }
        for (index, need) in own.profile.buffers().iter().enumerate() {
            if need.pool == pool
                && goal.wants_buffer(&own.profile, index)
                && own.lives(index)
                && own.held.buffer(index).is_none()
            {
                bytes = bytes.saturating_add(self.rounded(pool, need.size_bytes));
            }
        }
        bytes
    }

    /// Bytes of a memory that nobody holds; idle residents count as free.
    pub fn free_bytes(&self, pool: PoolId) -> u64 {
        self.capacity(pool).saturating_sub(self.held_bytes(pool))
    }

    /// Bytes of a memory that partitions hold, residents in use included.
    pub fn held_bytes(&self, pool: PoolId) -> u64 {
        let mut ranges: Vec<Range> =
            self.partitions.iter().flat_map(|partition| self.held_ranges(partition)).collect();
        let used = self.residents.iter().filter(|resident| self.holder_rank(resident).is_some());
        ranges.extend(used.map(|resident| self.resident_range(resident)));
        covered_bytes(&merged(ranges), pool)
    }

    /// What the rule, counted in bytes, leaves to a partition: no older one may come to lack any.
    fn usable_bytes(&self, rank: usize, pool: PoolId) -> u64 {
        if self.older_waits(rank) {
            return 0;
        }
        let spare = |older: usize| {
            let Some(own) = self.partitions.get(older) else { return 0 };
            let blocked = covered_bytes(&merged(self.held_by_younger(older)), pool);
            let peak = self.peak_bytes(own, older, pool);
            self.capacity(pool).saturating_sub(blocked).saturating_sub(peak)
        };
        (0..rank).map(spare).min().unwrap_or(u64::MAX)
    }
}
