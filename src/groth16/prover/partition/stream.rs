//! What a stage's arithmetic needs from the host: index maps, a late assignment and bases piece by
//! piece, sent when the stage starts or, as far as there is room, while the one before it runs.

use std::collections::VecDeque;

use twinlock_api::{Event, IndexView, PointView, View};

use super::msms::Wanted;
use super::{Partition, StageError, StageResult};
use crate::groth16::prover::bases::load_points;
use crate::groth16::prover::index_maps::{AIndices, BVariables};
use crate::groth16::prover::layout::{self, MsmGroup, MsmQuery, Stage};
use crate::groth16::prover::variant::AssignmentUpload;
use crate::scheduler::locks::DeviceWait;
use crate::scheduler::staging::StagingRing;

/// What was sent for one stage.
#[derive(Default)]
pub(super) struct Sent<'a> {
    stage: Option<Stage>,
    /// Where the A query's index map comes from.
    pub a_indices: Option<AIndices<'a>>,
    /// Behind the index maps and the late assignment.
    maps: Option<Event>,
    /// Pieces of bases that no arithmetic was enqueued for, in the order in which it will be.
    pieces: VecDeque<Piece>,
    /// Pieces sent so far; they go into the two buffers in turn.
    turn: usize,
    /// Behind the last reader of each buffer.
    last_use: [Option<Event>; 2],
}

impl Sent<'_> {
    pub fn is_for(&self, stage: Stage) -> bool {
        self.stage == Some(stage)
    }
}

/// A piece of bases on its way.
struct Piece {
    bases: PointView,
    turn: usize,
    /// Behind its upload; none for a piece without bases.
    there: Option<Event>,
}

impl Partition<'_> {
    /// Sends what `stage` will need, as far as its buffers hold it, while the stage before it runs.
    /// The host has seen every stage before that one end, so that what died in them may be
    /// overwritten without a wait on the device. Where the layout has no room for it, nothing goes but
    /// what has had a place since the prestage.
    pub fn send_ahead(
        &mut self,
        stage: Stage,
        staging: &mut StagingRing,
        _wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        if stage == Stage::La {
            self.stage_buffer(layout::ASSIGNMENT, staging)?;
        }
        let group = self.layout.groups.iter().find(|group| group.stage == stage);
        let Some(group) = group.filter(|_| self.layout.variant.ahead) else { return Ok(()) };
        self.send_maps(group, staging)?;
        // In the order in which arithmetic will take them.
        for chunk in group.chunks() {
            for query in group.queries.iter().filter(|query| query.streamed) {
                for piece in self.pieces(group, query, chunk)? {
                    if self.sent.turn == group.bases.len() {
                        return Ok(());
                    }
                    let piece = self.send_piece(group, query, piece, staging)?;
                    self.sent.pieces.push_back(piece);
                }
            }
        }
        Ok(())
    }

    /// Sends the index maps of a stage and an assignment that goes up late.
    pub(super) fn send_maps(&mut self, group: &MsmGroup, staging: &mut StagingRing) -> StageResult {
        let assignment = self.inputs.assignment;
        self.sent = Sent { stage: Some(group.stage), ..Sent::default() };
        match group.stage {
            Stage::La => {
                if self.layout.variant.assignment == AssignmentUpload::Late {
                    self.put_assignment(staging)?;
                }
                if !self.layout.shape.a_is_dense() {
                    let indices = AIndices::new(assignment);
                    let map = self.view(layout::A_INDICES)?;
                    self.put_indices(staging, map, |first, out| indices.fill(first, out))?;
                    self.sent.a_indices = Some(indices);
                }
            }
            Stage::B => {
                let variables = BVariables::new(assignment);
                let map = self.view(layout::B_VARIABLES)?;
                self.put_indices(staging, map, |first, out| variables.fill(first, out))?;
            }
            _ => {}
        }
        if self.layout.buffer(group.base_map, group.stage).is_some() {
            let map = self.view(group.base_map)?;
            self.put_indices(staging, map, |first, out| {
                for (index, out) in (first as u32..).zip(out) {
                    *out = index.to_le_bytes();
                }
            })?;
        }
        self.sent.maps = Some(self.lane.device.record(self.lane.copy)?);
        Ok(())
    }

    /// Uploads indices over all of `target`: `fill` is given the first one's number.
    fn put_indices(
        &self,
        staging: &mut StagingRing,
        target: View,
        fill: impl Fn(usize, &mut [[u8; 4]]) + Sync,
    ) -> StageResult {
        staging.upload(&*self.lane.device, self.lane.copy, target, 4, |offset, out| {
            fill(offset as usize / 4, out.as_chunks_mut().0);
            Ok::<(), StageError>(())
        })
    }

    /// Makes arithmetic wait for what [`Self::send_maps`] sent.
    pub(super) fn await_maps(&mut self) -> StageResult {
        if let Some(event) = self.sent.maps.take() {
            self.lane.device.wait(self.lane.compute, &event)?;
        }
        Ok(())
    }

    /// The next piece of streamed bases, for which arithmetic then waits, and its turn: sent ahead,
    /// or sent now, while the reader of the other buffer may still be running.
    pub(super) fn streamed(
        &mut self,
        group: &MsmGroup,
        query: &MsmQuery,
        wanted: Wanted,
        staging: &mut StagingRing,
    ) -> StageResult<(PointView, usize)> {
        let piece = match self.sent.pieces.pop_front() {
            Some(piece) => piece,
            None => self.send_piece(group, query, wanted, staging)?,
        };
        if let Some(event) = piece.there {
            self.lane.device.wait(self.lane.compute, &event)?;
        }
        Ok((piece.bases, piece.turn))
    }

    /// Notes that the arithmetic enqueued so far reads the piece of that turn.
    pub(super) fn used(&mut self, turn: usize) -> StageResult {
        self.sent.last_use[turn % 2] = Some(self.lane.device.record(self.lane.compute)?);
        Ok(())
    }

    fn send_piece(
        &mut self,
        group: &MsmGroup,
        query: &MsmQuery,
        wanted: Wanted,
        staging: &mut StagingRing,
    ) -> StageResult<Piece> {
        let of = query.layout.group;
        let turn = self.sent.turn;
        self.sent.turn += 1;
        let buffer = self.view(group.bases[turn % 2])?;
        let target = buffer.slice(0, wanted.len as u64 * of.affine_bytes())?;
        let bases = PointView::new(target, of)?;
        if bases.is_empty() {
            return Ok(Piece { bases, turn, there: None });
        }
        let status = IndexView::new(self.view(layout::STATUS)?)?;
        let status = status.slice(self.statuses.len() as u64, 1)?;
        self.statuses.push((query.query, wanted.first));
        if let Some(event) = self.sent.last_use[turn % 2].take() {
            self.lane.device.wait(self.lane.copy, &event)?;
        }
        let from = (query.query, wanted.first);
        load_points(&self.lane, self.inputs.source, from, bases, status, staging)?;
        let there = Some(self.lane.device.record(self.lane.copy)?);
        Ok(Piece { bases, turn, there })
    }
}
