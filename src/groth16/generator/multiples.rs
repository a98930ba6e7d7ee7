//! Multiples of a generator, made by the host or by a device.

use std::marker::PhantomData;
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
use crate::scheduler::locks::outside_mem;
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
pub(crate) trait Point: Canonical + Default {
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
pub(crate) struct Workshop<'a> {
    device: &'a Arc<dyn Device>,
    /// Table, scalars, points; of G2's size.
    lease: Lease,
}

/// A workshop at work on one table.
struct Shift<'a, P: Point> {
    device: &'a dyn Device,
    stream: Stream,
    staging: StagingRing,
    window_bits: u32,
    table: PointView,
    scalars: View,
    points: View,
    _point: PhantomData<P>,
}

impl<'a> Workshop<'a> {
    pub(crate) fn new(device: &'a Arc<dyn Device>) -> Result<Self, DeviceError> {
        let bytes = parts(Group::G2).iter().sum();
        let arena = Arena::new(device.clone(), bytes);
        arena.reserve(MemoryClass::Work, bytes)?;
        Ok(Self { device, lease: arena.lease("multiples", MemoryClass::Work, bytes)? })
    }

    /// Fills `target`, memory of the same device, with the multiples of `base` by `scalars`.
    #[cfg(feature = "cli")] // For `bench`.
    pub(crate) fn fill<P: Point>(
        &self,
        base: &P,
        scalars: &[Scalar],
        target: View,
    ) -> Result<(), DeviceError> {
        let table = FixedBase::with_window_bits(&affine(base), DEVICE_WINDOW_BITS);
        self.at_work::<P>(&table, |shift| {
            let mut at = 0;
            for scalars in scalars.chunks(DEVICE_POINTS) {
                let bytes = scalars.len() as u64 * P::GROUP.affine_bytes();
                shift.make(scalars, target.slice(at, bytes)?)?;
                at += bytes;
            }
            Ok(())
        })
    }

    fn multiples<P: Point>(
        &self,
        table: &FixedBase<P::Field>,
        scalars: &[Scalar],
        points: &mut [P],
        meter: &Meter<'_>,
    ) -> Result<(), DeviceError> {
        self.at_work::<P>(table, |shift| {
            let mut readback = Readback::new(shift.device, STAGING_BYTES, TIMEOUT)?;
            let batches = points.chunks_mut(DEVICE_POINTS).zip(scalars.chunks(DEVICE_POINTS));
            for (points, scalars) in batches {
                let bytes = views::as_bytes_mut(points);
                let target = shift.points.slice(0, bytes.len() as u64)?;
                shift.make(scalars, target)?;
                readback.read_into(shift.device, shift.stream, target, bytes)?;
                meter.add(scalars.len());
            }
            Ok(())
        })
    }

    fn at_work<P: Point>(
        &self,
        table: &FixedBase<P::Field>,
        work: impl FnOnce(&mut Shift<'_, P>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        outside_mem("waiting for multiples");
        let device = &**self.device;
        let [table_bytes, scalars_bytes, points_bytes] = parts(P::GROUP);
        let whole = self.lease.view();
        let table_view = PointView::new(whole.slice(0, table_bytes)?, P::GROUP)?;
        let table_view = table_view.slice(0, table.table().len() as u64)?;
        let scalars = whole.slice(table_bytes, scalars_bytes)?;
        let points = whole.slice(table_bytes + scalars_bytes, points_bytes)?;
        let staging = StagingRing::new(device, 4, STAGING_BYTES, TIMEOUT)?;
        let mut shift = Shift {
            device,
            stream: device.create_stream("multiples")?,
            staging,
            window_bits: table.window_bits(),
            table: table_view,
            scalars,
            points,
            _point: PhantomData,
        };
        let made = shift
            .put(shift.table.view(), bytemuck::cast_slice(table.table()))
            .and_then(|()| work(&mut shift));
        // The scalars of a key are its trapdoor. A stream that failed does nothing more, so they are
        // wiped on another once it has settled, whatever it tells.
        let end = device.record(shift.stream);
        if let Err(error) = end.and_then(|end| device.synchronize(&end, TIMEOUT)) {
            tracing::debug!(%error, "the stream of a key's multiples");
        }
        let wiped = self.wipe();
        let staged = shift.staging.wipe();
        device.destroy_stream(shift.stream)?;
        made.and(wiped).and(staged)
    }

    /// Zeroes all of the lease.
    fn wipe(&self) -> Result<(), DeviceError> {
        let device = &**self.device;
        let stream = device.create_stream("wipe")?;
        let wiped = device
            .enqueue(stream, &Op::Fill(Fill::zero(self.lease.view())))
            .and_then(|()| device.record(stream))
            .and_then(|end| device.synchronize(&end, TIMEOUT));
        wiped.and(device.destroy_stream(stream))
    }
}

impl<P: Point> Shift<'_, P> {
    /// Enqueues the multiples by at most [`DEVICE_POINTS`] scalars.
    fn make(&mut self, scalars: &[Scalar], target: View) -> Result<(), DeviceError> {
        let place = self.scalars.slice(0, scalars.len() as u64 * FR_BYTES)?;
        self.put(place, views::as_bytes(scalars))?;
        let target = PointView::new(target, P::GROUP)?;
        let op = FixedBaseOp::new(self.window_bits, self.table, FrView::new(place)?, target)?;
        self.device.enqueue(self.stream, &Op::FixedBase(op))
    }

    fn put(&mut self, target: View, bytes: &[u8]) -> Result<(), DeviceError> {
        self.staging.upload(self.device, self.stream, target, 4, |offset, out| {
            let piece = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(piece.ok_or_else(|| DeviceError::invalid("upload past its end"))?);
            Ok(())
        })
    }
}

/// Bytes of a table, of a batch's scalars and of its points.
fn parts(group: Group) -> [u64; 3] {
    let table = FixedBaseOp::table_len(DEVICE_WINDOW_BITS) * group.affine_bytes();
    let batch = DEVICE_POINTS as u64;
    [table, batch * FR_BYTES, batch * group.affine_bytes()].map(|bytes| bytes.next_multiple_of(256))
}
