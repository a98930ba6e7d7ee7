//! Regions: aligned host memory, and who uses which bytes of it now.
//!
//! Work of different streams runs at the same time, so nothing but the caller's events keeps two
//! operations off the same bytes. Each operation therefore claims its ranges before it touches
//! them; a claim that meets another with a writer among the two is an error, never a data race.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use twinlock_api::{Error, Result, View};

/// Alignment of a region, in bytes: a page.
const REGION_ALIGN: usize = 4096;

/// Memory that lives until the last user is done with it.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is plain memory; access to it goes through claims.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Zeroed memory, or `None` where there is none to be had.
    fn new(size_bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size_bytes.max(1), REGION_ALIGN).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A range in use.
struct Use {
    range: Range<usize>,
    writes: bool,
}

/// Memory with its uses. A region of the device, or a staging buffer.
pub(super) struct Memory {
    block: Block,
    size_bytes: usize,
    uses: Mutex<Vec<Use>>,
}

impl Memory {
    /// Zeroed memory, or `None` where there is none to be had.
    pub(super) fn new(size_bytes: usize) -> Option<Arc<Self>> {
        let block = Block::new(size_bytes)?;
        Some(Arc::new(Self { block, size_bytes, uses: Mutex::new(Vec::new()) }))
    }

    /// All bytes, of memory that nobody else has a claim on.
    pub(super) fn get_mut(memory: &mut Arc<Self>) -> Option<&mut [u8]> {
        let memory = Arc::get_mut(memory)?;
        let start = memory.block.start.as_ptr();
        // SAFETY: there is no other reference to this memory, so no claim either, for claims hold
        // one; the block has that many initialised bytes.
        Some(unsafe { std::slice::from_raw_parts_mut(start, memory.size_bytes) })
    }
}

/// Bytes that an operation has to itself, or shares with other readers, until dropped.
pub(super) struct Claim {
    memory: Arc<Memory>,
    range: Range<usize>,
    writes: bool,
}

impl Claim {
    /// Claims a view's bytes in `memory`.
    ///
    /// # Errors
    /// `InvalidArgument` if the view exceeds the memory, or the reason why it is in use.
    pub(super) fn new(memory: &Arc<Memory>, view: View, writes: bool) -> Result<Self> {
        let (start, len) = (view.offset_bytes(), view.len_bytes());
        Self::range(memory, view.name(), start, len, writes)
    }

    /// Claims `len` bytes from `start`.
    pub(super) fn range(
        memory: &Arc<Memory>,
        name: &str,
        start: u64,
        len: u64,
        writes: bool,
    ) -> Result<Self> {
        let size = memory.size_bytes as u64;
        let end = start.checked_add(len).filter(|end| *end <= size).ok_or_else(|| {
            Error::invalid(format!("{name}: offset {start} and length {len} exceed {size} bytes"))
        })?;
        // Both fit, for the size is a `usize`.
        let range = start as usize..end as usize;
        if !range.is_empty() {
            let mut uses = memory.uses.lock().unwrap_or_else(PoisonError::into_inner);
            let meets = |other: &Use| {
                (writes || other.writes)
                    && other.range.start < range.end
                    && range.start < other.range.end
            };
            if uses.iter().any(meets) {
                return Err(Error::KernelFailed {
                    name: "claim",
                    reason: format!(
                        "{name} is in use by work of another stream; no event orders them"
                    ),
                });
            }
            uses.push(Use { range: range.clone(), writes });
        }
        Ok(Self { memory: Arc::clone(memory), range, writes })
    }

    /// The bytes, to read.
    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.memory.block.start.as_ptr();
        // SAFETY: the range lies within the block, whose bytes are initialised. No claim to write
        // these bytes exists but perhaps this one, and that writes through `&mut self` only.
        unsafe { std::slice::from_raw_parts(start.add(self.range.start), self.range.len()) }
    }

    /// The bytes, to write; none of a claim made for reading.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        if !self.writes {
            return &mut [];
        }
        let start = self.memory.block.start.as_ptr();
        // SAFETY: the range lies within the block, whose bytes are initialised. No other claim
        // meets it, and this one is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start.add(self.range.start), self.range.len()) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.range.is_empty() {
            return;
        }
        let mut uses = self.memory.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |other: &Use| other.range == self.range && other.writes == self.writes;
        if let Some(at) = uses.iter().position(own) {
            uses.swap_remove(at);
        }
    }
}

/// Bytes of memory that the system has free and in all, if it tells: the lesser of what the machine
/// and a container's control group allow.
pub fn system_memory_bytes() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let (free, total) = (field("MemAvailable:")?, field("MemTotal:")?);
    Some(match group_memory_bytes() {
        Some((group_free, group_total)) => (free.min(group_free), total.min(group_total)),
        None => (free, total),
    })
}

/// The same of the control group (version 2) that the process sees, if it has a limit.
fn group_memory_bytes() -> Option<(u64, u64)> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, current) = (number("memory.max")?, number("memory.current")?);
    // Cached files count as used, but give way.
    let stat = read("memory.stat")?;
    let cached = stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?;
    let used = current.saturating_sub(cached.trim().parse().ok()?);
    Some((limit.saturating_sub(used), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(memory: &Arc<Memory>, range: Range<u64>, writes: bool) -> Result<Claim> {
        Claim::range(memory, "bytes", range.start, range.end - range.start, writes)
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let memory = Memory::new(100).expect("memory");
        let first = claim(&memory, 0..50, false).expect("first reader");
        let second = claim(&memory, 10..60, false).expect("second reader");
        assert!(claim(&memory, 59..61, true).is_err());
        let mut writer = claim(&memory, 60..61, true).expect("beside them");
        assert!(claim(&memory, 0..100, false).is_err());
        writer.bytes_mut()[0] = 7;
        drop(writer);
        assert_eq!(claim(&memory, 0..100, false).expect("all readers").bytes()[60], 7);
        drop((first, second));
        let mut all = claim(&memory, 0..100, true).expect("alone");
        assert_eq!(all.bytes_mut().len(), 100);
        assert!(claim(&memory, 5..5, true).is_ok(), "nothing is never in use");
        assert!(claim(&memory, 50..101, false).is_err());
        assert!(Claim::range(&memory, "bytes", u64::MAX, 2, false).is_err());
    }

    #[test]
    fn a_claim_to_read_gives_nothing_to_write() {
        let memory = Memory::new(8).expect("memory");
        assert!(claim(&memory, 0..8, false).expect("reader").bytes_mut().is_empty());
    }
}
