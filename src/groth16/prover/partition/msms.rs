//! The MSMs of a stage, with bases that stay on the device or come chunk by chunk.

use twinlock_api::layout::NO_BASE;
use twinlock_api::op::{BaseOf, Digits, Fill, Gather, MsmAccumulate, MsmReduce};
use twinlock_api::{IndexView, Op, PointView};

use super::{Partition, StageResult};
use crate::groth16::params::Query;
use crate::groth16::prover::bases::load_points;
use crate::groth16::prover::layout::{self, MsmGroup, MsmQuery, Stage};
use crate::groth16::prover::shape::{a_indices, b_variables};
use crate::groth16::prover::variant::AssignmentUpload;
use crate::scheduler::staging::StagingRing;

/// A range of a query's bases.
#[derive(Clone, Copy)]
struct Wanted {
    first: usize,
    len: usize,
    base_of: BaseOf,
}

impl Partition<'_> {
    pub(super) fn msms(&mut self, stage: Stage, staging: &mut StagingRing) -> StageResult {
        let Some(group) = self.layout.groups.iter().find(|group| group.stage == stage) else {
            return Ok(());
        };
        let assignment = self.inputs.assignment;
        let mut a_map = Vec::new();
        let scalars = match stage {
            Stage::H => self.fr(layout::A)?,
            Stage::B => {
                let (target, of) = (self.fr(layout::B_SCALARS)?, self.view(layout::B_VARIABLES)?);
                self.put(staging, of, bytemuck::cast_slice(&b_variables(assignment)))?;
                self.lane.compute_after_copy()?;
                let variables = self.fr(layout::ASSIGNMENT)?;
                self.lane.run(Op::Gather(Gather::new(variables, IndexView::new(of)?, target)?))?;
                target
            }
            _ => {
                if self.layout.variant.assignment == AssignmentUpload::Late {
                    self.copy_after_compute()?;
                    self.put_assignment(staging)?;
                    self.lane.compute_after_copy()?;
                }
                if !self.layout.shape.a_is_dense() {
                    a_map = a_indices(assignment);
                    self.put(staging, self.view(layout::A_INDICES)?, bytemuck::cast_slice(&a_map))?;
                    self.lane.compute_after_copy()?;
                }
                self.fr(layout::ASSIGNMENT)?
            }
        };
        for query in &group.queries {
            self.lane.run(Op::Fill(Fill::zero(self.view(query.accumulator)?)))?;
        }
        if self.layout.buffer(layout::BASE_MAP, stage).is_some() {
            // Arithmetic waits for it with the first piece of bases, which follows.
            let same: Vec<u32> = (0..group.chunk as u32).collect();
            self.put(staging, self.view(layout::BASE_MAP)?, bytemuck::cast_slice(&same))?;
        }
        let (plan, workspace) = (self.view(layout::PLAN)?, self.view(layout::MSM_WORKSPACE)?);
        self.last_use = [None, None];
        for (first, len) in group.chunks() {
            let chunk = scalars.slice(first as u64, len as u64)?;
            self.lane.run(Op::Digits(Digits::new(&group.digits, chunk, plan, workspace)?))?;
            for query in &group.queries {
                let wanted = self.bases_of(query.query, &a_map, first, len)?;
                for piece in self.pieces(group, query, wanted, len)? {
                    let bases = self.bases(query, piece, staging)?;
                    self.lane.run(Op::MsmAccumulate(MsmAccumulate::new(
                        &query.layout,
                        (plan, len as u64),
                        bases,
                        piece.base_of,
                        self.view(query.accumulator)?,
                        workspace,
                    )?))?;
                    if query.streamed {
                        let event = self.lane.device.record(self.lane.compute)?;
                        self.last_use[self.turn % 2] = Some(event);
                        self.turn += 1;
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
    fn bases_of(
        &self,
        query: Query,
        a_map: &[u32],
        first: usize,
        len: usize,
    ) -> StageResult<Wanted> {
        let inputs = self.layout.shape.inputs;
        match query {
            Query::L => {
                let leading = inputs.saturating_sub(first).min(len);
                let start = first.max(inputs) - inputs;
                let base_of = BaseOf::Offset { leading: leading as u64 };
                Ok(Wanted { first: start, len: len - leading, base_of })
            }
            Query::A if !self.layout.shape.a_is_dense() => {
                let map = a_map.get(first..first + len).unwrap_or_default();
                // Indices ascend, so a chunk's bases are contiguous.
                let mut used = map.iter().copied().filter(|index| *index != NO_BASE);
                let (lowest, count) = match used.next() {
                    Some(lowest) => (lowest, used.next_back().unwrap_or(lowest) - lowest + 1),
                    None => (0, 0),
                };
                let indices = IndexView::new(self.view(layout::A_INDICES)?)?;
                let indices = indices.slice(first as u64, len as u64)?;
                let base_of = BaseOf::indexed(indices, lowest);
                Ok(Wanted { first: lowest as usize, len: count as usize, base_of })
            }
            _ => Ok(Wanted { first, len, base_of: BaseOf::same() }),
        }
    }

    /// What is on the device at once: all of `wanted`, or what streaming buffers hold of it.
    fn pieces(
        &self,
        group: &MsmGroup,
        query: &MsmQuery,
        wanted: Wanted,
        len: usize,
    ) -> StageResult<Vec<Wanted>> {
        let most = group.bases_chunk;
        if !query.streamed || wanted.len <= most {
            return Ok(vec![wanted]);
        }
        // A piece's bases are picked out of the plan by their index.
        let (indices, from) = match wanted.base_of {
            BaseOf::Offset { leading } => {
                let same = IndexView::new(self.view(layout::BASE_MAP)?)?;
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

    /// The bases on the device: a slice of a resident query, or a chunk brought there now into the
    /// buffer whose turn it is, while the reader of the other one may still be running.
    fn bases(
        &mut self,
        query: &MsmQuery,
        wanted: Wanted,
        staging: &mut StagingRing,
    ) -> StageResult<PointView> {
        if !query.streamed {
            let all = self.resident.query(query.query)?;
            return Ok(all.slice(wanted.first as u64, wanted.len as u64)?);
        }
        let group = query.layout.group;
        let buffer = self.view(layout::BASES[self.turn % 2])?;
        let target = buffer.slice(0, wanted.len as u64 * group.affine_bytes())?;
        let target = PointView::new(target, group)?;
        if target.is_empty() {
            return Ok(target);
        }
        let status = IndexView::new(self.view(layout::STATUS)?)?;
        let status = status.slice(self.statuses.len() as u64, 1)?;
        self.statuses.push((query.query, wanted.first));
        if let Some(event) = self.last_use[self.turn % 2].take() {
            self.lane.device.wait(self.lane.copy, &event)?;
        }
        let from = (query.query, wanted.first);
        load_points(&self.lane, self.inputs.source, from, target, status, staging)?;
        self.lane.compute_after_copy()?;
        Ok(target)
    }
}
