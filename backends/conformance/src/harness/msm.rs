//! MSMs through the three operations that make one.

use blstrs::Scalar;
use group::Group as _;
use libtest_mimic::Failed;
use twinlock_api::op::{
    BaseOf, BaseTables, Digits, DigitsLayout, DigitsShape, Fill, MsmAccumulate, MsmLayout,
    MsmReduce,
};
use twinlock_api::{Device, FrView, Group, Op, PointView, Result, Stream, View};

use super::fixture::Fixture;
use crate::oracle::{CurveOracle, G1, combine};

/// A digit plan and what it was made of.
#[derive(Clone, Copy)]
pub struct Plan {
    layout: DigitsLayout,
    view: View,
    workspace: View,
    len: u64,
}

impl Plan {
    /// Room for a plan of `shape`.
    ///
    /// # Errors
    /// What the device answers.
    pub fn new(fixture: &mut Fixture, shape: DigitsShape) -> Result<Self> {
        let layout = fixture.device().digits_layout(shape)?;
        let view = fixture.work("plan", layout.plan_bytes)?;
        let workspace = fixture.work("digits workspace", layout.workspace_bytes)?;
        Ok(Self { layout, view, workspace, len: 0 })
    }

    /// The plan's bytes and the number of scalars in it.
    pub const fn digits(&self) -> (View, u64) {
        (self.view, self.len)
    }

    /// Enqueues the making of the plan.
    ///
    /// # Errors
    /// What the device answers.
    pub fn make(&mut self, device: &dyn Device, stream: Stream, scalars: FrView) -> Result<()> {
        self.len = scalars.len();
        let op = Digits::new(&self.layout, scalars, self.view, self.workspace)?;
        device.enqueue(stream, &Op::Digits(op))
    }
}

/// Enqueues an MSM by a plan that nobody made. For backends that check plans when they use them,
/// a way to make work fail: see [`super::Candidate::with_poison`].
///
/// # Errors
/// What the device answers at once.
pub fn accumulate_garbage(fixture: &mut Fixture, stream: Stream) -> Result<()> {
    accumulate_unplanned(fixture, stream, u32::MAX)
}

/// Enqueues an MSM by a plan that is nothing but this word, again and again.
///
/// # Errors
/// What the device answers at once.
pub fn accumulate_unplanned(fixture: &mut Fixture, stream: Stream, word: u32) -> Result<()> {
    let shape = DigitsShape::new(64, fixture.device().window_bits(Group::G1, 64));
    let plan = Plan { len: 64, ..Plan::new(fixture, shape)? };
    let buffers = MsmBuffers::new::<G1>(fixture, shape)?;
    let bases = fixture.resident("bases", 64 * Group::G1.affine_bytes())?;
    let bases = PointView::new(bases, Group::G1)?;
    let device = fixture.device().clone();
    device.enqueue(stream, &Op::Fill(Fill::new(plan.view, word)))?;
    buffers.clear(&*device, stream)?;
    buffers.accumulate(&*device, stream, &plan, bases, BaseOf::same())
}

/// An accumulator and what summing it takes.
#[derive(Clone, Copy)]
pub struct MsmBuffers {
    layout: MsmLayout,
    accumulator: View,
    accumulate_workspace: View,
    reduce_workspace: View,
    windows: View,
}

impl MsmBuffers {
    /// What the buffers are for.
    pub const fn layout(&self) -> &MsmLayout {
        &self.layout
    }

    /// Room for an MSM over points of `C` with plans of `shape`.
    ///
    /// # Errors
    /// What the device answers.
    pub fn new<C: CurveOracle>(fixture: &mut Fixture, shape: DigitsShape) -> Result<Self> {
        let layout = fixture.device().msm_layout(C::GROUP, shape)?;
        let windows_bytes = u64::from(layout.num_windows) * C::GROUP.jacobian_bytes();
        Ok(Self {
            layout,
            accumulator: fixture.work("accumulator", layout.accumulator_bytes)?,
            accumulate_workspace: fixture
                .work("accumulate workspace", layout.accumulate_workspace_bytes)?,
            reduce_workspace: fixture.work("reduce workspace", layout.reduce_workspace_bytes)?,
            windows: fixture.work("windows", windows_bytes)?,
        })
    }

    /// Enqueues the emptying of the accumulator.
    ///
    /// # Errors
    /// What the device answers.
    pub fn clear(&self, device: &dyn Device, stream: Stream) -> Result<()> {
        device.enqueue(stream, &Op::Fill(Fill::zero(self.accumulator)))
    }

    /// Enqueues the adding of `bases` by `plan`.
    ///
    /// # Errors
    /// What the device answers.
    pub fn accumulate(
        &self,
        device: &dyn Device,
        stream: Stream,
        plan: &Plan,
        bases: PointView,
        base_of: BaseOf,
    ) -> Result<()> {
        let op = self.operation(plan.digits(), bases, base_of)?;
        device.enqueue(stream, &Op::MsmAccumulate(op))
    }

    /// The operation that [`MsmBuffers::accumulate`] enqueues.
    ///
    /// # Errors
    /// `InvalidArgument` when the numbers do not agree.
    pub fn operation(
        &self,
        digits: (View, u64),
        bases: PointView,
        base_of: BaseOf,
    ) -> Result<MsmAccumulate> {
        let (accumulator, workspace) = (self.accumulator, self.accumulate_workspace);
        MsmAccumulate::new(&self.layout, digits, bases, base_of, accumulator, workspace)
    }

    /// Enqueues the summing of the buckets.
    ///
    /// # Errors
    /// What the device answers.
    pub fn reduce(&self, device: &dyn Device, stream: Stream) -> Result<()> {
        let op =
            MsmReduce::new(&self.layout, self.accumulator, self.windows, self.reduce_workspace)?;
        device.enqueue(stream, &Op::MsmReduce(op))
    }

    /// The window sums, once the fixture's stream has done them.
    ///
    /// # Errors
    /// Names a window that holds no point, or what the device answers.
    pub fn window_sums<C: CurveOracle>(
        &self,
        fixture: &mut Fixture,
    ) -> Result<Vec<C::Point>, Failed> {
        let bytes = fixture.get(self.windows)?;
        Ok(C::decode_jacobian(&bytes).map_err(|error| format!("window sums: {error}"))?)
    }

    /// The sum, once the fixture's stream has done the windows.
    ///
    /// # Errors
    /// As [`MsmBuffers::window_sums`].
    pub fn sum<C: CurveOracle>(&self, fixture: &mut Fixture) -> Result<C::Point, Failed> {
        let windows = self.window_sums::<C>(fixture)?;
        Ok(combine::<C>(&windows, self.layout.shape.window_bits))
    }
}

impl Fixture {
    /// The sum of `scalars[i]` * `bases[i]` by plans of the width that the device suggests.
    ///
    /// # Errors
    /// What went wrong.
    pub fn msm<C: CurveOracle>(
        &mut self,
        scalars: &[Scalar],
        bases: &[C::Affine],
    ) -> Result<C::Point, Failed> {
        let max_len = scalars.len() as u64;
        let window_bits = self.device().window_bits(C::GROUP, max_len);
        self.msm_shaped::<C>(DigitsShape::new(max_len, window_bits), scalars, bases)
    }

    /// The same by plans of `shape`.
    ///
    /// # Errors
    /// What went wrong.
    pub fn msm_shaped<C: CurveOracle>(
        &mut self,
        shape: DigitsShape,
        scalars: &[Scalar],
        bases: &[C::Affine],
    ) -> Result<C::Point, Failed> {
        let scalars = self.put_frs("scalars", scalars)?;
        let mut plan = Plan::new(self, shape)?;
        let buffers = MsmBuffers::new::<C>(self, shape)?;
        let bases = self.put_base_tables::<C>(&buffers.layout, bases)?;
        let (device, stream) = (self.device().clone(), self.stream());
        plan.make(&*device, stream, scalars)?;
        buffers.clear(&*device, stream)?;
        buffers.accumulate(&*device, stream, &plan, bases, BaseOf::same())?;
        buffers.reduce(&*device, stream)?;
        buffers.sum::<C>(self)
    }

    /// All tables of `bases` that plans of the layout's shape ask for.
    ///
    /// # Errors
    /// What the device answers.
    pub fn put_base_tables<C: CurveOracle>(
        &mut self,
        layout: &MsmLayout,
        bases: &[C::Affine],
    ) -> Result<PointView, Failed> {
        let tables = layout.shape.tables;
        if tables == 1 {
            return Ok(self.put_points::<C>("bases", bases)?);
        }
        let bytes = C::encode_all(bases);
        let view = self.resident("base tables", bytes.len() as u64 * u64::from(tables))?;
        self.put(view.slice(0, bytes.len() as u64)?, &bytes)?;
        let points = PointView::new(view, C::GROUP)?;
        self.run(Op::BaseTables(BaseTables::new(points, tables, layout.shift_bits())?))?;
        Ok(points)
    }

    /// Fails unless the device's MSM is `expected`.
    ///
    /// # Errors
    /// Says which MSM was wrong.
    pub fn expect_msm<C: CurveOracle>(
        &mut self,
        what: &str,
        scalars: &[Scalar],
        bases: &[C::Affine],
        expected: C::Point,
    ) -> Result<(), Failed> {
        let found = self.msm::<C>(scalars, bases)?;
        if found == expected {
            return Ok(());
        }
        let note = if bool::from(found.is_identity()) { " (the identity)" } else { "" };
        Err(format!(
            "{what}: the {} MSM over {} scalars is wrong{note}",
            C::GROUP.name(),
            scalars.len()
        )
        .into())
    }
}
