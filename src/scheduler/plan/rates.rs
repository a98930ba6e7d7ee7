//! How long a partition takes, roughly: enough to tell plans apart.

use std::time::Duration;

use twinlock_api::Group;
use twinlock_api::layout::{FR_BYTES, INDEX_BYTES};

use super::moved_bytes;
use crate::groth16::params::Query;
use crate::groth16::prover::layout::{MsmGroup, Stage};
use crate::groth16::prover::shape::ProofShape;
use crate::groth16::prover::variant::{AssignmentUpload, NttBuffers, Variant};

/// Rates of a device and its link, from which a plan's time is reckoned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Host to device, bytes per second.
    pub upload_bytes: f64,
    /// Device memory, bytes per second.
    pub memory_bytes: f64,
    /// Butterflies over Fr per second.
    pub butterflies: f64,
    /// Additions of a base to a bucket in G1 per second; G2 takes three times as long.
    pub additions: f64,
    /// Scalars of L and A, or of both B queries, per second, when most of them are 0 or 1.
    pub bit_scalars: [f64; 2],
}

impl Default for Rates {
    /// An H200 that copies from pinned memory at 55.3 GB/s and computes the partition of a 32 GiB
    /// PoRep (2^27 rows) at the best public engine's rates: 7 NTTs in 0.30 s, h in 1.15 s (13
    /// windows), l and a in 0.10 s, b_g1 and b_g2 in 0.13 s.
    fn default() -> Self {
        let domain = f64::from(1 << 27);
        Self {
            upload_bytes: 55.3e9,
            memory_bytes: 4.3e12,
            butterflies: 7.0 * 27.0 * domain / 2.0 / 0.30,
            additions: 13.0 * domain / 1.15,
            bit_scalars: [130_170_221.0 / 0.10, 33_112_282.0 / 0.13],
        }
    }
}

/// What one stage computes and sends.
struct StageLoad {
    stage: Stage,
    /// Seconds of its arithmetic.
    arithmetic: f64,
    /// Seconds on the link for all that it reads.
    sent: f64,
    /// Those for what its arithmetic starts with: maps, a late assignment, the first piece.
    first: f64,
    /// Those for what goes up during the stage before, where uploads are sent ahead: one piece more.
    ahead: f64,
    /// Seconds of arithmetic behind the last piece's upload.
    last: f64,
}

impl Rates {
    /// Time from one partition's end to the next one's, whose prestage may run beside this one from
    /// a stage on; no later stage gives less. A stage takes what its arithmetic or its link takes,
    /// whichever is longer. It waits for what its arithmetic starts with, unless that is sent ahead:
    /// then the stage before has that on its link.
    pub(super) fn period(
        &self,
        shape: &ProofShape,
        variant: &Variant,
        groups: &[MsmGroup],
        overlap_from: Option<Stage>,
    ) -> Duration {
        let moved = moved_bytes(shape, variant);
        let beside = |stage: Stage| overlap_from.is_some_and(|from| stage >= from);
        let mut loads = vec![self.quotient(shape, variant)];
        loads.extend(groups.iter().map(|group| self.stage(shape, variant, group)));
        let mut seconds = 0.0;
        // What the link has to spare while stages run that the next prestage may run beside.
        let mut spare = 0.0;
        for (at, load) in loads.iter().enumerate() {
            let (waits, rest, next) = match variant.ahead {
                true if load.stage == Stage::Quotient => (load.first, 0.0, ahead_of(&loads, at)),
                true => (0.0, load.sent - load.ahead, ahead_of(&loads, at)),
                false => (load.first, load.sent - load.first, 0.0),
            };
            let behind = if rest > 0.0 { rest + load.last } else { 0.0 };
            let runs = load.arithmetic.max(behind).max(rest + next);
            seconds += waits + runs;
            if beside(load.stage) {
                spare += runs - rest - next;
            }
        }
        seconds += (self.copy(moved.prestage_bytes) - spare).max(0.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn copy(&self, bytes: u64) -> f64 {
        bytes as f64 / self.upload_bytes
    }

    /// Seven NTTs; with two vectors c comes between them, while the device waits.
    fn quotient(&self, shape: &ProofShape, variant: &Variant) -> StageLoad {
        let lg = f64::from(shape.lg_domain);
        let midway = match variant.ntt_buffers {
            NttBuffers::Two => self.copy(shape.domain() as u64 * FR_BYTES),
            NttBuffers::Three => 0.0,
        };
        StageLoad {
            stage: Stage::Quotient,
            arithmetic: 7.0 * lg * shape.domain() as f64 / 2.0 / self.butterflies,
            sent: midway,
            first: midway,
            ahead: 0.0,
            last: 0.0,
        }
    }

    fn stage(&self, shape: &ProofShape, variant: &Variant, group: &MsmGroup) -> StageLoad {
        let maps = match group.stage {
            Stage::La => {
                let late = variant.assignment == AssignmentUpload::Late;
                let assignment = if late { shape.variables() as u64 * FR_BYTES } else { 0 };
                let indices = if shape.a_is_dense() { 0 } else { shape.variables() as u64 };
                assignment + indices * INDEX_BYTES
            }
            Stage::B => shape.b as u64 * INDEX_BYTES,
            _ => 0,
        };
        let streamed = || group.queries.iter().filter(|query| query.streamed);
        let bytes: u64 = streamed()
            .map(|query| (shape.query_len(query.query) * query.query.point_bytes()) as u64)
            .sum();
        let most = streamed().map(|query| query.query.point_bytes()).max().unwrap_or(0);
        let piece = ((group.bases_chunk * most) as u64).min(bytes);
        let arithmetic = self.msms(group);
        let pieces = if piece == 0 { 1 } else { bytes.div_ceil(piece) };
        StageLoad {
            stage: group.stage,
            arithmetic,
            sent: self.copy(maps + bytes),
            first: self.copy(maps + piece),
            ahead: self.copy(maps + (2 * piece).min(bytes)),
            last: arithmetic / pieces as f64,
        }
    }

    fn msms(&self, group: &MsmGroup) -> f64 {
        let len = group.len as f64;
        let chunks = group.len.div_ceil(group.chunk) as f64;
        let pieces = group.chunk.div_ceil(group.bases_chunk) as f64;
        let mut seconds = match group.stage {
            Stage::La => len / self.bit_scalars[0],
            Stage::B => len / self.bit_scalars[1],
            _ => 0.0,
        };
        for query in &group.queries {
            let windows = f64::from(query.layout.num_windows);
            let weight = if query.layout.group == Group::G2 { 3.0 } else { 1.0 };
            if query.query == Query::H {
                seconds += windows * len / self.additions;
            }
            let width = query.layout.shape.window_bits.saturating_sub(1);
            let buckets = windows * 2f64.powi(width.cast_signed());
            // Each chunk opens the buckets again; two additions a bucket sum them up.
            seconds += buckets * (chunks + 2.0) * weight / self.additions;
            if query.streamed {
                // A plan's entries are read once for each piece of its bases.
                seconds += (pieces - 1.0) * windows * len * 4.0 / self.memory_bytes;
            }
        }
        seconds
    }
}

/// Seconds on the link for what goes up ahead for the stage after the one at `at`.
fn ahead_of(loads: &[StageLoad], at: usize) -> f64 {
    loads.get(at + 1).map_or(0.0, |next| next.ahead)
}
