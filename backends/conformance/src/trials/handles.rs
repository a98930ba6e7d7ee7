//! Handles that are dead or foreign, and copies that do not fit.

use std::any::Any;
use std::time::Duration;

use twinlock_api::op::{Copy, DigitsShape, Fill};
use twinlock_api::{
    Event, FrView, Group, MemoryClass, Op, OpenOptions, Region, Result, Staging, StagingKind,
    Stream, View, op,
};

use super::random_bytes;
use crate::harness::{Fixture, Trial, Verdict, ensure, ensure_invalid, first_difference, passed};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "handles::regions", run: regions },
        Trial { name: "handles::streams", run: streams },
        Trial { name: "handles::events", run: events },
        Trial { name: "handles::staging", run: staging },
        Trial { name: "handles::window_bits", run: window_bits },
    ]
}

/// The device still works: what was refused did not reach the stream.
fn still_works(f: &mut Fixture) -> Verdict {
    let bytes = random_bytes(512, &mut f.rng);
    let (source, target) = (f.work("source", 512)?, f.work("target", 512)?);
    f.put(source, &bytes)?;
    f.run(Op::Copy(Copy::new(source, target)?))?;
    first_difference("after refused calls", &f.get(target)?, &bytes)?;
    passed()
}

/// Every use of `dead` is refused.
fn refused(f: &mut Fixture, dead: View, what: &str) -> Result<(), libtest_mimic::Failed> {
    let (device, stream) = (f.device().clone(), f.stream());
    let alive = f.work("alive", dead.len_bytes())?;
    let mut upload = device.allocate_staging("upload", StagingKind::Upload, dead.len_bytes())?;
    let mut download =
        device.allocate_staging("download", StagingKind::Download, dead.len_bytes())?;
    ensure_invalid(device.upload(stream, &mut *upload, 0, dead), &format!("upload to {what}"))?;
    ensure_invalid(
        device.download(stream, dead, &mut *download, 0),
        &format!("download from {what}"),
    )?;
    let (dead_fr, alive_fr) = (FrView::new(dead)?, FrView::new(alive)?);
    let ops = [
        Op::Fill(Fill::zero(dead)),
        Op::Copy(Copy::new(dead, alive)?),
        Op::Copy(Copy::new(alive, dead)?),
        Op::Vector(op::Vector::add(alive_fr, dead_fr, alive_fr)?),
        Op::Vector(op::Vector::mul(alive_fr, alive_fr, dead_fr)?),
    ];
    for op in ops {
        ensure_invalid(device.enqueue(stream, &op), &format!("{} with {what}", op.name()))?;
    }
    ensure_invalid(device.free(dead.region()), &format!("free of {what}"))
}

fn regions(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let freed = device.allocate("freed", MemoryClass::Work, 4096)?;
    device.free(freed)?;
    refused(f, freed.whole("freed")?, "a freed region")?;
    let foreign = Region::fresh(MemoryClass::Work, 4096);
    refused(f, foreign.whole("foreign")?, "a foreign region")?;
    // A handle of another device, alive there.
    let other = crate::ReferenceBackend::default();
    let other = twinlock_api::Backend::open(&other, "reference", &OpenOptions::default())?;
    let elsewhere = other.allocate("elsewhere", MemoryClass::Work, 4096)?;
    refused(f, elsewhere.whole("elsewhere")?, "another device's region")?;
    still_works(f)
}

fn streams(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let view = f.work("view", 256)?;
    let destroyed = device.create_stream("destroyed")?;
    device.destroy_stream(destroyed)?;
    let event = device.record(f.stream())?;
    let mut upload = device.allocate_staging("upload", StagingKind::Upload, 256)?;
    let mut download = device.allocate_staging("download", StagingKind::Download, 256)?;
    for (stream, what) in [(destroyed, "a destroyed stream"), (Stream::fresh(), "a foreign stream")]
    {
        ensure_invalid(device.enqueue(stream, &Op::Fill(Fill::zero(view))), what)?;
        ensure_invalid(device.upload(stream, &mut *upload, 0, view), what)?;
        ensure_invalid(device.download(stream, view, &mut *download, 0), what)?;
        ensure_invalid(device.record(stream), what)?;
        ensure_invalid(device.wait(stream, &event), what)?;
        ensure_invalid(device.destroy_stream(stream), what)?;
    }
    upload.host(Fixture::TIMEOUT)?;
    download.host(Fixture::TIMEOUT)?;
    still_works(f)
}

fn events(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let foreign = Event::new("nobody's");
    ensure_invalid(device.query(&foreign), "query of a foreign event")?;
    ensure_invalid(
        device.synchronize(&foreign, Duration::from_secs(1)),
        "synchronize on a foreign event",
    )?;
    ensure_invalid(device.wait(f.stream(), &foreign), "wait for a foreign event")?;
    still_works(f)
}

/// A staging buffer that no device made.
struct Foreign {
    kind: StagingKind,
    bytes: Vec<u8>,
}

impl Staging for Foreign {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
        Ok(&mut self.bytes)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn staging(f: &mut Fixture) -> Verdict {
    let (device, stream) = (f.device().clone(), f.stream());
    let view = f.work("view", 256)?;
    let bytes = random_bytes(256, &mut f.rng);
    f.put(view, &bytes)?;
    let mut upload = device.allocate_staging("upload", StagingKind::Upload, 512)?;
    let mut download = device.allocate_staging("download", StagingKind::Download, 512)?;
    ensure(upload.size_bytes() >= 512 && download.size_bytes() >= 512, || {
        "a staging buffer is smaller than asked for".into()
    })?;
    ensure(
        upload.kind() == StagingKind::Upload && download.kind() == StagingKind::Download,
        || "a staging buffer says the wrong direction".into(),
    )?;
    ensure(upload.host(Fixture::TIMEOUT)?.iter().all(|byte| *byte == 0), || {
        "a new staging buffer is not zeroed".into()
    })?;
    ensure_invalid(
        device.upload(stream, &mut *download, 0, view),
        "upload from a download buffer",
    )?;
    ensure_invalid(device.download(stream, view, &mut *upload, 0), "download to an upload buffer")?;
    let size = upload.size_bytes();
    for offset in [1, 2, size - 252, size, size + 4, u64::MAX - 3, u64::MAX - 255] {
        let what = format!("a copy at staging offset {offset} of {size}");
        ensure_invalid(device.upload(stream, &mut *upload, offset, view), &what)?;
        ensure_invalid(device.download(stream, view, &mut *download, offset), &what)?;
    }
    for kind in [StagingKind::Upload, StagingKind::Download] {
        let mut foreign = Foreign { kind, bytes: vec![0; 512] };
        let outcome = match kind {
            StagingKind::Upload => device.upload(stream, &mut foreign, 0, view),
            StagingKind::Download => device.download(stream, view, &mut foreign, 0),
        };
        ensure_invalid(outcome, "a foreign staging buffer")?;
    }
    first_difference("after refused copies", &f.get(view)?, &bytes)?;
    still_works(f)
}

fn window_bits(f: &mut Fixture) -> Verdict {
    use twinlock_api::Error;
    let device = f.device().clone();
    for group in [Group::G1, Group::G2] {
        for len in [0, 1, 2, 100, 1 << 16, 1 << 24, 1 << 27] {
            let window_bits = device.window_bits(group, len);
            let shape = DigitsShape::new(len, window_bits);
            // A length past this device may be refused, the width it suggests itself may not.
            match device.msm_layout(group, shape).and(device.digits_layout(shape)) {
                Ok(layout) => ensure(layout.shape == shape, || "another shape's layout".into())?,
                Err(Error::ExceedsLimit { .. }) if len > 1 << 16 => {}
                Err(error) => return Err(format!("layout for {shape:?}: {error}").into()),
            }
        }
    }
    for window_bits in [0, 64, u32::MAX] {
        let shape = DigitsShape::new(16, window_bits);
        for outcome in
            [device.digits_layout(shape).map(drop), device.msm_layout(Group::G1, shape).map(drop)]
        {
            ensure(
                matches!(
                    outcome,
                    Err(Error::Unsupported(_)
                        | Error::ExceedsLimit { .. }
                        | Error::InvalidArgument(_))
                ),
                || format!("windows of {window_bits} bits: {outcome:?}"),
            )?;
        }
    }
    for max_len in [u64::MAX, u64::MAX / 32, 1 << 60] {
        let shape = DigitsShape::new(max_len, 8);
        let outcome = device.digits_layout(shape).map(drop);
        ensure(matches!(outcome, Err(Error::ExceedsLimit { .. } | Error::Unsupported(_))), || {
            format!("a plan for {max_len} scalars: {outcome:?}")
        })?;
    }
    still_works(f)
}
