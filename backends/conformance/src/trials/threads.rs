//! One device, eight threads.

use blstrs::Scalar;
use ff::Field;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use twinlock_api::op::{Copy, Vector};
use twinlock_api::{Device, Error, FrView, MemoryClass, Op, Result, StagingKind, View};

use super::random_values;
use crate::harness::{Fixture, Trial, Verdict, ensure, passed};
use crate::oracle::frs_to_bytes;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "threads::eight_streams", run: eight_streams },
        Trial { name: "threads::allocate_and_free", run: allocate_and_free },
    ]
}

const THREADS: usize = 8;

/// Runs `work` on eight threads with their own seeds; the first error of any.
fn on_threads(
    f: &mut Fixture,
    work: impl Fn(usize, ChaCha8Rng) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let seeds: Vec<_> = (0..THREADS)
        .map(|_| ChaCha8Rng::from_rng(&mut f.rng))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = seeds
            .into_iter()
            .enumerate()
            .map(|(index, rng)| scope.spawn(move || work(index, rng)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })
}

/// Uploads, works and downloads on a stream of its own.
fn one_stream(device: &dyn Device, view: View, mut rng: ChaCha8Rng) -> Result<bool> {
    let len = view.len_bytes() as usize / 64;
    let bytes = len as u64 * 32;
    let stream = device.create_stream("thread")?;
    let mut upload = device.allocate_staging("thread", StagingKind::Upload, bytes)?;
    let mut download = device.allocate_staging("thread", StagingKind::Download, bytes)?;
    let a = FrView::new(view.slice(0, bytes)?)?;
    let b = FrView::new(view.slice(bytes, bytes)?)?;
    let mut right = true;
    for _ in 0..5 {
        let values = random_values(len, &mut rng);
        let factor = Scalar::random(&mut rng);
        upload.host(Fixture::TIMEOUT)?[..bytes as usize].copy_from_slice(&frs_to_bytes(&values));
        device.upload(stream, &mut *upload, 0, a.view())?;
        device.enqueue(stream, &Op::Copy(Copy::new(a.view(), b.view())?))?;
        device.enqueue(stream, &Op::Vector(Vector::mul(a, b, b)?))?;
        let factor_words = crate::oracle::fr_words(&factor);
        device.enqueue(stream, &Op::Vector(Vector::mul_sub_scale(b, a, a, factor_words, b)?))?;
        device.download(stream, b.view(), &mut *download, 0)?;
        device.synchronize(&device.record(stream)?, Fixture::TIMEOUT)?;
        let expected: Vec<_> = values.iter().map(|a| (a.square() * a - a) * factor).collect();
        right &= download.host(Fixture::TIMEOUT)?[..bytes as usize] == frs_to_bytes(&expected);
    }
    device.destroy_stream(stream)?;
    Ok(right)
}

fn eight_streams(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let views: Vec<_> = (0..THREADS)
        .map(|index| f.work("thread's view", 64 * (1000 + index as u64 * 8)))
        .collect::<Result<_>>()?;
    on_threads(f, |index, rng| match one_stream(&*device, views[index], rng) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("thread {index} got wrong values")),
        Err(error) => Err(format!("thread {index}: {error}")),
    })?;
    passed()
}

fn allocate_and_free(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let before = device.memory()?.regions_bytes;
    on_threads(f, |index, _| {
        let round = |round: u64| -> Result<()> {
            let region = device.allocate("thread's", MemoryClass::Work, 4096 * (round + 1))?;
            let stream = device.create_stream("thread's")?;
            let view = region.whole("thread's")?;
            device.enqueue(stream, &Op::Fill(twinlock_api::op::Fill::zero(view)))?;
            device.synchronize(&device.record(stream)?, Fixture::TIMEOUT)?;
            device.destroy_stream(stream)?;
            device.free(region)?;
            match device.free(region) {
                Err(Error::InvalidArgument(_)) => Ok(()),
                other => Err(Error::invalid(format!("a second free: {other:?}"))),
            }
        };
        (0..10).try_for_each(round).map_err(|error| format!("thread {index}: {error}"))
    })?;
    let after = device.memory()?.regions_bytes;
    ensure(before == after, || format!("{before} bytes of regions before, {after} after"))?;
    passed()
}
