//! Every operation, on copies of the bytes it reads.

use std::collections::HashMap;

use blstrs::Scalar;
use group::prime::PrimeCurveAffine;
use group::{Curve, Group as _};
use twinlock_api::layout::{NO_BASE, SCALAR_BITS};
use twinlock_api::op::{
    BaseOf, BaseTables, Convert, DecodePoints, Digits, DigitsShape, FixedBase, Gather,
    MsmAccumulate, MsmReduce, Ntt, PointCheck, Vector, VectorKind,
};
use twinlock_api::{Error, Group, Op, Region, View};

use crate::oracle::{
    CurveOracle, G1, G2, Transform, fr_from_bytes, fr_to_bytes, frs_from_bytes, frs_to_bytes,
    ntt_recursive, window_sums,
};

/// The first word of a digit plan, so that other bytes are not taken for one.
const PLAN_MARK: u64 = 0x6e61_6c70_6b6c_7774;
const PLAN_HEADER_BYTES: u64 = 32;

/// Size of a plan: a header (mark, number of scalars, kind, most scalars) and the scalars.
pub(super) fn plan_bytes(max_len: u64) -> Option<u64> {
    max_len.checked_mul(32)?.checked_add(PLAN_HEADER_BYTES)
}

/// The bytes of all regions.
#[derive(Default)]
pub(super) struct Memory {
    regions: HashMap<Region, Vec<u8>>,
}

impl Memory {
    pub(super) fn insert(&mut self, region: Region, bytes: Vec<u8>) {
        self.regions.insert(region, bytes);
    }

    pub(super) fn remove(&mut self, region: Region) -> Result<(), Error> {
        self.regions.remove(&region).map(drop).ok_or_else(|| no_region(region))
    }

    pub(super) fn regions_bytes(&self) -> u64 {
        self.regions.keys().map(|region| region.size_bytes()).sum()
    }

    pub(super) fn check(&self, view: View) -> Result<(), Error> {
        self.read(view).map(drop)
    }

    pub(super) fn read(&self, view: View) -> Result<&[u8], Error> {
        let bytes = self.regions.get(&view.region()).ok_or_else(|| no_region(view.region()))?;
        bytes
            .get(view.offset_bytes() as usize..view.end_bytes() as usize)
            .ok_or_else(|| Error::invalid(format!("view {} outside its region", view.name())))
    }

    pub(super) fn write(&mut self, view: View, bytes: &[u8]) -> Result<(), Error> {
        let region = view.region();
        let target = self
            .regions
            .get_mut(&region)
            .and_then(|all| all.get_mut(view.offset_bytes() as usize..view.end_bytes() as usize))
            .and_then(|all| all.get_mut(..bytes.len()))
            .ok_or_else(|| no_region(region))?;
        target.copy_from_slice(bytes);
        Ok(())
    }

    fn bytes(&self, view: View) -> Result<&[u8], String> {
        self.read(view).map_err(|error| error.to_string())
    }

    fn store(&mut self, view: View, bytes: &[u8]) -> Result<(), String> {
        self.write(view, bytes).map_err(|error| error.to_string())
    }

    fn frs(&self, view: View) -> Result<Vec<Scalar>, String> {
        frs_from_bytes(self.bytes(view)?).map_err(|error| format!("{}: {error}", view.name()))
    }

    fn words(&self, view: View) -> Result<Vec<u32>, String> {
        let words = self.bytes(view)?.as_chunks::<4>().0;
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Lowers the word at `status` to `index`.
    fn lower(&mut self, status: View, index: Option<usize>) -> Result<(), String> {
        let Some(index) = index else { return Ok(()) };
        let before = self.words(status)?.first().copied().unwrap_or(u32::MAX);
        let after = before.min(u32::try_from(index).unwrap_or(u32::MAX - 1));
        self.store(status, &after.to_le_bytes())
    }
}

fn no_region(region: Region) -> Error {
    Error::invalid(format!("region {} is not alive here", region.id()))
}

pub(super) fn run(memory: &mut Memory, op: &Op) -> Result<(), String> {
    match op {
        Op::Fill(op) => {
            let words = op.target().len_bytes() as usize / 4;
            memory.store(op.target(), &op.word().to_le_bytes().repeat(words))
        }
        Op::Copy(op) => {
            let bytes = memory.bytes(op.source())?.to_vec();
            memory.store(op.target(), &bytes)
        }
        Op::Gather(op) => gather(memory, op),
        Op::Vector(op) => vector(memory, op),
        Op::ToMontgomery(op) => to_montgomery(memory, op),
        Op::FromMontgomery(op) => {
            let values = memory.frs(op.source())?;
            let bytes: Vec<u8> = values.iter().flat_map(Scalar::to_bytes_le).collect();
            memory.store(op.target(), &bytes)
        }
        Op::DecodePoints(op) => match op.group() {
            Group::G1 => decode_points::<G1>(memory, op),
            Group::G2 => decode_points::<G2>(memory, op),
        },
        Op::FixedBase(op) => match op.group() {
            Group::G1 => fixed_base::<G1>(memory, op),
            Group::G2 => fixed_base::<G2>(memory, op),
        },
        Op::BaseTables(op) => match op.group() {
            Group::G1 => base_tables::<G1>(memory, op),
            Group::G2 => base_tables::<G2>(memory, op),
        },
        Op::Ntt(op) => ntt(memory, op),
        Op::Digits(op) => digits(memory, op),
        Op::MsmAccumulate(op) => match op.group() {
            Group::G1 => msm_accumulate::<G1>(memory, op),
            Group::G2 => msm_accumulate::<G2>(memory, op),
        },
        Op::MsmReduce(op) => msm_reduce(memory, op),
    }
}

/// The table's first point is the base itself; the rest goes unused here.
fn fixed_base<C: CurveOracle>(memory: &mut Memory, op: &FixedBase) -> Result<(), String> {
    let base = memory.bytes(op.table())?.get(..C::affine_bytes()).and_then(C::decode);
    let base = base.ok_or("the table has no first point")?;
    let multiple = |scalar: Scalar| C::encode(&(base * scalar).to_affine());
    let bytes: Vec<u8> = memory.frs(op.scalars())?.into_iter().flat_map(multiple).collect();
    memory.store(op.target(), &bytes)
}

fn base_tables<C: CurveOracle>(memory: &mut Memory, op: &BaseTables) -> Result<(), String> {
    let mut points = decoded::<C>(memory, op.table(0).map_err(|error| error.to_string())?)?;
    for table in 1..op.tables() {
        for point in &mut points {
            let shifted = (0..op.shift_bits()).fold(point.to_curve(), |point, _| point.double());
            *point = shifted.to_affine();
        }
        let target = op.table(table).map_err(|error| error.to_string())?;
        memory.store(target, &C::encode_all(&points))?;
    }
    Ok(())
}

fn decoded<C: CurveOracle>(memory: &Memory, points: View) -> Result<Vec<C::Affine>, String> {
    memory
        .bytes(points)?
        .chunks(C::affine_bytes())
        .map(|bytes| C::decode(bytes).ok_or_else(|| "a coordinate is not below p".into()))
        .collect()
}

/// Windows with sums of their own.
pub(super) const fn num_windows(shape: DigitsShape) -> u32 {
    SCALAR_BITS.div_ceil(shape.window_bits).div_ceil(shape.tables)
}

fn gather(memory: &mut Memory, op: &Gather) -> Result<(), String> {
    let source = memory.bytes(op.source())?;
    let element = |index: u32| source.chunks(32).nth(index as usize).unwrap_or(&[0; 32]).to_vec();
    let bytes: Vec<u8> = memory.words(op.indices())?.into_iter().flat_map(element).collect();
    memory.store(op.target(), &bytes)
}

fn vector(memory: &mut Memory, op: &Vector) -> Result<(), String> {
    let (a, b, c) = (memory.frs(op.a())?, memory.frs(op.b())?, memory.frs(op.c())?);
    let factor: Vec<u8> = op.factor().iter().flat_map(|word| word.to_le_bytes()).collect();
    let factor = fr_from_bytes(&factor).ok_or("the factor is not below r")?;
    let value = |i: usize| match op.kind() {
        VectorKind::Add => a[i] + b[i],
        VectorKind::Sub => a[i] - b[i],
        VectorKind::Mul => a[i] * b[i],
        VectorKind::Scale => a[i] * factor,
        VectorKind::MulSubScale => (a[i] * b[i] - c[i]) * factor,
    };
    let values: Vec<_> = (0..a.len()).map(value).collect();
    memory.store(op.target(), &frs_to_bytes(&values))
}

fn to_montgomery(memory: &mut Memory, op: &Convert) -> Result<(), String> {
    let integer = |bytes: &[u8; 32]| Option::<Scalar>::from(Scalar::from_bytes_le(bytes));
    let integers: Vec<_> =
        memory.bytes(op.source())?.as_chunks::<32>().0.iter().map(integer).collect();
    let bytes: Vec<u8> =
        integers.iter().flat_map(|value| value.as_ref().map_or([0xff; 32], fr_to_bytes)).collect();
    memory.store(op.target(), &bytes)?;
    memory.lower(op.status(), integers.iter().position(Option::is_none))
}

fn decode_points<C: CurveOracle>(memory: &mut Memory, op: &DecodePoints) -> Result<(), String> {
    let on_curve = op.check() == PointCheck::OnCurve;
    let points: Vec<_> = memory
        .bytes(op.source())?
        .chunks(C::affine_bytes())
        .map(|bytes| C::from_uncompressed(bytes, on_curve))
        .collect();
    let bytes: Vec<u8> = points
        .iter()
        .flat_map(|point| point.as_ref().map_or_else(|| vec![0xff; C::affine_bytes()], C::encode))
        .collect();
    memory.store(op.target(), &bytes)?;
    memory.lower(op.status(), points.iter().position(Option::is_none))
}

fn ntt(memory: &mut Memory, op: &Ntt) -> Result<(), String> {
    let transform = Transform {
        direction: op.direction(),
        coset: op.coset(),
        input: op.input(),
        output: op.output(),
    };
    let values = ntt_recursive(&memory.frs(op.data())?, transform);
    memory.store(op.data(), &frs_to_bytes(&values))
}

fn digits(memory: &mut Memory, op: &Digits) -> Result<(), String> {
    let scalars = memory.frs(op.scalars())?;
    let mut plan = PLAN_MARK.to_le_bytes().to_vec();
    plan.extend((scalars.len() as u64).to_le_bytes());
    plan.extend(kind_of(op.shape()).to_le_bytes());
    plan.extend(op.shape().max_len.to_le_bytes());
    plan.extend(frs_to_bytes(&scalars));
    memory.store(op.plan(), &plan)
}

/// What plans must have in common, beside their most scalars.
fn kind_of(shape: DigitsShape) -> u64 {
    u64::from(shape.tables) << 32 | u64::from(shape.window_bits)
}

/// The scalars of a plan.
fn planned(memory: &Memory, op: &MsmAccumulate) -> Result<Vec<Scalar>, String> {
    let plan = memory.bytes(op.plan())?;
    let header: Vec<_> =
        plan.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (len, shape) = (op.len(), op.shape());
    if !header.starts_with(&[PLAN_MARK, len, kind_of(shape), shape.max_len]) {
        let name = op.plan().name();
        return Err(format!("{name} is no plan of {len} scalars for {shape:?}"));
    }
    let end = plan_bytes(op.len()).unwrap_or(u64::MAX) as usize;
    let scalars = plan.get(PLAN_HEADER_BYTES as usize..end).ok_or("the plan is cut short")?;
    frs_from_bytes(scalars)
}

fn msm_accumulate<C: CurveOracle>(memory: &mut Memory, op: &MsmAccumulate) -> Result<(), String> {
    let scalars = planned(memory, op)?;
    let bases = decoded::<C>(memory, op.bases())?;
    let index_of: Vec<Option<u64>> = match op.base_of() {
        BaseOf::Offset { leading } => {
            (0..op.len()).map(|scalar| scalar.checked_sub(leading)).collect()
        }
        BaseOf::Indexed { indices, first } => {
            let relative = |index: u32| {
                if index == NO_BASE { None } else { index.checked_sub(first).map(u64::from) }
            };
            memory.words(indices)?.into_iter().map(relative).collect()
        }
    };
    let (num_bases, shape) = (op.num_bases() as usize, op.shape());
    let windows = num_windows(shape) as usize;
    let mut sums = vec![C::Point::identity(); windows];
    for table in 0..shape.tables as usize {
        let bases = &bases[table * num_bases..(table + 1) * num_bases];
        let (mut used_scalars, mut used_bases) = (Vec::new(), Vec::new());
        for (scalar, index) in scalars.iter().zip(&index_of) {
            if let Some(base) = index.and_then(|index| bases.get(index as usize)) {
                used_scalars.push(*scalar);
                used_bases.push(*base);
            }
        }
        // The windows of this table's weight.
        let of_bases = window_sums::<C>(&used_scalars, &used_bases, shape.window_bits);
        let own = of_bases.iter().skip(table * windows);
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    let accumulator = op.accumulator().slice(0, sums.len() as u64 * C::GROUP.jacobian_bytes());
    let accumulator = accumulator.map_err(|error| error.to_string())?;
    let before = C::decode_jacobian(memory.bytes(accumulator)?)?;
    let bytes: Vec<u8> = before
        .iter()
        .zip(&sums)
        .flat_map(|(before, sum)| C::encode_jacobian(&(*before + sum)))
        .collect();
    memory.store(accumulator, &bytes)
}

fn msm_reduce(memory: &mut Memory, op: &MsmReduce) -> Result<(), String> {
    let windows = memory.bytes(op.accumulator())?[..op.windows().len_bytes() as usize].to_vec();
    memory.store(op.windows(), &windows)
}
