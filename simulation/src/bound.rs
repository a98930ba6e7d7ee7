//! What a card's memory and link force, reckoned from a partition's program: to hold runs against.

use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::PoolId;

use crate::card::SlotSpec;
use crate::check::Broken;
use crate::porep::{GIB, scene};
use crate::program::Program;
use crate::protocol::ours::play;
use crate::record::Record;

/// How long partitions take on a card at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forced {
    /// From the first stage under `compute` to the last, all staged and nobody else there.
    pub computes: Duration,
    /// Bytes of a prestage that cannot be on the card before the partition before has computed: for
    /// want of room, or of time on the link once there is room.
    pub late_bytes: u64,
    /// The time that those take.
    pub late: Duration,
    /// What a partition may lose besides: in each stage it may find all staging slots in flight
    /// for another, and has to wait for them.
    pub slots: Duration,
}

impl Forced {
    /// The longest that `partitions` may take from the first kernel to the last.
    pub fn span(&self, partitions: u32) -> Duration {
        self.computes * partitions
            + self.late * partitions.saturating_sub(1)
            + self.slots * partitions
    }
}

/// The most prestage buffers of another partition for which there is room in `capacity_bytes` of
/// work memory while one runs `stage` and has all that it will still hold; in bytes.
pub fn room_bytes(program: &Program, capacity_bytes: u64, stage: usize) -> u64 {
    let live = |at: usize| -> u64 {
        let needs = program.live_in(at).filter_map(|index| program.profile.buffers().get(index));
        needs.filter(|need| need.pool == PoolId(0)).map(|need| need.size_bytes).sum()
    };
    let held = (stage..program.stages.len()).map(live).max().unwrap_or(0);
    let mut left = capacity_bytes.saturating_sub(held);
    let mut bytes = 0;
    for size in sizes(program) {
        if size <= left {
            left -= size;
            bytes += size;
        }
    }
    bytes
}

/// The prestage's buffers, the smallest first.
fn sizes(program: &Program) -> Vec<u64> {
    let uploads = program.stages.first().into_iter().flat_map(|work| &work.uploads);
    let mut sizes: Vec<u64> = uploads.filter_map(|index| program.buffer_bytes(*index)).collect();
    sizes.sort_unstable();
    sizes
}

/// Work memory of a card of `gib` beside the residents and bases of `program`.
pub fn work_bytes(gib: u64, program: &Program) -> u64 {
    let residents: u64 = program.residents().map(|(_, bytes)| bytes).sum();
    let bases = program.layout_bytes.get(1).copied().unwrap_or(0);
    (gib * GIB).saturating_sub(GIB / 2 + residents + bases)
}

/// Reckons it; how long stages take comes from a run of one partition alone.
///
/// # Errors
/// What the checks of that run found.
pub fn forced(gib: u64, program: &Arc<Program>, link_bytes: f64) -> Result<Forced, Broken> {
    let played = play(scene(gib, 1, 1, program))?;
    let time = |name| stage_time(&played.record, name);
    let computed = 1..program.stages.len().saturating_sub(1);
    let names = || computed.clone().filter_map(|at| program.stages.get(at).map(|work| work.name));
    let computes = names().map(time).sum();
    let capacity_bytes = work_bytes(gib, program);
    let staged_bytes: u64 = sizes(program).iter().sum();
    let mut there_bytes = 0.0f64;
    for (stage, name) in computed.clone().zip(names()) {
        // What the link has left of this stage; what is sent ahead is sent in the one before.
        let next = program.stages.get(stage + 1).is_some_and(|work| work.ahead);
        let ahead = if next { program.ahead_bytes(stage + 1) } else { 0 };
        let own = program.sent_bytes(stage) - program.ahead_bytes(stage);
        let sends = (own + ahead) as f64 / link_bytes;
        let idle = (time(name).as_secs_f64() - sends).max(0.0);
        let room = room_bytes(program, capacity_bytes, stage) as f64;
        there_bytes = (there_bytes + idle * link_bytes).min(room.max(there_bytes));
    }
    let late_bytes = staged_bytes.saturating_sub(there_bytes as u64);
    let seconds = |bytes: u64| Duration::from_secs_f64(bytes as f64 / link_bytes);
    let slots = SlotSpec::default();
    let in_flight_bytes = slots.count as u64 * slots.size_bytes;
    let sending = computed.filter(|stage| program.sent_bytes(*stage) > 0).count();
    Ok(Forced {
        computes,
        late_bytes,
        late: seconds(late_bytes),
        slots: seconds(in_flight_bytes) * u32::try_from(sending).unwrap_or(u32::MAX),
    })
}

fn stage_time(record: &Record, name: &str) -> Duration {
    record.stage(name).iter().map(|(_, span)| span.1.saturating_sub(span.0)).sum()
}
