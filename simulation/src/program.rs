//! What one partition does on a card: the memory it holds and the work of each stage.

use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::{Profile, ResidentKey};

/// The work of one stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageWork {
    /// The stage's name.
    pub name: &'static str,
    /// Buffers, by index, that are sent to the device before its kernels.
    pub uploads: Vec<usize>,
    /// Time of its kernels.
    pub kernels: Duration,
    /// A buffer that is sent anew between the kernels, while the device waits.
    pub midway: Option<usize>,
    /// Bytes of each piece that is streamed, each before its share of the kernels.
    pub pieces: Vec<u64>,
    /// The buffers that the pieces go into, in turn.
    pub into: Vec<usize>,
    /// Whether its uploads, and the pieces that its buffers have room for, are sent while the stage
    /// before computes; the buffers live from that stage on.
    pub ahead: bool,
    /// A buffer that comes back to the host when all is done.
    pub download: Option<usize>,
}

/// All work of one partition by one memory plan.
#[derive(Debug, Clone)]
pub struct Program {
    /// What it holds; stage 0 is the prestage, the last one the drain.
    pub profile: Arc<Profile>,
    /// A stage of work for each stage of the profile.
    pub stages: Vec<StageWork>,
    /// Where the plan's own layout puts each buffer within its memory.
    pub offsets_bytes: Vec<u64>,
    /// The size of that layout in each memory.
    pub layout_bytes: Vec<u64>,
    /// Host work before anything goes to the device.
    pub synthesis: Duration,
    /// Host work beside staging and kernels; the partition ends no earlier.
    pub beside: Duration,
    /// Host work after the drain.
    pub check: Duration,
}

impl Program {
    /// Time of all kernels.
    pub fn kernels(&self) -> Duration {
        self.stages.iter().map(|stage| stage.kernels).sum()
    }

    /// Bytes of a stage's uploads: its buffers, what comes midway, and what is streamed.
    pub fn sent_bytes(&self, stage: usize) -> u64 {
        let Some(work) = self.stages.get(stage) else { return 0 };
        let sent = work.uploads.iter().chain(&work.midway);
        let sent: u64 = sent.filter_map(|index| self.buffer_bytes(*index)).sum();
        sent + work.pieces.iter().sum::<u64>()
    }

    /// Those of them that are sent during the stage before.
    pub fn ahead_bytes(&self, stage: usize) -> u64 {
        let Some(work) = self.stages.get(stage).filter(|work| work.ahead) else { return 0 };
        let uploads = work.uploads.iter().filter_map(|index| self.buffer_bytes(*index));
        uploads.chain(work.pieces.iter().copied().take(work.into.len())).sum()
    }

    /// The buffers that a stage's kernels use, beside those that pieces are streamed into.
    pub fn touched(&self, stage: usize) -> Vec<usize> {
        let into = self.stages.get(stage).map_or(&[][..], |work| &work.into);
        let next = self.stages.get(stage + 1).filter(|work| work.ahead);
        let sent = next.map_or([&[][..]; 2], |work| [&work.uploads, &work.into]);
        let others =
            |index: &usize| !into.contains(index) && sent.iter().all(|sent| !sent.contains(index));
        self.live_in(stage).filter(others).collect()
    }

    /// The size of a buffer.
    pub fn buffer_bytes(&self, index: usize) -> Option<u64> {
        self.profile.buffers().get(index).map(|need| need.size_bytes)
    }

    /// The buffers that live in a stage.
    pub fn live_in(&self, stage: usize) -> impl Iterator<Item = usize> + '_ {
        let buffers = self.profile.buffers().iter().enumerate();
        buffers
            .filter(move |(_, need)| (usize::from(need.first)..=need.last.into()).contains(&stage))
            .map(|(index, _)| index)
    }

    /// The residents it reads, with their sizes.
    pub fn residents(&self) -> impl Iterator<Item = (ResidentKey, u64)> + '_ {
        self.profile.residents().iter().map(|need| (need.key, need.size_bytes))
    }
}
