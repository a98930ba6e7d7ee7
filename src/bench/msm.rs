//! MSMs over bases whose logarithms are known, so that every sum can be checked. Bases are made on
//! the device where it can, and stay there; scalars come from a staging buffer, as in a proof.

use std::sync::Arc;

use blstrs::{G1Projective, G2Projective, Scalar};
use ff::Field;
use group::Curve;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use twinlock_api::op::{
    BaseOf, BaseTables, Digits, DigitsLayout, DigitsShape, Fill, MsmAccumulate, MsmLayout,
    MsmReduce,
};
use twinlock_api::{
    Device, Error as DeviceError, FrView, Group, MemoryClass, Op, PointView, Staging, StagingKind,
    View,
};

use super::room::Room;
use super::scalars::Scalars;
use super::session::Session;
use super::{Measurement, Plan, length, wrong};
use crate::groth16::generator::multiples::{Point, Workshop};
use crate::groth16::prover::layout::{full_len_of_witness, shape_for_tables};
use crate::views::{Canonical, as_bytes, as_bytes_mut};
use crate::{Error, Result};

const SEED: u64 = 3;

/// A curve whose points have the devices' layout.
pub(super) trait Points:
    Curve<AffineRepr = Self::Affine> + group::Group<Scalar = Scalar> + Canonical
{
    type Affine: Point;
    const GROUP: Group;
}

impl Points for G1Projective {
    type Affine = blstrs::G1Affine;
    const GROUP: Group = Group::G1;
}

impl Points for G2Projective {
    type Affine = blstrs::G2Affine;
    const GROUP: Group = Group::G2;
}

/// Points between whose logarithms there is one step.
const BLOCK: usize = 1 << 10;

/// The logarithms of `len` bases: start + i * step.
fn logarithms_of(len: usize) -> Vec<Scalar> {
    let (start, step) = progression();
    let mut logarithms = vec![start; len];
    logarithms.par_chunks_mut(BLOCK).enumerate().for_each(|(block, logarithms)| {
        let mut logarithm = start + step * Scalar::from((block * BLOCK) as u64);
        for known in logarithms {
            *known = logarithm;
            logarithm += step;
        }
    });
    logarithms
}

fn progression() -> (Scalar, Scalar) {
    let rng = &mut ChaCha20Rng::seed_from_u64(SEED);
    (Scalar::random(&mut *rng), Scalar::random(rng))
}

/// The bases of these logarithms, which are [`logarithms_of`]'s.
fn bases_of<G: Points>(logarithms: &[Scalar]) -> Vec<G::Affine> {
    let step_point = G::generator() * progression().1;
    let mut bases = vec![G::Affine::default(); logarithms.len()];
    bases.par_chunks_mut(BLOCK).zip(logarithms.par_chunks(BLOCK)).for_each(
        |(bases, logarithms)| {
            let first = logarithms.first().copied().unwrap_or_default();
            let mut point = G::generator() * first;
            let points: Vec<G> = (0..bases.len())
                .map(|_| {
                    let this = point;
                    point += step_point;
                    this
                })
                .collect();
            G::batch_normalize(&points, bases);
        },
    );
    bases
}

/// Fills `target` with the bases of `logarithms`: the device makes them, or the host where it
/// cannot.
fn bases_on_device<G: Points>(
    session: &mut Session,
    target: View,
    logarithms: &[Scalar],
) -> Result<(), DeviceError> {
    let generator = G::generator().to_affine();
    match Workshop::new(&session.device)?.fill(&generator, logarithms, target) {
        Err(DeviceError::Unsupported(_)) => {}
        outcome => return outcome,
    }
    session.upload(target, as_bytes(&bases_of::<G>(logarithms)))
}

pub(super) fn run<G: Points>(
    plan: &Plan,
    lg: u32,
    devices: &[Arc<dyn Device>],
    progress: &dyn Fn(u32, &str),
    out: &mut Vec<Measurement>,
) -> Result<()> {
    let len = length(lg)?;
    for device in devices {
        room::<G>(len, plan, &**device)?.require(lg, &**device)?;
    }
    let logarithms = logarithms_of(len);
    let scalars = plan.scalars.sample(len, SEED);
    let dot: Scalar = (scalars.par_iter().zip(&logarithms)).map(|(s, l)| s * l).sum();
    let expected = G::generator() * dot;
    for device in devices {
        progress(lg, &device.info().name);
        out.push(measure::<G>(plan, lg, device, &logarithms, (&scalars, expected))?);
    }
    Ok(())
}

/// Bases, their logarithms and the scalars; on the device all that an [`Msm`] holds.
fn room<G: Points>(len: usize, plan: &Plan, device: &dyn Device) -> Result<Room> {
    let named = |source| Error::Device { device: device.info().name.clone(), source };
    let shape = digits_shape(device, G::GROUP, len as u64, plan);
    let shape = shape.map_err(named)?;
    let sizes = Sizes::of(device, G::GROUP, shape).map_err(named)?;
    let bases_bytes = (len * size_of::<G::Affine>()) as u64;
    let scalars_bytes = (len * size_of::<Scalar>()) as u64;
    let of_operations = [
        sizes.digits.plan_bytes,
        sizes.msm.accumulator_bytes,
        sizes.workspace_bytes,
        sizes.windows_bytes,
    ];
    let device_bytes = of_operations.into_iter().fold(scalars_bytes, u64::saturating_add);
    let device_bytes = device_bytes.saturating_add(bases_bytes.saturating_mul(shape.tables.into()));
    Ok(Room { host_bytes: bases_bytes + 2 * scalars_bytes, device_bytes })
}

fn measure<G: Points>(
    plan: &Plan,
    lg: u32,
    device: &Arc<dyn Device>,
    logarithms: &[Scalar],
    (scalars, expected): (&[Scalar], G),
) -> Result<Measurement> {
    let mut session = Session::new(device, plan.timeout, plan.steps)?;
    let named = |source| Error::Device { device: device.info().name.clone(), source };
    let mut msm = Msm::prepare::<G>(&mut session, logarithms, scalars, plan).map_err(named)?;
    // Sums are small: one batch.
    let times = session.time(
        (plan.iterations, plan.iterations),
        |session| msm.run::<G>(session),
        |_, _, sum| Ok(sum),
        |_, _, sum| if sum == expected { Ok(()) } else { Err(wrong(&**device, lg, "msm")) },
    )?;
    let steps = session.clock.steps();
    Ok(Measurement::new(lg, &**device, times, steps))
}

/// What the device asks for an MSM, `chunk` scalars at a time.
struct Sizes {
    digits: DigitsLayout,
    msm: MsmLayout,
    workspace_bytes: u64,
    windows_bytes: u64,
}

impl Sizes {
    fn of(device: &dyn Device, group: Group, shape: DigitsShape) -> Result<Self, DeviceError> {
        let digits = device.digits_layout(shape)?;
        let msm = device.msm_layout(group, shape)?;
        let workspace_bytes = digits
            .workspace_bytes
            .max(msm.accumulate_workspace_bytes)
            .max(msm.reduce_workspace_bytes);
        let windows_bytes = u64::from(msm.num_windows) * group.jacobian_bytes();
        Ok(Self { digits, msm, workspace_bytes, windows_bytes })
    }
}

/// An MSM whose bases are on the device.
struct Msm {
    chunks: Vec<Chunk>,
    clear: Op,
    reduce: Op,
    windows: View,
    window_bits: u32,
    /// The memory that the operations use.
    _leases: Vec<crate::scheduler::arena::Lease>,
}

/// Scalars that are uploaded while those before them are at work.
struct Chunk {
    scalars: Box<dyn Staging>,
    target: View,
    digits: Op,
    accumulate: Op,
}

/// Plans for chunks of `len` scalars, of the width that a proof has for such; with tables of bases there
/// is one chunk.
fn digits_shape(
    device: &dyn Device,
    group: Group,
    len: u64,
    plan: &Plan,
) -> Result<DigitsShape, DeviceError> {
    let full_len = match plan.scalars {
        Scalars::Random => len,
        Scalars::Bits | Scalars::PoRep => full_len_of_witness(len),
    };
    let shape = shape_for_tables(device, group, full_len, plan.base_tables)?;
    let max_len = if shape.tables == 1 { chunk_len(len, plan.steps) } else { len };
    Ok(DigitsShape { max_len, ..shape })
}

/// Scalars of a chunk, in numbers of which uploading the first does not show.
fn chunk_len(len: u64, steps_apart: bool) -> u64 {
    const SMALL: u64 = 1 << 22;
    const MOST: u64 = 8;
    if steps_apart { len } else { len.min(SMALL.max(len.div_ceil(MOST))) }
}

impl Msm {
    fn prepare<G: Points>(
        session: &mut Session,
        logarithms: &[Scalar],
        scalars: &[Scalar],
        plan: &Plan,
    ) -> Result<Self, DeviceError> {
        let group = G::GROUP;
        let len = scalars.len() as u64;
        let shape = digits_shape(&*session.device, group, len, plan)?;
        let DigitsShape { max_len: chunk, window_bits, tables } = shape;
        let Sizes { digits, msm, workspace_bytes, windows_bytes } =
            Sizes::of(&*session.device, group, shape)?;

        let mut leases = Vec::new();
        let mut buffer = |name, class, size_bytes| {
            let lease = session.buffer(name, class, size_bytes)?;
            let view = lease.view();
            leases.push(lease);
            Ok::<View, DeviceError>(view)
        };
        let bases_bytes = len * group.affine_bytes();
        let tables_bytes = bases_bytes * u64::from(tables);
        let tables_view = buffer("bases", MemoryClass::Resident, tables_bytes)?;
        let scalars_view = buffer("scalars", MemoryClass::Work, size_of_val(scalars) as u64)?;
        let plan = buffer("digit_plan", MemoryClass::Work, digits.plan_bytes)?;
        let accumulator = buffer("buckets", MemoryClass::Work, msm.accumulator_bytes)?;
        let workspace = buffer("msm_workspace", MemoryClass::Work, workspace_bytes)?;
        let windows = buffer("windows", MemoryClass::Work, windows_bytes)?;
        bases_on_device::<G>(session, tables_view.slice(0, bases_bytes)?, logarithms)?;
        let (bases, targets) = (PointView::new(tables_view, group)?, FrView::new(scalars_view)?);
        if tables > 1 {
            let fill = BaseTables::new(bases, tables, msm.shift_bits())?;
            session.step("tables", &Op::BaseTables(fill))?;
            session.finish()?;
        }

        let mut chunks = Vec::new();
        let mut first = 0;
        // Of no scalars there is one chunk, too.
        for scalars in
            scalars.chunks(chunk.max(1) as usize).chain(scalars.is_empty().then_some(scalars))
        {
            let len = scalars.len() as u64;
            let target = targets.slice(first, len)?;
            let bytes = as_bytes(scalars);
            let mut staging = session.device.allocate_staging(
                "scalars",
                StagingKind::Upload,
                (bytes.len() as u64).max(4),
            )?;
            if let Some(host) = staging.host(session.timeout)?.get_mut(..bytes.len()) {
                host.copy_from_slice(bytes);
            }
            chunks.push(Chunk {
                scalars: staging,
                target: target.view(),
                digits: Op::Digits(Digits::new(&digits, target, plan, workspace)?),
                accumulate: Op::MsmAccumulate(MsmAccumulate::new(
                    &msm,
                    (plan, len),
                    // Of tables, all: then there is one chunk.
                    if tables > 1 { bases } else { bases.slice(first, len)? },
                    BaseOf::same(),
                    accumulator,
                    workspace,
                )?),
            });
            first += len;
        }
        Ok(Self {
            chunks,
            clear: Op::Fill(Fill::zero(accumulator)),
            reduce: Op::MsmReduce(MsmReduce::new(&msm, accumulator, windows, workspace)?),
            windows,
            window_bits,
            _leases: leases,
        })
    }

    fn run<G: Points>(&mut self, session: &mut Session) -> Result<G, DeviceError> {
        let uploads = self.chunks.iter_mut();
        let uploads: Vec<_> = uploads
            .map(|chunk| session.upload_beside(&mut *chunk.scalars, chunk.target))
            .collect::<Result<_, _>>()?;
        session.step("clear", &self.clear)?;
        for (chunk, uploaded) in self.chunks.iter().zip(&uploads) {
            session.after("upload", uploaded)?;
            session.step("digits", &chunk.digits)?;
            session.step("accumulate", &chunk.accumulate)?;
        }
        session.step("reduce", &self.reduce)?;
        let bytes = session.download(self.windows)?;
        let sum = combine(&bytes, self.window_bits);
        session.clock.lap("combine");
        Ok(sum)
    }
}

/// sum over i of 2^(window_bits * i) * W_i; `bytes` holds the W_i as Jacobian points.
fn combine<G: Points>(bytes: &[u8], window_bits: u32) -> G {
    let mut windows = vec![G::identity(); bytes.len() / size_of::<G>()];
    for (target, source) in as_bytes_mut(&mut windows).iter_mut().zip(bytes) {
        *target = *source;
    }
    windows.iter().rev().fold(G::identity(), |sum, window| {
        (0..window_bits).fold(sum, |sum, _| sum.double()) + window
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use group::{Group as _, prime::PrimeCurveAffine};

    #[test]
    fn logarithms_are_the_bases() {
        let logarithms = logarithms_of(1500);
        let bases = bases_of::<G1Projective>(&logarithms);
        for at in [0, 1, 1023, 1024, 1499] {
            assert_eq!(bases[at].to_curve(), G1Projective::generator() * logarithms[at]);
        }
        let bases = bases_of::<G2Projective>(&logarithms);
        assert_eq!(bases[2].to_curve(), G2Projective::generator() * logarithms[2]);
    }

    #[test]
    fn windows_combine() {
        let g = G1Projective::generator();
        let windows = [g, g.double(), G1Projective::identity(), g];
        // 1 + 2 * 2^5 + 2^15
        let sum: G1Projective = combine(as_bytes(&windows), 5);
        assert_eq!(sum, g * Scalar::from(1 + 64 + 32_768));
        assert_eq!(combine::<G1Projective>(&[], 5), G1Projective::identity());
    }
}
