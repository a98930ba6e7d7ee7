//! A layout as the scheduler sees it: a profile of buffers, and the way back.

use std::sync::Arc;

use twinlock_api::MemoryClass;

use super::layout::{ProofLayout, Stage};
use crate::Result;
use crate::scheduler::admission::{BufferNeed, Placement, PoolId, Profile};

/// The memories of a device in the order of their [`PoolId`].
pub(super) const POOLS: [MemoryClass; 2] = [MemoryClass::Work, MemoryClass::Resident];

pub(super) fn pool_of(class: MemoryClass) -> PoolId {
    match class {
        MemoryClass::Work => PoolId(0),
        MemoryClass::Resident => PoolId(1),
    }
}

/// A layout with its profile.
pub(super) struct Plan {
    pub layout: ProofLayout,
    pub profile: Arc<Profile>,
    /// Whether each memory is asked for as one buffer, in which the layout has its own places.
    /// Holds more for longer, and fits where the buffers one by one leave holes.
    whole: bool,
}

impl Plan {
    /// Asks for each buffer, in the stages it lives in.
    pub fn by_buffer(layout: ProofLayout) -> Result<Self> {
        let needs = layout.buffers.iter().map(|buffer| BufferNeed {
            name: buffer.name,
            pool: pool_of(buffer.class),
            size_bytes: buffer.size_bytes,
            first: buffer.first as u8,
            last: buffer.last as u8,
        });
        let profile = Arc::new(Profile::new(needs.collect(), Vec::new())?);
        Ok(Self { layout, profile, whole: false })
    }

    /// Asks for each memory at once.
    pub fn whole(layout: ProofLayout) -> Result<Self> {
        let needs = POOLS.map(|class| BufferNeed {
            name: "partition",
            pool: pool_of(class),
            size_bytes: layout.peak_bytes(class),
            first: Stage::Prestage as u8,
            last: Stage::Drain as u8,
        });
        let profile = Arc::new(Profile::new(needs.to_vec(), Vec::new())?);
        Ok(Self { layout, profile, whole: true })
    }

    /// The layout's buffers that lie in a placement, by their index, and where.
    pub fn buffers_of(&self, placement: &Placement) -> Vec<(usize, u64)> {
        if !self.whole {
            return vec![(placement.buffer, placement.offset_bytes)];
        }
        let buffers = self.layout.buffers.iter().enumerate();
        let there = buffers.filter(|(_, buffer)| pool_of(buffer.class) == placement.pool);
        there.map(|(at, buffer)| (at, placement.offset_bytes + buffer.offset_bytes)).collect()
    }
}
