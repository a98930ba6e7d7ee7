//! One proof on one device, stage by stage.

mod msms;
mod prestage;
mod stream;

use std::sync::Arc;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use twinlock_api::layout::INDEX_BYTES;
use twinlock_api::op::{Direction, Fill, Ntt, Order, Vector};
use twinlock_api::{Error as DeviceError, Event, FrView, MemoryClass, Op, View};

use self::stream::Sent;
use super::assemble::{MsmSums, combine_windows};
use super::bases::{ResidentQueries, check_status};
use super::lane::Lane;
use super::layout::{self, Buffer, ProofLayout, Stage};
use super::plan::Plan;
use super::slot::{OpenDevice, Pools};
use super::variant::NttBuffers;
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
}

/// Where a partition's buffers lie in the device's two memories.
pub(super) struct Memory {
    open: Arc<OpenDevice>,
    pools: Arc<Pools>,
    /// Offsets, by the buffer's place in the layout; none where there is no buffer now.
    placed: Vec<Option<u64>>,
}

impl Memory {
    /// Nothing is placed yet.
    pub fn new(open: Arc<OpenDevice>, pools: Arc<Pools>, layout: &ProofLayout) -> Self {
        Self { open, pools, placed: vec![None; layout.buffers.len()] }
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
    /// The first stage that the host has not seen complete.
    unfinished: Stage,
    /// Whether every stage ran: nothing is left to wipe.
    done: bool,
    /// Where each word of [`layout::STATUS`] belongs: a query and its first base.
    statuses: Vec<(Query, usize)>,
    /// What of the stage that comes next, or runs, was sent.
    sent: Sent<'a>,
    /// What of the prestage is uploaded.
    staged: Vec<&'static str>,
    /// Queries on the device, those that the layout does not stream.
    resident: ResidentQueries,
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
            unfinished: Stage::Prestage,
            done: false,
            statuses: Vec::new(),
            sent: Sent::default(),
            staged: Vec::new(),
            resident: ResidentQueries::default(),
        }
    }

    /// Takes the places that the device's admission gave.
    pub fn place(&mut self, placements: &[Placement]) {
        self.memory.place(self.plan, placements);
    }

    /// Takes where a query lies that stays on the device.
    pub fn place_resident(&mut self, query: Query, points: View) {
        self.resident.insert(query, points);
    }

    /// Behind all of the arithmetic so far.
    pub fn mark(&self) -> StageResult<Event> {
        Ok(self.lane.device.record(self.lane.compute)?)
    }

    /// Waits until `stage`, which ends with `mark`, is complete.
    pub fn complete(
        &mut self,
        stage: Stage,
        mark: &Event,
        wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        self.lane.await_event(mark, wait)?;
        self.unfinished = Stage::ALL.into_iter().find(|next| *next > stage).unwrap_or(stage);
        Ok(())
    }

    /// Enqueues one stage, and uploads what it needs that is not there. Stages come in the order of
    /// [`Stage::ALL`], each after its [`Self::send_ahead`]; the last is [`Self::drain`].
    pub fn run(
        &mut self,
        stage: Stage,
        staging: &mut StagingRing,
        _wait: &mut DeviceWait<'_>,
    ) -> StageResult {
        self.stage = stage;
        match stage {
            Stage::Prestage => self.end_prestage(staging)?,
            Stage::Quotient => self.quotient(staging)?,
            Stage::H | Stage::La | Stage::B => self.msms(stage, staging)?,
            Stage::Drain => {}
        }
        self.release_after(stage)
    }

    /// Gives up the buffers that no later stage uses.
    fn release_after(&self, stage: Stage) -> StageResult {
        for (at, buffer) in self.layout.buffers.iter().enumerate() {
            if buffer.last == stage {
                self.release(at, buffer)?;
            }
        }
        Ok(())
    }

    /// Zeroes what may hold secrets; the bytes' next user comes later in the same stream. Resident
    /// memory is written by the copy stream, so that has to wait for the readers. Not where uploads
    /// are sent ahead, for it would hold them up until this stage has run: those of a stage have a
    /// place from the stage before on, in bytes whose last user the host saw end before it sent
    /// them (see [`Self::send_ahead`]).
    fn release(&self, at: usize, buffer: &Buffer) -> StageResult {
        match buffer.class {
            MemoryClass::Work => {
                self.lane.run(Op::Fill(Fill::zero(self.memory.view(at, buffer)?)))?;
            }
            MemoryClass::Resident if self.layout.variant.ahead => {}
            MemoryClass::Resident => self.copy_after_compute()?,
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

    /// Makes later copies wait for the arithmetic so far, whose memory they overwrite.
    fn copy_after_compute(&self) -> StageResult {
        let device = &self.lane.device;
        Ok(device.wait(self.lane.copy, &device.record(self.lane.compute)?)?)
    }

    /// h = (a * b - c) / Z on the coset 7 * omega^i, where Z = X^n - 1 is the constant 7^n - 1.
    /// Leaves h's coefficients in a.
    fn quotient(&mut self, staging: &mut StagingRing) -> StageResult {
        use Order::{BitReversed, Natural};
        let [a, b] = [self.fr(layout::A)?, self.fr(layout::B)?];
        let workspace = self.view(layout::NTT_WORKSPACE)?;
        let layout = self.layout;
        let ntt = |data, direction, coset, orders| {
            Ntt::new(&layout.ntt, data, direction, coset, orders, workspace).map(Op::Ntt)
        };
        let to_coset = |own: &Self, data| -> StageResult {
            own.lane.run(ntt(data, Direction::Inverse, false, (Natural, BitReversed))?)?;
            Ok(own.lane.run(ntt(data, Direction::Forward, true, (BitReversed, Natural))?)?)
        };
        // Each as soon as it is there, while the next goes up. The device waits for them.
        let turn = self.has_to_stage_for(Stage::Quotient).then(|| staging.turn());
        self.stage_buffer(layout::A, staging)?;
        to_coset(self, a)?;
        self.stage_buffer(layout::B, staging)?;
        to_coset(self, b)?;
        let factor = inverse_of_z(self.layout.shape.lg_domain);
        match self.layout.variant.ntt_buffers {
            NttBuffers::Three => {
                let c = self.fr(layout::C)?;
                self.stage_buffer(layout::C, staging)?;
                drop(turn);
                to_coset(self, c)?;
                self.lane.run(Op::Vector(Vector::mul_sub_scale(a, b, c, factor, a)?))?;
            }
            NttBuffers::Two => {
                drop(turn);
                self.lane.run(Op::Vector(Vector::mul(a, b, a)?))?;
                self.copy_after_compute()?;
                self.put_evaluations(staging, layout::B, &self.inputs.assignment.c)?;
                self.lane.compute_after_copy()?;
                to_coset(self, b)?;
                self.lane.run(Op::Vector(Vector::sub(a, b, a)?))?;
                self.lane.run(Op::Vector(Vector::scale(a, factor, a)?))?;
            }
        }
        self.lane.run(ntt(a, Direction::Inverse, true, (Natural, Natural))?)?;
        Ok(())
    }

    /// Brings the few results to the host and combines them there.
    pub fn drain(&mut self, readback: &mut Readback) -> StageResult<MsmSums> {
        self.stage = Stage::Drain;
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
        self.release_after(Stage::Drain)?;
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
        if !self.lane.settle() {
            self.memory.open.retire();
            return;
        }
        let buffers = self.layout.buffers.iter().enumerate();
        let held = buffers.filter(|(at, buffer)| {
            buffer.class == MemoryClass::Work
                && buffer.last >= self.unfinished
                && self.memory.placed.get(*at).copied().flatten().is_some()
        });
        let views: StageResult<Vec<View>> =
            held.map(|(at, buffer)| self.memory.view(at, buffer)).collect();
        let views = views.unwrap_or_default();
        let wipe = || {
            self.lane.on_fresh_stream(|device, stream| {
                let fill = |view: &View| device.enqueue(stream, &Op::Fill(Fill::zero(*view)));
                views.iter().try_for_each(fill)
            })
        };
        // A device that fails once may do it the next time.
        let wiped = wipe().or_else(|_| wipe()).or_else(|_| wipe());
        if let Err(error) = wiped {
            tracing::error!(%error, "work memory of a failed proof was not wiped");
            // Nobody else gets to read it.
            if !matches!(error, DeviceError::DeviceLost { .. }) {
                self.memory.open.retire();
            }
        }
    }
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
