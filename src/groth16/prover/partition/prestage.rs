//! The assignment, a, b and c on their way to the device.

use blstrs::Scalar;
use twinlock_api::op::Fill;
use twinlock_api::{Error as DeviceError, Op, View};

use super::{Partition, StageError, StageResult};
use crate::groth16::prover::layout::{self, Stage};
use crate::scheduler::locks::DeviceWait;
use crate::scheduler::staging::StagingRing;
use crate::views::as_bytes;

impl Partition<'_> {
    /// Whether something of the prestage has a place and is not uploaded.
    pub fn has_to_stage(&self) -> bool {
        self.to_stage().next().is_some()
    }

    /// Whether `stage` uploads something of the prestage, or what is sent ahead for it does.
    pub fn has_to_stage_for(&self, stage: Stage) -> bool {
        let read: &[&str] = match stage {
            Stage::Quotient => &[layout::A, layout::B, layout::C],
            Stage::La => &[layout::ASSIGNMENT],
            _ => &[],
        };
        self.to_stage().any(|name| read.contains(&name))
    }

    /// Whether all of the prestage is uploaded.
    pub fn is_staged(&self) -> bool {
        self.left().next().is_none()
    }

    /// Buffers of the prestage that were not uploaded, and where they lie in the layout.
    fn left(&self) -> impl Iterator<Item = (usize, &'static str)> + '_ {
        let buffers = self.layout.buffers.iter().enumerate();
        let of_prestage = buffers.filter(|(_, buffer)| buffer.first == Stage::Prestage);
        of_prestage
            .map(|(at, buffer)| (at, buffer.name))
            .filter(|(_, name)| !self.staged.contains(name))
    }

    fn is_left(&self, name: &str) -> bool {
        self.left().any(|(_, left)| left == name)
    }

    /// Those of them that have a place, in the order in which they are needed.
    fn to_stage(&self) -> impl Iterator<Item = &'static str> + '_ {
        let is_placed = |at: usize| self.memory.placed.get(at).is_some_and(Option::is_some);
        let has_place = move |name| self.left().any(|(at, left)| left == name && is_placed(at));
        let order = [layout::STATUS, layout::A, layout::B, layout::C, layout::ASSIGNMENT];
        order.into_iter().filter(move |name| has_place(*name))
    }

    /// Uploads what of the prestage has a place, was not uploaded and is needed first. May wait for
    /// slots.
    pub fn prestage_next(
        &mut self,
        staging: &mut StagingRing,
        _wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        let next = self.to_stage().next();
        next.map_or(Ok(()), |name| self.stage_buffer(name, staging))
    }

    /// Ends the prestage, of which all has a place now. What is not uploaded goes up as stages need
    /// it: a device that has nothing else to do starts with what is there.
    pub(super) fn end_prestage(&mut self, staging: &mut StagingRing) -> StageResult {
        let is_placed = |at: &usize| self.memory.placed.get(*at).is_some_and(Option::is_some);
        if let Some((_, name)) = self.left().find(|(at, _)| !is_placed(at)) {
            return Err(DeviceError::invalid(format!("{name} has no place to go to")).into());
        }
        self.stage_buffer(layout::STATUS, staging)
    }

    /// Uploads a buffer of the prestage, unless it was or there is none of that name; later
    /// arithmetic waits for it.
    pub(super) fn stage_buffer(
        &mut self,
        name: &'static str,
        staging: &mut StagingRing,
    ) -> StageResult {
        if !self.is_left(name) {
            return Ok(());
        }
        self.upload(name, staging)?;
        self.staged.push(name);
        Ok(self.lane.compute_after_copy()?)
    }

    fn upload(&mut self, name: &'static str, staging: &mut StagingRing) -> StageResult {
        let assignment = self.inputs.assignment;
        match name {
            layout::ASSIGNMENT => self.put_assignment(staging),
            layout::A => self.put_evaluations(staging, name, &assignment.a),
            layout::B => self.put_evaluations(staging, name, &assignment.b),
            layout::C => self.put_evaluations(staging, name, &assignment.c),
            _ => {
                // Filled on the stream that decodes.
                let fill = Op::Fill(Fill::new(self.view(name)?, u32::MAX));
                Ok(self.lane.device.enqueue(self.lane.copy, &fill)?)
            }
        }
    }

    /// Uploads `bytes` to the start of `target`.
    pub(super) fn put(&self, staging: &mut StagingRing, target: View, bytes: &[u8]) -> StageResult {
        let target = target.slice(0, bytes.len() as u64)?;
        staging.upload(&*self.lane.device, self.lane.copy, target, 4, |offset, out| {
            let piece = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(piece.ok_or_else(|| DeviceError::invalid("upload past its end"))?);
            Ok::<(), StageError>(())
        })
    }

    pub(super) fn put_assignment(&self, staging: &mut StagingRing) -> StageResult {
        let assignment = self.inputs.assignment;
        let variables = self.fr(layout::ASSIGNMENT)?;
        let inputs = assignment.instance.len() as u64;
        self.put(staging, variables.view(), as_bytes(&assignment.instance))?;
        let witness = variables.slice(inputs, assignment.witness.len() as u64)?;
        self.put(staging, witness.view(), as_bytes(&assignment.witness))
    }

    /// Uploads evaluations and fills the rest of the domain with zeros.
    pub(super) fn put_evaluations(
        &self,
        staging: &mut StagingRing,
        name: &'static str,
        evaluations: &[Scalar],
    ) -> StageResult {
        let target = self.fr(name)?;
        self.put(staging, target.view(), as_bytes(evaluations))?;
        let used = evaluations.len() as u64;
        let padding = target.slice(used, target.len() - used)?;
        if !padding.is_empty() {
            let fill = Op::Fill(Fill::zero(padding.view()));
            self.lane.device.enqueue(self.lane.copy, &fill)?;
        }
        Ok(())
    }
}
