//! How long a partition takes, roughly: enough to tell plans apart.

use std::time::Duration;

use twinlock_api::Group;

use super::MovedBytes;
use crate::groth16::params::Query;
use crate::groth16::prover::layout::{MsmGroup, ProofLayout, Stage};

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

impl Rates {
    /// Time from one partition's end to the next one's, whose prestage may run beside this one from
    /// a stage on; no later stage gives less.
    pub(super) fn period(
        &self,
        layout: &ProofLayout,
        moved: &MovedBytes,
        overlap_from: Option<Stage>,
    ) -> Duration {
        let copy = |bytes: u64| bytes as f64 / self.upload_bytes;
        let lg = f64::from(layout.shape.lg_domain);
        let mut computed = 7.0 * lg * layout.shape.domain() as f64 / 2.0 / self.butterflies;
        // What the link has to spare while stages run that the next prestage may run beside.
        let mut spare = 0.0;
        let beside = |stage: Stage| overlap_from.is_some_and(|from| stage >= from);
        if beside(Stage::Quotient) {
            spare += computed;
        }
        for group in &layout.groups {
            let streamed: u64 = (group.queries.iter())
                .filter(|query| query.streamed)
                .map(|query| layout.shape.query_len(query.query) * query.query.point_bytes())
                .sum::<usize>() as u64;
            let arithmetic = self.msms(group);
            computed += arithmetic.max(copy(streamed));
            if beside(group.stage) {
                spare += (arithmetic - copy(streamed)).max(0.0);
            }
        }
        let exposed = copy(moved.late_bytes) + (copy(moved.prestage_bytes) - spare).max(0.0);
        Duration::try_from_secs_f64(computed + exposed).unwrap_or(Duration::MAX)
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
