//! Where buffers lie: what the arena's own allocator gives, stage by stage, in the least memory in
//! which it finds a place for all.

use twinlock_api::MemoryClass;
use twinlock_api::layout::ARENA_ALIGN_BYTES;

use super::layout::{Buffer, Stage};
use crate::scheduler::allocator::Allocator;

/// Past this, memory grows by whole buffers.
const CLOSE_ATTEMPTS: usize = 32;

/// What a partition, by its number, does next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Carves what a stage is the first to use: those that live longest first, then the largest.
    Enter(usize, Stage),
    /// Gives back what a stage is the last to use.
    Leave(usize, Stage),
}

/// A partition that runs alone.
pub(crate) fn alone() -> Vec<Step> {
    Stage::ALL
        .into_iter()
        .flat_map(|stage| [Step::Enter(0, stage), Step::Leave(0, stage)])
        .collect()
}

/// Memory in which a walk succeeds, and where the buffers of partition 0 lie in it.
pub(crate) struct Carved {
    pub capacity_bytes: u64,
    pub offsets_bytes: Vec<u64>,
}

/// Walks `steps`, partitions all having `buffers` of one class, in ever more memory until all find
/// a place. Starts with what is held at once, which nothing can go below.
pub(crate) fn carve(buffers: &[Buffer], class: MemoryClass, steps: &[Step]) -> Carved {
    let mut order: Vec<(usize, &Buffer)> =
        buffers.iter().enumerate().filter(|(_, buffer)| buffer.class == class).collect();
    order.sort_by_key(|(_, b)| (std::cmp::Reverse(b.last), std::cmp::Reverse(b.size_bytes)));
    let mut capacity_bytes = held_at_once(&order, steps);
    for attempt in 0.. {
        match walk(&order, steps, capacity_bytes, buffers.len()) {
            Ok(offsets_bytes) => return Carved { capacity_bytes, offsets_bytes },
            Err(Missing { close_bytes, ample_bytes }) => {
                capacity_bytes += if attempt < CLOSE_ATTEMPTS { close_bytes } else { ample_bytes };
            }
        }
    }
    Carved { capacity_bytes, offsets_bytes: vec![0; buffers.len()] }
}

fn held_at_once(order: &[(usize, &Buffer)], steps: &[Step]) -> u64 {
    let bytes = |of: &dyn Fn(&Buffer) -> bool| -> u64 {
        order.iter().filter(|(_, buffer)| of(buffer)).map(|(_, buffer)| buffer.taken_bytes()).sum()
    };
    let (mut held, mut most) = (0, 0);
    for step in steps {
        match *step {
            Step::Enter(_, stage) => held += bytes(&|buffer| buffer.first == stage),
            Step::Leave(_, stage) => held -= bytes(&|buffer| buffer.last == stage),
        }
        most = most.max(held);
    }
    most
}

/// What a hole lacked.
struct Missing {
    close_bytes: u64,
    ample_bytes: u64,
}

fn walk(
    order: &[(usize, &Buffer)],
    steps: &[Step],
    capacity_bytes: u64,
    buffers: usize,
) -> Result<Vec<u64>, Missing> {
    let mut space = Allocator::new(capacity_bytes, ARENA_ALIGN_BYTES);
    let mut offsets = vec![0; buffers];
    // Partition, the last stage of use, and where.
    let mut held: Vec<(usize, Stage, u64)> = Vec::new();
    for step in steps {
        match *step {
            Step::Enter(partition, stage) => {
                for (index, buffer) in order.iter().filter(|(_, buffer)| buffer.first == stage) {
                    let Some(start) = space.allocate(buffer.size_bytes) else {
                        let ample_bytes = buffer.taken_bytes();
                        let close_bytes = ample_bytes - space.largest_hole_bytes();
                        return Err(Missing { close_bytes, ample_bytes });
                    };
                    held.push((partition, buffer.last, start));
                    if partition == 0
                        && let Some(offset) = offsets.get_mut(*index)
                    {
                        *offset = start;
                    }
                }
            }
            Step::Leave(partition, stage) => held.retain(|(of, last, start)| {
                let stays = *of != partition || *last != stage;
                stays || !space.free(*start)
            }),
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn buffers(sizes: &[(u64, u8, u8)]) -> Vec<Buffer> {
        let stage = |at: u8| Stage::ALL[usize::from(at) % Stage::ALL.len()];
        let buffer = |&(size_bytes, one, other): &(u64, u8, u8)| {
            let (one, other) = (stage(one), stage(other));
            Buffer {
                name: "buffer",
                class: MemoryClass::Work,
                offset_bytes: 0,
                size_bytes,
                first: one.min(other),
                last: one.max(other),
            }
        };
        sizes.iter().map(buffer).collect()
    }

    proptest! {
        #[test]
        fn buffers_in_use_at_once_never_share_a_byte(
            sizes in prop::collection::vec((1u64..5_000, 0u8..6, 0u8..6), 0..30)
        ) {
            let mut buffers = buffers(&sizes);
            let carved = carve(&buffers, MemoryClass::Work, &alone());
            for (buffer, offset) in buffers.iter_mut().zip(&carved.offsets_bytes) {
                buffer.offset_bytes = *offset;
            }
            for (at, a) in buffers.iter().enumerate() {
                prop_assert!(a.end_bytes() <= carved.capacity_bytes);
                for b in &buffers[at + 1..] {
                    let meet = a.first <= b.last && b.first <= a.last;
                    let share = a.offset_bytes < b.end_bytes() && b.offset_bytes < a.end_bytes();
                    prop_assert!(!(meet && share), "{a:?} {b:?}");
                }
            }
        }
    }
}
