//! The MSMs of a stage, with bases that stay on the device or come chunk by chunk.

use twinlock_api::op::{BaseOf, Digits, Fill, Gather, MsmAccumulate, MsmReduce};
use twinlock_api::{IndexView, Op, PointView};

use super::{Partition, StageResult};
use crate::groth16::params::Query;
use crate::groth16::prover::layout::{self, MsmGroup, MsmQuery, Stage};
use crate::groth16::prover::variant::AssignmentUpload;
use crate::scheduler::staging::StagingRing;

/// A range of a query's bases.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub first: usize,
    pub len: usize,
    pub base_of: BaseOf,
}

impl Partition<'_> {
    pub(super) fn msms(&mut self, stage: Stage, staging: &mut StagingRing) -> StageResult {
        let Some(group) = self.layout.groups.iter().find(|group| group.stage == stage) else {
            return Ok(());
        };
        if stage == Stage::La {
            self.stage_buffer(layout::ASSIGNMENT, staging)?;
        }
        if !self.sent.is_for(stage) {
            if stage == Stage::La && self.layout.variant.assignment == AssignmentUpload::Late {
                // Its place is work memory, whose last user may still run.
                self.copy_after_compute()?;
            }
            self.send_maps(group, staging)?;
        }
        self.await_maps()?;
        let scalars = match stage {
            Stage::H => self.fr(layout::A)?,
            Stage::B => {
                let (target, of) = (self.fr(layout::B_SCALARS)?, self.view(layout::B_VARIABLES)?);
                let variables = self.fr(layout::ASSIGNMENT)?;
                self.lane.run(Op::Gather(Gather::new(variables, IndexView::new(of)?, target)?))?;
                target
            }
            _ => self.fr(layout::ASSIGNMENT)?,
        };
        for query in &group.queries {
            self.lane.run(Op::Fill(Fill::zero(self.view(query.accumulator)?)))?;
        }
        let (plan, workspace) = (self.view(layout::PLAN)?, self.view(layout::MSM_WORKSPACE)?);
        for (first, len) in group.chunks() {
            let chunk = scalars.slice(first as u64, len as u64)?;
            self.lane.run(Op::Digits(Digits::new(&group.digits, chunk, plan, workspace)?))?;
            for query in &group.queries {
                for piece in self.pieces(group, query, (first, len))? {
                    let (bases, turn) = match query.streamed {
                        true => {
                            let (bases, turn) = self.streamed(group, query, piece, staging)?;
                            (bases, Some(turn))
                        }
                        false => (self.resident_slice(query.query, piece)?, None),
                    };
                    self.lane.run(Op::MsmAccumulate(MsmAccumulate::new(
                        &query.layout,
                        (plan, len as u64),
                        bases,
                        piece.base_of,
                        self.view(query.accumulator)?,
                        workspace,
                    )?))?;
                    if let Some(turn) = turn {
                        self.used(turn)?;
                    }
                }
            }
        }
        for query in &group.queries {
            let (buckets, windows) = (self.view(query.accumulator)?, self.view(query.windows)?);
            let reduce = MsmReduce::new(&query.layout, buckets, windows, workspace)?;
            self.lane.run(Op::MsmReduce(reduce))?;
        }
        Ok(())
    }

    /// Which bases the scalars `first..first + len` take, and how they are indexed.
    fn bases_of(&self, query: Query, (first, len): (usize, usize)) -> StageResult<Wanted> {
        let inputs = self.layout.shape.inputs;
        match query {
            Query::L => {
                let leading = inputs.saturating_sub(first).min(len);
                let start = first.max(inputs) - inputs;
                let base_of = BaseOf::Offset { leading: leading as u64 };
                Ok(Wanted { first: start, len: len - leading, base_of })
            }
            Query::A if !self.layout.shape.a_is_dense() && self.layout.tables(query).0 != 1 => {
                let indices = IndexView::new(self.view(layout::A_INDICES)?)?;
                let (first, len) = (0, self.layout.shape.query_len(query));
                Ok(Wanted { first, len, base_of: BaseOf::indexed(indices, 0) })
            }
            Query::A if !self.layout.shape.a_is_dense() => {
                let bases =
                    self.sent.a_indices.as_ref().map_or(0..0, |map| map.bases(first..first + len));
                let indices = IndexView::new(self.view(layout::A_INDICES)?)?;
                let indices = indices.slice(first as u64, len as u64)?;
                let base_of = BaseOf::indexed(indices, bases.start as u32);
                Ok(Wanted { first: bases.start, len: bases.len(), base_of })
            }
            _ => Ok(Wanted { first, len, base_of: BaseOf::same() }),
        }
    }

    /// The bases of the scalars `first..first + len`, as many at once as are on the device at once:
    /// all, or what streaming buffers hold of them.
    pub(super) fn pieces(
        &self,
        group: &MsmGroup,
        query: &MsmQuery,
        (first, len): (usize, usize),
    ) -> StageResult<Vec<Wanted>> {
        let wanted = self.bases_of(query.query, (first, len))?;
        let most = group.bases_chunk;
        if !query.streamed || wanted.len <= most {
            return Ok(vec![wanted]);
        }
        // A piece's bases are picked out of the plan by their index.
        let (indices, from) = match wanted.base_of {
            BaseOf::Offset { leading } => {
                let same = IndexView::new(self.view(group.base_map)?)?;
                (same.slice(0, len as u64)?, leading as u32)
            }
            BaseOf::Indexed { indices, first } => (IndexView::new(indices)?, first),
        };
        let piece = |skipped: usize| Wanted {
            first: wanted.first + skipped,
            len: most.min(wanted.len - skipped),
            base_of: BaseOf::indexed(indices, from + skipped as u32),
        };
        Ok((0..wanted.len).step_by(most).map(piece).collect())
    }

    fn resident_slice(&self, query: Query, wanted: Wanted) -> StageResult<PointView> {
        if self.layout.tables(query).0 != 1 {
            // Of tables an MSM takes all, and all of their bases.
            return Ok(self.resident.query(query)?);
        }
        Ok(self.resident.query(query)?.slice(wanted.first as u64, wanted.len as u64)?)
    }
}
