//! One proof on one device, stage by stage.

use std::sync::Arc;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use twinlock_api::layout::{INDEX_BYTES, NO_BASE};
use twinlock_api::op::{
    BaseOf, Digits, Direction, Fill, Gather, MsmAccumulate, MsmReduce, Ntt, Order, Vector,
};
use twinlock_api::{
    Error as DeviceError, Event, FrView, IndexView, MemoryClass, Op, PointView, View,
};

use super::assemble::{MsmSums, combine_windows};
use super::bases::{ResidentQueries, check_status, load_points};
use super::lane::Lane;
use super::layout::{self, Buffer, MsmQuery, ProofLayout, Stage};
use super::plan::Plan;
use super::shape::{a_indices, b_variables};
use super::slot::Pools;
use crate::Error;
use crate::groth16::assignment::Assignment;
use crate::groth16::params::{ParameterSource, Query};
use crate::scheduler::admission::Placement;
use crate::scheduler::locks::DeviceWait;
use crate::scheduler::staging::{Readback, StagingRing};
use crate::views::as_bytes;

/// A failure inside a stage, before the device's name is known to it.
#[derive(Debug)]
pub(super) enum StageError {
    Device(DeviceError),
    Other(Error),
}

impl From<DeviceError> for StageError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<Error> for StageError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl StageError {
    /// The error as the library reports it.
    pub fn on(self, device: &str) -> Error {
        match self {
            Self::Device(source) => Error::Device { device: device.into(), source },
            Self::Other(error) => error,
        }
    }
}

pub(super) type StageResult<T = ()> = Result<T, StageError>;

/// What a partition is proved from.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub assignment: &'a Assignment,
    pub source: &'a dyn ParameterSource,
    /// Queries on the device; the others are streamed from `source`.
    pub resident: Option<&'a ResidentQueries>,
}

/// Where a partition's buffers lie in the device's two memories.
pub(super) struct Memory {
    pools: Arc<Pools>,
    /// Offsets, by the buffer's place in the layout; none where there is no buffer now.
    placed: Vec<Option<u64>>,
}

impl Memory {
    /// Nothing is placed yet.
    pub fn new(pools: Arc<Pools>, layout: &ProofLayout) -> Self {
        Self { pools, placed: vec![None; layout.buffers.len()] }
    }

    fn place(&mut self, plan: &Plan, placements: &[Placement]) {
        for placement in placements {
            for (at, offset_bytes) in plan.buffers_of(placement) {
                if let Some(place) = self.placed.get_mut(at) {
                    *place = Some(offset_bytes);
                }
            }
        }
    }

    fn view(&self, at: usize, buffer: &Buffer) -> StageResult<View> {
        let Some(offset_bytes) = self.placed.get(at).copied().flatten() else {
            return Err(DeviceError::invalid(format!("buffer {} has no place", buffer.name)).into());
        };
        let pool = self.pools.view(buffer.class);
        let size_bytes = buffer.size_bytes.next_multiple_of(4);
        Ok(pool.slice(offset_bytes, size_bytes)?.named(buffer.name))
    }
}

/// A partition on its way through the stages.
pub(super) struct Partition<'a> {
    lane: Lane,
    inputs: Inputs<'a>,
    plan: &'a Plan,
    layout: &'a ProofLayout,
    memory: Memory,
    stage: Stage,
    /// Whether every stage ran: nothing is left to wipe.
    done: bool,
    /// Where each word of [`layout::STATUS`] belongs: a query and its first base.
    statuses: Vec<(Query, usize)>,
    /// Behind the last reader of each of [`layout::BASES`].
    last_use: [Option<Event>; 2],
    turn: usize,
    /// What of the prestage is uploaded.
    staged: Vec<&'static str>,
}

impl<'a> Partition<'a> {
    pub fn new(lane: Lane, inputs: Inputs<'a>, plan: &'a Plan, memory: Memory) -> Self {
        Self {
            lane,
            inputs,
            plan,
            layout: &plan.layout,
            memory,
            stage: Stage::Prestage,
            done: false,
            statuses: Vec::new(),
            last_use: [None, None],
            turn: 0,
            staged: Vec::new(),
        }
    }

    /// Takes the places that the device's admission gave.
    pub fn place(&mut self, placements: &[Placement]) {
        self.memory.place(self.plan, placements);
    }

    /// Waits until the work so far is complete.
    pub fn complete(&self, wait: &mut DeviceWait<'_>) -> StageResult {
        Ok(self.lane.finish(wait)?)
    }

    /// Runs one stage. Stages come in the order of [`Stage::ALL`]; the last gives the MSMs' sums.
    pub fn run(
        &mut self,
        stage: Stage,
        staging: &mut StagingRing,
        readback: &mut Readback,
        wait: &mut DeviceWait<'_>,
    ) -> StageResult<Option<MsmSums>> {
        self.stage = stage;
        let sums = match stage {
            Stage::Prestage => self.prestage(staging, wait).map(|()| None),
            Stage::Quotient => self.quotient().map(|()| None),
            Stage::H | Stage::La | Stage::B => self.msms(stage, staging).map(|()| None),
            Stage::Drain => self.drain(readback).map(Some),
        }?;
        for (at, buffer) in self.layout.buffers.iter().enumerate() {
            if buffer.last == stage {
                self.release(at, buffer)?;
            }
        }
        Ok(sums)
    }

    /// Zeroes what may hold secrets; the bytes' next user comes later in the same stream. Resident
    /// memory is written by the copy stream, so that has to wait for the readers.
    fn release(&self, at: usize, buffer: &Buffer) -> StageResult {
        match buffer.class {
            MemoryClass::Work => {
                self.lane.run(Op::Fill(Fill::zero(self.memory.view(at, buffer)?)))?;
            }
            MemoryClass::Resident => {
                let device = &self.lane.device;
                device.wait(self.lane.copy, &device.record(self.lane.compute)?)?;
            }
        }
        Ok(())
    }

    fn view(&self, name: &'static str) -> StageResult<View> {
        let lives = |buffer: &Buffer| buffer.first <= self.stage && self.stage <= buffer.last;
        let found = self.layout.buffers.iter().enumerate();
        match found.into_iter().find(|(_, buffer)| buffer.name == name && lives(buffer)) {
            Some((at, buffer)) => self.memory.view(at, buffer),
            None => Err(DeviceError::invalid(format!(
                "no buffer {name} in stage {}",
                self.stage.name()
            ))
            .into()),
        }
    }

    fn fr(&self, name: &'static str) -> StageResult<FrView> {
        Ok(FrView::new(self.view(name)?)?)
    }

    /// Uploads `bytes` to the start of `target`.
    fn put(&self, staging: &mut StagingRing, target: View, bytes: &[u8]) -> StageResult {
        let target = target.slice(0, bytes.len() as u64)?;
        staging.upload(&*self.lane.device, self.lane.copy, target, 4, |offset, out| {
            let piece = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(piece.ok_or_else(|| DeviceError::invalid("upload past its end"))?);
            Ok::<(), StageError>(())
        })
    }

    /// Whether something of the prestage has a place and is not uploaded.
    pub fn has_to_stage(&self) -> bool {
        let mut buffers = self.layout.buffers.iter().zip(&self.memory.placed);
        buffers.any(|(buffer, place)| {
            buffer.first == Stage::Prestage
                && place.is_some()
                && !self.staged.contains(&buffer.name)
        })
    }

    /// Uploads what of the prestage has a place and was not uploaded before.
    pub fn prestage_placed(
        &mut self,
        staging: &mut StagingRing,
        _wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        let names = [layout::ASSIGNMENT, layout::A, layout::B, layout::C, layout::STATUS];
        for name in names {
            let found = self.layout.buffers.iter().position(|buffer| buffer.name == name);
            let placed = found.and_then(|at| self.memory.placed.get(at).copied().flatten());
            if placed.is_some() && !self.staged.contains(&name) {
                self.upload(name, staging)?;
                self.staged.push(name);
            }
        }
        Ok(self.lane.compute_after_copy()?)
    }

    fn prestage(&mut self, staging: &mut StagingRing, wait: &mut DeviceWait<'_>) -> StageResult {
        self.prestage_placed(staging, wait)?;
        for name in [layout::ASSIGNMENT, layout::A, layout::B, layout::C] {
            if !self.staged.contains(&name) {
                return Err(DeviceError::invalid(format!("{name} has no place to go to")).into());
            }
        }
        Ok(())
    }

    fn upload(&mut self, name: &'static str, staging: &mut StagingRing) -> StageResult {
        let assignment = self.inputs.assignment;
        let evaluations = match name {
            layout::ASSIGNMENT => {
                let variables = self.fr(name)?;
                let inputs = assignment.instance.len() as u64;
                self.put(staging, variables.view(), as_bytes(&assignment.instance))?;
                let witness = variables.slice(inputs, assignment.witness.len() as u64)?;
                return self.put(staging, witness.view(), as_bytes(&assignment.witness));
            }
            layout::STATUS => {
                // Filled on the stream that decodes.
                let fill = Op::Fill(Fill::new(self.view(name)?, u32::MAX));
                return Ok(self.lane.device.enqueue(self.lane.copy, &fill)?);
            }
            layout::A => &assignment.a,
            layout::B => &assignment.b,
            _ => &assignment.c,
        };
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

    /// h = (a * b - c) / Z on the coset 7 * omega^i, where Z = X^n - 1 is the constant 7^n - 1.
    /// Leaves h's coefficients in a.
    fn quotient(&mut self) -> StageResult {
        use Order::{BitReversed, Natural};
        let [a, b, c] = [self.fr(layout::A)?, self.fr(layout::B)?, self.fr(layout::C)?];
        let workspace = self.view(layout::NTT_WORKSPACE)?;
        let ntt = |data, direction, coset, orders| {
            Ntt::new(&self.layout.ntt, data, direction, coset, orders, workspace).map(Op::Ntt)
        };
        for data in [a, b, c] {
            self.lane.run(ntt(data, Direction::Inverse, false, (Natural, BitReversed))?)?;
            self.lane.run(ntt(data, Direction::Forward, true, (BitReversed, Natural))?)?;
        }
        let factor = inverse_of_z(self.layout.shape.lg_domain);
        self.lane.run(Op::Vector(Vector::mul_sub_scale(a, b, c, factor, a)?))?;
        self.lane.run(ntt(a, Direction::Inverse, true, (Natural, Natural))?)?;
        Ok(())
    }

    fn msms(&mut self, stage: Stage, staging: &mut StagingRing) -> StageResult {
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
        let (plan, workspace) = (self.view(layout::PLAN)?, self.view(layout::MSM_WORKSPACE)?);
        self.last_use = [None, None];
        for (first, len) in group.chunks() {
            let chunk = scalars.slice(first as u64, len as u64)?;
            self.lane.run(Op::Digits(Digits::new(&group.digits, chunk, plan, workspace)?))?;
            for query in &group.queries {
                let wanted = self.bases_of(query.query, &a_map, first, len)?;
                let bases = self.bases(query, wanted, staging)?;
                self.lane.run(Op::MsmAccumulate(MsmAccumulate::new(
                    &query.layout,
                    (plan, len as u64),
                    bases,
                    wanted.base_of,
                    self.view(query.accumulator)?,
                    workspace,
                )?))?;
                if self.inputs.resident.is_none() {
                    let event = self.lane.device.record(self.lane.compute)?;
                    self.last_use[self.turn % 2] = Some(event);
                    self.turn += 1;
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

    /// The bases on the device: a slice of a resident query, or a chunk brought there now into the
    /// buffer whose turn it is, while the reader of the other one may still be running.
    fn bases(
        &mut self,
        query: &MsmQuery,
        wanted: Wanted,
        staging: &mut StagingRing,
    ) -> StageResult<PointView> {
        if let Some(resident) = self.inputs.resident {
            let all = resident.query(query.query)?;
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

    /// Brings the few results to the host and combines them there.
    fn drain(&mut self, readback: &mut Readback) -> StageResult<MsmSums> {
        let (device, stream) = (self.lane.device.clone(), self.lane.compute);
        if self.layout.buffer(layout::STATUS, self.stage).is_some() {
            let words = readback.read(&*device, stream, self.view(layout::STATUS)?)?;
            for (from, word) in self.statuses.iter().zip(words.chunks_exact(INDEX_BYTES as usize)) {
                check_status(self.inputs.source, *from, word)?;
            }
        }
        let mut sums = MsmSums::identity();
        for query in self.layout.groups.iter().flat_map(|group| &group.queries) {
            let bytes = readback.read(&*device, stream, self.view(query.windows)?)?;
            let window_bits = query.layout.shape.window_bits;
            match query.query {
                Query::H => sums.h = combine_windows(&bytes, window_bits),
                Query::L => sums.l = combine_windows(&bytes, window_bits),
                Query::A => sums.a = combine_windows(&bytes, window_bits),
                Query::BG1 => sums.b_g1 = combine_windows(&bytes, window_bits),
                Query::BG2 => sums.b_g2 = combine_windows(&bytes, window_bits),
            }
        }
        Ok(sums)
    }

    /// Waits until everything, the wiping of the last buffers included, has run.
    pub fn finish(mut self, wait: &mut DeviceWait<'_>) -> StageResult {
        self.lane.finish(wait)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Partition<'_> {
    /// After a failure or a cancel the memory may hold secrets. The streams may be poisoned, so a
    /// fresh one wipes it once the old work has ended.
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.lane.settle();
        let buffers = self.layout.buffers.iter().enumerate();
        let held = buffers.filter(|(at, buffer)| {
            buffer.class == MemoryClass::Work
                && buffer.last >= self.stage
                && self.memory.placed.get(*at).copied().flatten().is_some()
        });
        let views: StageResult<Vec<View>> =
            held.map(|(at, buffer)| self.memory.view(at, buffer)).collect();
        let wiped = self.lane.on_fresh_stream(|device, stream| {
            for view in views.unwrap_or_default() {
                device.enqueue(stream, &Op::Fill(Fill::zero(view)))?;
            }
            Ok(())
        });
        if let Err(error) = wiped {
            tracing::warn!(%error, "work memory of a failed proof was not wiped");
        }
    }
}

/// A range of a query's bases.
#[derive(Clone, Copy)]
struct Wanted {
    first: usize,
    len: usize,
    base_of: BaseOf,
}

/// 1 / (7^n - 1) in canonical layout. 7 has no power-of-two order, so the difference is not zero.
fn inverse_of_z(lg_domain: u32) -> [u32; 8] {
    let mut power = Scalar::MULTIPLICATIVE_GENERATOR;
    for _ in 0..lg_domain {
        power = power.square();
    }
    let inverse = (power - Scalar::ONE).invert().unwrap_or(Scalar::ZERO);
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(as_bytes(&[inverse]).chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}
