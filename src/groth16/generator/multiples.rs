//! Multiples of a generator, made by the host or by a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blstrs::{G1Affine, G2Affine, Scalar};
use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::{Fill, FixedBase as FixedBaseOp};
use twinlock_api::{
    Device, Error as DeviceError, FrView, Group, MemoryClass, Op, PointView, Stream, View,
};
use twinlock_cpu::field::{Coordinate, Fp, Fp2, Fr};
use twinlock_cpu::fixed_base::FixedBase;

use crate::groth16::assignment::secret;
use crate::scheduler::arena::{Arena, Lease};
use crate::scheduler::staging::{Readback, StagingRing};
use crate::views::{self, Canonical};
use crate::{Error, Result};

/// Points that the host makes between two reports of progress.
const HOST_POINTS: usize = 1 << 14;
/// Points that a device makes at once.
const DEVICE_POINTS: usize = 1 << 18;
/// The width of a device's windows: its tables stay in a GPU's cache.
const DEVICE_WINDOW_BITS: u32 = 12;
const STAGING_BYTES: u64 = 8 << 20;
const TIMEOUT: Duration = Duration::from_secs(600);

/// A point type of blstrs and the field of its coordinates.
pub(super) trait Point: Canonical + Default {
    type Field: Coordinate;
    const GROUP: Group;
}

impl Point for G1Affine {
    type Field = Fp;
    const GROUP: Group = Group::G1;
}

impl Point for G2Affine {
    type Field = Fp2;
    const GROUP: Group = Group::G2;
}

fn affine<P: Point>(point: &P) -> twinlock_cpu::field::Affine<P::Field> {
    bytemuck::pod_read_unaligned(views::as_bytes(std::slice::from_ref(point)))
}

/// Counts points made.
pub(super) struct Meter<'a> {
    done: AtomicU64,
    total: u64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<'a> Meter<'a> {
    pub(super) fn new(total: u64, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Self { done: AtomicU64::new(0), total, progress }
    }

    fn add(&self, points: usize) {
        let points = points as u64;
        (self.progress)(self.done.fetch_add(points, Ordering::Relaxed) + points, self.total);
    }
}

/// Who makes multiples.
pub(super) enum Maker<'a> {
    Host,
    Device(Workshop<'a>),
}

impl<'a> Maker<'a> {
    /// The host, unless there is a device.
    pub(super) fn new(device: Option<&'a Arc<dyn Device>>) -> Result<Self> {
        match device {
            None => Ok(Self::Host),
            Some(device) => Workshop::new(device)
                .map(Self::Device)
                .map_err(|source| Error::Device { device: device.info().name.clone(), source }),
        }
    }

    /// What makes multiples of `base`, about `count` of them.
    pub(super) fn base<P: Point>(&self, base: &P, count: usize) -> Base<'_, P> {
        let base = affine(base);
        let table = match self {
            Self::Host => FixedBase::new(&base, count),
            Self::Device(_) => FixedBase::with_window_bits(&base, DEVICE_WINDOW_BITS),
        };
        Base { maker: self, table }
    }
}

/// A point whose multiples are wanted.
pub(super) struct Base<'a, P: Point> {
    maker: &'a Maker<'a>,
    table: FixedBase<P::Field>,
}

impl<P: Point> Base<'_, P> {
    /// The multiples by `scalars`, which are wiped.
    pub(super) fn multiples(&self, scalars: &mut [Scalar], meter: &Meter<'_>) -> Result<Vec<P>> {
        let mut points = vec![P::default(); scalars.len()];
        let made = match self.maker {
            Maker::Host => self.on_host(scalars, &mut points, meter),
            Maker::Device(workshop) => {
                workshop.multiples(&self.table, scalars, &mut points, meter).map_err(|source| {
                    Error::Device { device: workshop.device.info().name.clone(), source }
                })
            }
        };
        secret::wipe(scalars);
        made.map(|()| points)
    }

    fn on_host(&self, scalars: &[Scalar], points: &mut [P], meter: &Meter<'_>) -> Result<()> {
        for (points, scalars) in points.chunks_mut(HOST_POINTS).zip(scalars.chunks(HOST_POINTS)) {
            let scalars: &[Fr] = bytemuck::cast_slice(views::as_bytes(scalars));
            let out = bytemuck::cast_slice_mut(views::as_bytes_mut(points));
            self.table.multiples(scalars, out).map_err(|error| Error::Invalid {
                what: "fixed base".into(),
                problem: error.to_string(),
            })?;
            meter.add(scalars.len());
        }
        Ok(())
    }
}

/// A device's memory for one table and one batch of multiples.
pub(super) struct Workshop<'a> {
    device: &'a Arc<dyn Device>,
    /// Table, scalars, points; of G2's size.
    lease: Lease,
}

impl<'a> Workshop<'a> {
    fn new(device: &'a Arc<dyn Device>) -> Result<Self, DeviceError> {
        let bytes = parts(Group::G2).iter().sum();
        let arena = Arena::new(device.clone(), bytes);
        arena.reserve(MemoryClass::Work, bytes)?;
        Ok(Self { device, lease: arena.lease("multiples", MemoryClass::Work, bytes)? })
    }

    fn multiples<P: Point>(
        &self,
        table: &FixedBase<P::Field>,
        scalars: &[Scalar],
        points: &mut [P],
        meter: &Meter<'_>,
    ) -> Result<(), DeviceError> {
        let device = &**self.device;
        let stream = device.create_stream("multiples")?;
        // Before the stream goes, so that slots are wiped after their copies.
        let mut staging = StagingRing::new(device, 4, STAGING_BYTES, TIMEOUT)?;
        let made = self.run(stream, &mut staging, table, (scalars, points), meter);
        let wiped = self.wipe(stream).and_then(|()| staging.wipe());
        device.destroy_stream(stream)?;
        made.and(wiped)
    }

    fn run<P: Point>(
        &self,
        stream: Stream,
        staging: &mut StagingRing,
        table: &FixedBase<P::Field>,
        (scalars, points): (&[Scalar], &mut [P]),
        meter: &Meter<'_>,
    ) -> Result<(), DeviceError> {
        let device = &**self.device;
        let [table_bytes, scalars_bytes, points_bytes] = parts(P::GROUP);
        let whole = self.lease.view();
        let table_view = whole.slice(0, table_bytes)?;
        let scalars_view = whole.slice(table_bytes, scalars_bytes)?;
        let points_view = whole.slice(table_bytes + scalars_bytes, points_bytes)?;
        put(device, stream, staging, table_view, bytemuck::cast_slice(table.table()))?;
        let mut readback = Readback::new(device, STAGING_BYTES, TIMEOUT)?;
        for (points, scalars) in points.chunks_mut(DEVICE_POINTS).zip(scalars.chunks(DEVICE_POINTS))
        {
            let len = scalars.len() as u64;
            let scalars_view = scalars_view.slice(0, len * FR_BYTES)?;
            let points_view = points_view.slice(0, len * P::GROUP.affine_bytes())?;
            put(device, stream, staging, scalars_view, views::as_bytes(scalars))?;
            let op = FixedBaseOp::new(
                table.window_bits(),
                PointView::new(table_view, P::GROUP)?,
                FrView::new(scalars_view)?,
                PointView::new(points_view, P::GROUP)?,
            )?;
            device.enqueue(stream, &Op::FixedBase(op))?;
            readback.read_into(device, stream, points_view, views::as_bytes_mut(points))?;
            meter.add(scalars.len());
        }
        Ok(())
    }

    /// Zeroes what was on the device: the scalars of a key are its trapdoor.
    fn wipe(&self, stream: Stream) -> Result<(), DeviceError> {
        self.device.enqueue(stream, &Op::Fill(Fill::zero(self.lease.view())))?;
        self.device.synchronize(&self.device.record(stream)?, TIMEOUT)
    }
}

/// Bytes of a table, of a batch's scalars and of its points.
fn parts(group: Group) -> [u64; 3] {
    let table = FixedBaseOp::table_len(DEVICE_WINDOW_BITS) * group.affine_bytes();
    let batch = DEVICE_POINTS as u64;
    [table, batch * FR_BYTES, batch * group.affine_bytes()].map(|bytes| bytes.next_multiple_of(256))
}

fn put(
    device: &dyn Device,
    stream: Stream,
    staging: &mut StagingRing,
    target: View,
    bytes: &[u8],
) -> Result<(), DeviceError> {
    let target = target.slice(0, bytes.len() as u64)?;
    staging.upload(device, stream, target, 4, |offset, out| {
        let piece = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(piece.ok_or_else(|| DeviceError::invalid("upload past its end"))?);
        Ok(())
    })
}
