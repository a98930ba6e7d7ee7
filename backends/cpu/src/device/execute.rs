//! What each operation does, on the stream's thread.

use super::memory::{Claim, Memory};
use crate::error::KernelError;
use crate::field::{Affine, Coordinate, Fp, Fp2, Fr, Jacobian};
use crate::fixed_base;
use crate::msm::{self, BaseMap, Plan, Shape};
use crate::ntt::{self, Transform};
use crate::vector::{self, Input};
use crate::workspace::{cast, cast_mut};
use std::sync::Arc;
use twinlock_api::op::{
    BaseOf, Convert, DecodePoints, Digits, DigitsShape, Direction, FixedBase, MsmAccumulate,
    MsmReduce, Ntt, Order, PointCheck, Vector, VectorKind,
};
use twinlock_api::{Error, Group, Op, Result, View};

/// Finds the memory of a view's region.
pub(super) type Regions = Vec<(u64, Arc<Memory>)>;

/// An operation about to run.
pub(super) struct Execution<'a> {
    pub(super) name: &'static str,
    pub(super) regions: &'a Regions,
}

impl Execution<'_> {
    fn failed(&self, error: impl ToString) -> Error {
        Error::KernelFailed { name: self.name, reason: error.to_string() }
    }

    fn claim(&self, view: View, writes: bool) -> Result<Claim> {
        let id = view.region().id();
        let (_, memory) = self
            .regions
            .iter()
            .find(|(region, _)| *region == id)
            .ok_or_else(|| Error::invalid(format!("{}: its region is unknown", view.name())))?;
        Claim::new(memory, view, writes).map_err(|error| match error {
            Error::KernelFailed { reason, .. } => self.failed(reason),
            other => other,
        })
    }

    fn read(&self, view: View) -> Result<Claim> {
        self.claim(view, false)
    }

    fn write(&self, view: View) -> Result<Claim> {
        self.claim(view, true)
    }

    /// A claim on an input, or none where it is the target itself.
    fn input(&self, view: View, target: View) -> Result<Option<Claim>> {
        if view.same_bytes(target) { Ok(None) } else { self.read(view).map(Some) }
    }

    /// Runs the operation on the current rayon pool.
    pub(super) fn run(&self, op: &Op) -> Result<()> {
        match op {
            Op::Fill(op) => {
                vector::fill(self.write(op.target())?.bytes_mut(), op.word());
                Ok(())
            }
            Op::Copy(op) => {
                let (source, mut target) = (self.read(op.source())?, self.write(op.target())?);
                self.kernel(vector::copy(target.bytes_mut(), source.bytes()))
            }
            Op::Gather(op) => {
                let (source, indices) = (self.read(op.source())?, self.read(op.indices())?);
                let mut target = self.write(op.target())?;
                self.kernel(vector::gather(
                    self.kernel(cast_mut("target", target.bytes_mut()))?,
                    self.kernel(cast("source", source.bytes()))?,
                    self.kernel(cast("indices", indices.bytes()))?,
                ))
            }
            Op::Vector(op) => self.vector(op),
            Op::ToMontgomery(op) => self.convert(op, true),
            Op::FromMontgomery(op) => self.convert(op, false),
            Op::DecodePoints(op) => self.decode_points(op),
            Op::FixedBase(op) => match op.group() {
                Group::G1 => self.fixed_base::<Fp>(op),
                Group::G2 => self.fixed_base::<Fp2>(op),
            },
            Op::BaseTables(_) => Err(Error::Unsupported(op.name().to_owned())),
            Op::Ntt(op) => self.ntt(op),
            Op::Digits(op) => self.digits(op),
            Op::MsmAccumulate(op) => match op.group() {
                Group::G1 => self.accumulate::<Fp>(op),
                Group::G2 => self.accumulate::<Fp2>(op),
            },
            Op::MsmReduce(op) => match op.group() {
                Group::G1 => self.reduce::<Fp>(op),
                Group::G2 => self.reduce::<Fp2>(op),
            },
        }
    }

    fn kernel<T>(&self, result: Result<T, KernelError>) -> Result<T> {
        result.map_err(|error| self.failed(error))
    }

    fn elements<'c>(&self, claim: &'c Option<Claim>) -> Result<Input<'c, Fr>> {
        match claim {
            None => Ok(Input::Target),
            Some(claim) => self.kernel(cast("input", claim.bytes())).map(Input::Slice),
        }
    }

    fn vector(&self, op: &Vector) -> Result<()> {
        let mut target = self.write(op.target())?;
        let [a, b, c] = [
            self.input(op.a(), op.target())?,
            self.input(op.b(), op.target())?,
            self.input(op.c(), op.target())?,
        ];
        let (a, b, c) = (self.elements(&a)?, self.elements(&b)?, self.elements(&c)?);
        let target = self.kernel(cast_mut("target", target.bytes_mut()))?;
        let factor = Fr(bytemuck::cast(op.factor()));
        self.kernel(match op.kind() {
            VectorKind::Add => vector::add(target, a, b),
            VectorKind::Sub => vector::sub(target, a, b),
            VectorKind::Mul => vector::mul(target, a, b),
            VectorKind::Scale => vector::scale(target, a, &factor),
            VectorKind::MulSubScale => vector::mul_sub_scale(target, a, b, c, &factor),
        })
    }

    /// Lowers the word at `view` to `index`.
    fn lower_status(&self, view: View, index: Option<usize>) -> Result<()> {
        let Some(index) = index else { return Ok(()) };
        let mut status = self.write(view)?;
        let status: &mut [u32] = self.kernel(cast_mut("status", status.bytes_mut()))?;
        for word in status {
            *word = (*word).min(u32::try_from(index).unwrap_or(u32::MAX - 1));
        }
        Ok(())
    }

    fn convert(&self, op: &Convert, to_montgomery: bool) -> Result<()> {
        let mut target = self.write(op.target())?;
        let source = self.input(op.source(), op.target())?;
        let source = self.elements(&source)?;
        let target = self.kernel(cast_mut("target", target.bytes_mut()))?;
        if to_montgomery {
            let first = self.kernel(vector::to_montgomery(target, source))?;
            self.lower_status(op.status(), first)
        } else {
            self.kernel(vector::from_montgomery(target, source))
        }
    }

    fn decode_points(&self, op: &DecodePoints) -> Result<()> {
        let mut target = self.write(op.target())?;
        let source = self.input(op.source(), op.target())?;
        let source = source.as_ref().map(Claim::bytes);
        let on_curve = op.check() == PointCheck::OnCurve;
        let first = self.kernel(match op.group() {
            Group::G1 => crate::decode::decode_points::<Fp>(target.bytes_mut(), source, on_curve),
            Group::G2 => crate::decode::decode_points::<Fp2>(target.bytes_mut(), source, on_curve),
        })?;
        self.lower_status(op.status(), first)
    }

    fn fixed_base<F: Coordinate>(&self, op: &FixedBase) -> Result<()> {
        let (table, scalars) = (self.read(op.table())?, self.read(op.scalars())?);
        let mut target = self.write(op.target())?;
        let table: &[Affine<F>] = self.kernel(cast("table", table.bytes()))?;
        let scalars: &[Fr] = self.kernel(cast("scalars", scalars.bytes()))?;
        let target = self.kernel(cast_mut("target", target.bytes_mut()))?;
        self.kernel(fixed_base::multiples(table, op.window_bits(), scalars, target))
    }

    fn ntt(&self, op: &Ntt) -> Result<()> {
        let order = |order| match order {
            Order::Natural => ntt::Order::Natural,
            Order::BitReversed => ntt::Order::BitReversed,
        };
        let transform = Transform {
            direction: match op.direction() {
                Direction::Forward => ntt::Direction::Forward,
                Direction::Inverse => ntt::Direction::Inverse,
            },
            coset: op.coset(),
            input: order(op.input()),
            output: order(op.output()),
        };
        let (mut data, mut workspace) = (self.write(op.data())?, self.write(op.workspace())?);
        let values = self.kernel(cast_mut("data", data.bytes_mut()))?;
        self.kernel(ntt::ntt(transform, op.lg_domain(), values, workspace.bytes_mut()))
    }

    /// The numbers of a plan that was made of `len` scalars.
    fn shape(&self, len: u64, shape: DigitsShape) -> Result<Shape> {
        let len = usize::try_from(len).map_err(|error| self.failed(error))?;
        let DigitsShape { max_len, window_bits, .. } = shape;
        self.kernel(Shape::new(len, window_bits).and_then(|shape| shape.within(max_len)))
    }

    fn digits(&self, op: &Digits) -> Result<()> {
        let scalars = self.read(op.scalars())?;
        let (mut plan, mut workspace) = (self.write(op.plan())?, self.write(op.workspace())?);
        let scalars: &[Fr] = self.kernel(cast("scalars", scalars.bytes()))?;
        let shape = self.shape(scalars.len() as u64, op.shape())?;
        self.kernel(msm::digits(shape, scalars, plan.bytes_mut(), workspace.bytes_mut()))
    }

    fn accumulate<F: Coordinate>(&self, op: &MsmAccumulate) -> Result<()> {
        let (plan, bases) = (self.read(op.plan())?, self.read(op.bases())?);
        let (mut buckets, mut workspace) =
            (self.write(op.accumulator())?, self.write(op.workspace())?);
        let indices = match op.base_of() {
            BaseOf::Offset { .. } => None,
            BaseOf::Indexed { indices, .. } => Some(self.read(indices)?),
        };
        let map = match (op.base_of(), &indices) {
            (BaseOf::Indexed { first, .. }, Some(claim)) => {
                BaseMap::Index { indices: self.kernel(cast("base map", claim.bytes()))?, first }
            }
            (BaseOf::Offset { leading }, _) => {
                BaseMap::Skip(usize::try_from(leading).unwrap_or(usize::MAX))
            }
            (BaseOf::Indexed { .. }, None) => return Err(self.failed("no base map")),
        };
        let shape = self.shape(op.len(), op.shape())?;
        let plan = Plan::from_bytes(shape, plan.bytes())
            .map_err(|error| self.failed(format!("{}: {error}", op.plan().name())))?;
        let bases: &[Affine<F>] = self.kernel(cast("bases", bases.bytes()))?;
        let buckets = self.buckets(shape, buckets.bytes_mut())?;
        self.kernel(msm::accumulate(&plan, bases, map, buckets, workspace.bytes_mut()))
    }

    /// The shape's accumulators, at the front of the caller's bytes.
    fn buckets<'b, F: Coordinate>(
        &self,
        shape: Shape,
        bytes: &'b mut [u8],
    ) -> Result<&'b mut [Affine<F>]> {
        let size = shape.num_accumulators() * size_of::<Affine<F>>();
        let got = bytes.len();
        let bytes = bytes
            .get_mut(..size)
            .ok_or_else(|| self.failed(format!("accumulator of {got} bytes, {size} needed")))?;
        self.kernel(cast_mut("accumulator", bytes))
    }

    fn reduce<F: Coordinate>(&self, op: &MsmReduce) -> Result<()> {
        let (mut buckets, mut windows) = (self.write(op.accumulator())?, self.write(op.windows())?);
        let mut workspace = self.write(op.workspace())?;
        // Only the width of the windows matters here.
        let shape = self.shape(0, op.shape())?;
        let buckets = self.buckets::<F>(shape, buckets.bytes_mut())?;
        let windows: &mut [Jacobian<F>] = self.kernel(cast_mut("windows", windows.bytes_mut()))?;
        self.kernel(msm::reduce(&shape, buckets, windows, workspace.bytes_mut()))
    }
}
