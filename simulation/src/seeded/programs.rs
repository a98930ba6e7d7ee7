//! Partitions drawn from a seed.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use twinlock::scheduler::admission::{BufferNeed, PoolId, Profile, ResidentKey, ResidentNeed};

use super::UNIT;
use crate::program::{Program, StageWork};

const WORK: PoolId = PoolId(0);
const BASES: PoolId = PoolId(1);
const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

/// How a partition's memory goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All at the start, less and less.
    Shrinks,
    /// Little at the start, more and more.
    Grows,
    /// As it comes.
    Mixed,
}

/// A partition's parts while it is drawn.
pub(super) struct Draft {
    buffers: Vec<BufferNeed>,
    residents: Vec<ResidentNeed>,
    stages: Vec<StageWork>,
    host: [Duration; 3],
    /// Whether stages are sent ahead.
    ahead: bool,
}

fn millis(rng: &mut ChaCha8Rng, most: u64) -> Duration {
    Duration::from_millis(rng.gen_range(0..=most))
}

/// Bytes, not a multiple of the memory's alignment.
fn bytes(rng: &mut ChaCha8Rng, most: u64) -> u64 {
    rng.gen_range(1..=most / 4) * 4
}

impl Draft {
    /// Draws one; `resident_bytes` are the sizes of the residents there are.
    pub fn draw(rng: &mut ChaCha8Rng, resident_bytes: &[u64]) -> Self {
        let computed = rng.gen_range(1..=NAMES.len());
        let drain = computed + 1;
        let mut draft = Self {
            buffers: Vec::new(),
            residents: Vec::new(),
            stages: vec![StageWork { name: "prestage", ..StageWork::default() }],
            host: [millis(rng, 200), millis(rng, 300), millis(rng, 30)],
            ahead: rng.gen_bool(0.3),
        };
        for name in NAMES.into_iter().take(computed) {
            let kernels = millis(rng, 150) + Duration::from_millis(1);
            draft.stages.push(StageWork { name, kernels, ..StageWork::default() });
        }
        draft.stages.push(StageWork { name: "drain", ..StageWork::default() });
        // Lives from end to end, so that every stage has something to touch.
        draft.add(rng, ("state", WORK, UNIT / 4), (0, drain));
        let kind = [Kind::Shrinks, Kind::Grows, Kind::Mixed][rng.gen_range(0..3)];
        for _ in 0..rng.gen_range(1..=5) {
            let (one, other) = (rng.gen_range(0..=drain), rng.gen_range(0..=drain));
            let lives = match kind {
                Kind::Shrinks => (0, one),
                Kind::Grows => (one, drain),
                Kind::Mixed => (one.min(other), one.max(other)),
            };
            draft.add(rng, ("buffer", WORK, 4 * UNIT), lives);
        }
        if rng.gen_bool(0.4) {
            draft.stream(rng, computed);
        }
        for (key, size_bytes) in (0..).map(ResidentKey).zip(resident_bytes) {
            if rng.gen_bool(0.3) {
                draft.residents.push(ResidentNeed { key, pool: BASES, size_bytes: *size_bytes });
            }
        }
        draft
    }

    fn add(
        &mut self,
        rng: &mut ChaCha8Rng,
        (name, pool, most_bytes): (&'static str, PoolId, u64),
        (first, last): (usize, usize),
    ) -> usize {
        let index = self.buffers.len();
        let drain = self.stages.len() - 1;
        let is_sent = if first == 0 { last == 0 || rng.gen_bool(0.8) } else { rng.gen_bool(0.3) };
        if let Some(work) = self.stages.get_mut(first).filter(|_| is_sent && first < drain) {
            work.uploads.push(index);
        }
        if let Some(work) = self.stages.get_mut(last).filter(|_| (1..drain).contains(&last)) {
            work.midway = work.midway.or(rng.gen_bool(0.2).then_some(index));
        }
        if let Some(work) = self.stages.get_mut(drain).filter(|_| last == drain) {
            work.download = Some(index);
        }
        let (first, last) = (first as u8, last as u8);
        self.buffers.push(BufferNeed {
            name,
            pool,
            size_bytes: bytes(rng, most_bytes),
            first,
            last,
        });
        index
    }

    /// A stage whose bases come piece by piece into two buffers.
    fn stream(&mut self, rng: &mut ChaCha8Rng, computed: usize) {
        let stage = rng.gen_range(1..=computed);
        let size_bytes = bytes(rng, UNIT);
        let first = self.buffers.len();
        for name in ["bases_0", "bases_1"] {
            let (first, last) = (stage as u8, stage as u8);
            self.buffers.push(BufferNeed { name, pool: BASES, size_bytes, first, last });
        }
        let pieces = (0..rng.gen_range(2..=6)).map(|_| bytes(rng, size_bytes.max(4))).collect();
        if let Some(work) = self.stages.get_mut(stage) {
            (work.pieces, work.into, work.midway) = (pieces, vec![first, first + 1], None);
        }
    }

    /// The plan that takes a share of the bytes, one in `divisor`; residents keep their size.
    pub fn plan(&self, divisor: u64) -> Option<Arc<Program>> {
        let shrink = |bytes: u64| (bytes / divisor / 4).max(1) * 4;
        let buffers = self.buffers.iter();
        let mut buffers = buffers
            .map(|need| BufferNeed { size_bytes: shrink(need.size_bytes), ..*need })
            .collect::<Vec<_>>();
        let mut stages = self.stages.clone();
        for piece in stages.iter_mut().flat_map(|work| &mut work.pieces) {
            *piece = shrink(*piece);
        }
        if self.ahead {
            send_ahead(&mut stages, &mut buffers);
        }
        let [synthesis, beside, check] = self.host;
        let program = Program {
            offsets_bytes: Vec::new(),
            layout_bytes: Vec::new(),
            profile: Arc::new(Profile::new(buffers, self.residents.clone()).ok()?),
            stages,
            synthesis,
            beside,
            check,
        };
        Some(Arc::new(program))
    }

    /// One that fits every card.
    pub fn small() -> Self {
        let need =
            |name, first, last| BufferNeed { name, pool: WORK, size_bytes: 4096, first, last };
        let work = |name, kernels| StageWork {
            name,
            kernels: Duration::from_millis(kernels),
            ..StageWork::default()
        };
        let prestage = StageWork { uploads: vec![0], ..work("prestage", 0) };
        Self {
            buffers: vec![need("state", 0, 2)],
            residents: Vec::new(),
            stages: vec![prestage, work("one", 10), work("drain", 0)],
            host: [Duration::ZERO; 3],
            ahead: false,
        }
    }
}

/// Sends the uploads and the first pieces of each stage while the stage before computes, as the
/// prover does by plans that say so: from then on their buffers have a place.
fn send_ahead(stages: &mut [StageWork], buffers: &mut [BufferNeed]) {
    let drain = stages.len().saturating_sub(1);
    for work in stages.iter_mut().take(drain).skip(2) {
        work.ahead = true;
        for index in work.uploads.iter().chain(&work.into) {
            if let Some(need) = buffers.get_mut(*index) {
                need.first -= 1;
            }
        }
    }
}
