//! Finding room for a partition, stage by stage, with the allocator that the device's memory uses.

use super::profile::{PoolId, Profile};
use crate::scheduler::allocator::Allocator;

/// Offsets by index of buffer and of resident; `None` for what has no place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub buffers: Vec<Option<u64>>,
    pub residents: Vec<Option<u64>>,
}

impl Layout {
    pub fn empty(profile: &Profile) -> Self {
        Self {
            buffers: vec![None; profile.buffers().len()],
            residents: vec![None; profile.residents().len()],
        }
    }

    pub fn buffer(&self, index: usize) -> Option<u64> {
        self.buffers.get(index).copied().flatten()
    }

    pub fn resident(&self, index: usize) -> Option<u64> {
        self.residents.get(index).copied().flatten()
    }
}

/// Which part of a profile a grant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Everything that is left.
    Whole,
    /// What the stages up to this one use, residents included.
    Through(u8),
    /// The buffers that a stage uses, without residents.
    Buffers(u8),
    /// One buffer.
    Buffer(usize),
    /// One resident.
    Resident(usize),
}

impl Goal {
    pub fn wants_buffer(self, profile: &Profile, index: usize) -> bool {
        let first = profile.buffers().get(index).map(|need| need.first);
        match self {
            Self::Whole => true,
            Self::Through(stage) | Self::Buffers(stage) => first.is_some_and(|at| at <= stage),
            Self::Buffer(wanted) => wanted == index,
            Self::Resident(_) => false,
        }
    }

    pub fn wants_resident(self, index: usize) -> bool {
        match self {
            Self::Whole | Self::Through(_) => true,
            Self::Resident(wanted) => wanted == index,
            Self::Buffers(_) | Self::Buffer(_) => false,
        }
    }
}

/// A range of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub pool: PoolId,
    pub start: u64,
    pub end: u64,
}

impl Range {
    pub fn overlaps(&self, other: &Self) -> bool {
        self.pool == other.pool && self.start < other.end && other.start < self.end
    }
}

/// Sorts and joins ranges: what they cover, each byte once.
pub(super) fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.pool == range.pool && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Gives a place to every item of `goal` that lives in `stage` or later and has none in `fixed`.
///
/// `spaces` are the memories without what `fixed` holds. Walks the stages as they will run: at the
/// start of each, its new buffers are carved, those that live longest first; at its end, those
/// that live no longer are freed. `None` when some buffer finds no hole.
///
/// At first buffers go where the partition has others at other times, and to one end of the
/// memory, so that it covers little and what is left for another is in one piece. If that finds no
/// hole for one of them, all go by best fit.
pub(super) fn place(
    profile: &Profile,
    stage: u8,
    fixed: &Layout,
    goal: Goal,
    spaces: Vec<Allocator>,
) -> Option<Layout> {
    place_by(Fit::Beside, profile, stage, fixed, goal, spaces.clone())
        .or_else(|| place_by(Fit::Best, profile, stage, fixed, goal, spaces))
}

/// How a hole is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Beside,
    Best,
}

fn place_by(
    fit: Fit,
    profile: &Profile,
    stage: u8,
    fixed: &Layout,
    goal: Goal,
    mut spaces: Vec<Allocator>,
) -> Option<Layout> {
    let mut layout = fixed.clone();
    let mut missing: Vec<usize> = (0..profile.buffers().len())
        .filter(|&index| goal.wants_buffer(profile, index) && fixed.buffer(index).is_none())
        .filter(|&index| profile.buffers().get(index).is_some_and(|need| need.last >= stage))
        .collect();
    let residents_missing = (0..profile.residents().len())
        .any(|index| goal.wants_resident(index) && fixed.resident(index).is_none());
    // What is whole may overlap itself where lifetimes do not meet, so it is not laid out again.
    if missing.is_empty() && !residents_missing {
        return Some(layout);
    }
    for (need, offset) in profile.buffers().iter().zip(&fixed.buffers) {
        if let Some(start) = *offset {
            space(&mut spaces, need.pool)?.allocate_at(start, need.size_bytes).then_some(())?;
        }
    }
    for (need, offset) in profile.residents().iter().zip(&fixed.residents) {
        if let Some(start) = *offset {
            space(&mut spaces, need.pool)?.allocate_at(start, need.size_bytes).then_some(())?;
        }
    }
    for (index, need) in profile.residents().iter().enumerate() {
        if goal.wants_resident(index) && fixed.resident(index).is_none() {
            let start = space(&mut spaces, need.pool)?.allocate(need.size_bytes)?;
            *layout.residents.get_mut(index)? = Some(start);
        }
    }
    let key = |index: &usize| {
        profile
            .buffers()
            .get(*index)
            .map(|need| (need.first.max(stage), u8::MAX - need.last, u64::MAX - need.size_bytes))
    };
    missing.sort_by_key(key);
    let mut missing = missing.into_iter().peekable();
    for now in stage..=profile.last_stage() {
        while let Some(index) = missing.next_if(|index| {
            profile.buffers().get(*index).is_some_and(|need| need.first.max(stage) == now)
        }) {
            let need = profile.buffers().get(index)?;
            let start = match fit {
                Fit::Beside => {
                    let own = covered(profile, &layout, need.pool, &spaces);
                    space(&mut spaces, need.pool)?.allocate_beside(need.size_bytes, &own)?
                }
                Fit::Best => space(&mut spaces, need.pool)?.allocate(need.size_bytes)?,
            };
            *layout.buffers.get_mut(index)? = Some(start);
        }
        if missing.peek().is_none() {
            break;
        }
        for (need, offset) in profile.buffers().iter().zip(&layout.buffers) {
            if let Some(start) = *offset
                && need.last == now
            {
                space(&mut spaces, need.pool)?.free(start);
            }
        }
    }
    Some(layout)
}

/// What the layout covers of a memory so far, whether in use in this stage or not.
fn covered(
    profile: &Profile,
    layout: &Layout,
    pool: PoolId,
    spaces: &[Allocator],
) -> Vec<(u64, u64)> {
    let rounded = |size_bytes| spaces.get(usize::from(pool.0))?.rounded(size_bytes);
    let placed = profile.buffers().iter().zip(&layout.buffers);
    let ranges = placed.filter(|(need, _)| need.pool == pool).filter_map(|(need, start)| {
        let start = (*start)?;
        Some(Range { pool, start, end: start.saturating_add(rounded(need.size_bytes)?) })
    });
    merged(ranges.collect()).into_iter().map(|range| (range.start, range.end)).collect()
}

fn space(spaces: &mut [Allocator], pool: PoolId) -> Option<&mut Allocator> {
    spaces.get_mut(usize::from(pool.0))
}
