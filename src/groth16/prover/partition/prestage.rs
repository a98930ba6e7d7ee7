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

    /// Whether all of the prestage is uploaded.
    pub fn is_staged(&self) -> bool {
        self.missing().is_none()
    }

    /// A buffer of the prestage that was not uploaded.
    fn missing(&self) -> Option<&'static str> {
        let mut needed =
            self.layout.buffers.iter().filter(|buffer| buffer.first == Stage::Prestage);
        let missing = needed.find(|buffer| !self.staged.contains(&buffer.name));
        missing.map(|buffer| buffer.name)
    }

    /// Buffers of the prestage that have a place and were not uploaded.
    fn to_stage(&self) -> impl Iterator<Item = &'static str> + '_ {
        let buffers = self.layout.buffers.iter().zip(&self.memory.placed);
        let placed =
            buffers.filter(|(buffer, place)| buffer.first == Stage::Prestage && place.is_some());
        let names = placed.map(|(buffer, _)| buffer.name);
        names.filter(|name| self.is_uploaded(name) && !self.staged.contains(name))
    }

    fn is_uploaded(&self, name: &str) -> bool {
        [layout::ASSIGNMENT, layout::A, layout::B, layout::C, layout::STATUS].contains(&name)
    }

    /// Uploads what of the prestage has a place and was not uploaded before. May wait for slots.
    pub fn prestage_placed(
        &mut self,
        staging: &mut StagingRing,
        _wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        let names: Vec<_> = self.to_stage().collect();
        for name in names {
            self.upload(name, staging)?;
            self.staged.push(name);
        }
        Ok(self.lane.compute_after_copy()?)
    }

    pub(super) fn prestage(
        &mut self,
        staging: &mut StagingRing,
        wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        self.prestage_placed(staging, wait)?;
        match self.missing() {
            Some(name) => Err(DeviceError::invalid(format!("{name} has no place to go to")).into()),
            None => Ok(()),
        }
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
