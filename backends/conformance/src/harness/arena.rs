//! Views carved one after the other, with guard bytes between them.

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Device, MemoryClass, Region, Result, View};

/// What fresh device memory is filled with. As points, scalars or offsets it is nonsense, so an
/// operation that reads what nobody wrote shows.
pub(super) const PATTERN: u32 = 0xa5c3_96e1;
/// Regions are at least this large.
const MIN_REGION_BYTES: u64 = 4 << 20;

/// All regions of one class that a trial uses.
pub(super) struct Arena {
    class: MemoryClass,
    blocks: Vec<Block>,
}

pub(super) struct Block {
    pub(super) region: Region,
    /// Bytes in use.
    cursor_bytes: u64,
    /// Start and end of the bytes that nothing may write.
    pub(super) guards: Vec<(u64, u64)>,
}

impl Arena {
    pub(super) const fn new(class: MemoryClass) -> Self {
        Self { class, blocks: Vec::new() }
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.blocks)
    }

    pub(super) fn regions_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.region.size_bytes()).sum()
    }

    /// A view that starts at a multiple of 256 bytes; with it the view of a region that is new
    /// and wants to be filled.
    pub(super) fn carve(
        &mut self,
        device: &dyn Device,
        name: &'static str,
        len_bytes: u64,
    ) -> Result<(View, Option<View>)> {
        let needed = len_bytes.next_multiple_of(ARENA_ALIGN_BYTES) + ARENA_ALIGN_BYTES;
        let fits = |block: &Block| block.region.size_bytes() - block.cursor_bytes >= needed;
        let mut fresh = None;
        if !self.blocks.iter().any(fits) {
            let size_bytes = needed.max(MIN_REGION_BYTES);
            let region = device.allocate("conformance", self.class, size_bytes)?;
            fresh = Some(region.whole("fresh region")?);
            self.blocks.push(Block { region, cursor_bytes: 0, guards: Vec::new() });
        }
        // The newest block fits if no other does.
        let index = self.blocks.iter().position(fits).unwrap_or(self.blocks.len() - 1);
        let block = &mut self.blocks[index];
        let start = block.cursor_bytes;
        let view = block.region.view(name, start, len_bytes)?;
        block.cursor_bytes = start + needed;
        block.guards.push((view.end_bytes(), start + needed));
        Ok((view, fresh))
    }
}
