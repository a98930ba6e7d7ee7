//! Order, events, staging, and what a failure does to a stream.

use std::time::{Duration, Instant};

use blstrs::Scalar;
use libtest_mimic::Completion;
use twinlock_api::op::{Copy, Fill, Vector};
use twinlock_api::{Error, FrView, Op, StagingKind};

use super::{random_bytes, random_values};
use crate::harness::{Fixture, Trial, Verdict, ensure, first_difference, passed};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "streams::order", run: order },
        Trial { name: "streams::wait", run: wait },
        Trial { name: "streams::events", run: events },
        Trial { name: "streams::timeout", run: timeout },
        Trial { name: "streams::destroy", run: destroy },
        Trial { name: "streams::many", run: many },
        Trial { name: "streams::staging_reuse", run: staging_reuse },
        Trial { name: "streams::staging_dropped", run: staging_dropped },
        Trial { name: "streams::download_is_ordered", run: download_is_ordered },
        Trial { name: "streams::poisoned", run: poisoned },
        Trial { name: "streams::poison_spreads_by_wait", run: poison_spreads_by_wait },
    ]
}

/// A long chain in one stream, where any reordering changes the result.
fn order(f: &mut Fixture) -> Verdict {
    let mut values = random_values(5000, &mut f.rng);
    let mut other = random_values(5000, &mut f.rng);
    let a = f.put_frs("a", &values)?;
    let b = f.put_frs("b", &other)?;
    for step in 0..60 {
        match step % 3 {
            0 => f.run(Op::Vector(Vector::mul(a, b, a)?))?,
            1 => f.run(Op::Vector(Vector::sub(b, a, b)?))?,
            _ => {
                f.run(Op::Copy(Copy::new(a.slice(0, 2500)?.view(), b.slice(2500, 2500)?.view())?))?
            }
        }
        match step % 3 {
            0 => values.iter_mut().zip(&other).for_each(|(a, b)| *a *= b),
            1 => other.iter_mut().zip(&values).for_each(|(b, a)| *b -= a),
            _ => other[2500..].copy_from_slice(&values[..2500]),
        }
    }
    first_difference("a chain's a", &f.get_frs(a)?, &values)?;
    first_difference("a chain's b", &f.get_frs(b)?, &other)?;
    passed()
}

/// Two streams hand one vector to and fro; each waits for the other on the device only.
fn wait(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let mut values = random_values(20_000, &mut f.rng);
    let view = f.put_frs("view", &values)?;
    let streams = [device.create_stream("first")?, device.create_stream("second")?];
    for round in 0..20 {
        let (mine, theirs) = (streams[round % 2], streams[(round + 1) % 2]);
        let op = if round % 2 == 0 {
            Vector::mul(view, view, view)?
        } else {
            Vector::add(view, view, view)?
        };
        device.enqueue(mine, &Op::Vector(op))?;
        device.wait(theirs, &device.record(mine)?)?;
        values.iter_mut().for_each(|value| {
            *value = if round % 2 == 0 { *value * *value } else { *value + *value };
        });
    }
    device.wait(f.stream(), &device.record(streams[1])?)?;
    first_difference("handed to and fro", &f.get_frs(view)?, &values)?;
    // A stream may wait for its own event.
    device.wait(f.stream(), &device.record(f.stream())?)?;
    f.sync()?;
    for stream in streams {
        device.destroy_stream(stream)?;
    }
    passed()
}

fn events(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let idle = device.create_stream("idle")?;
    let at_once = device.record(idle)?;
    device.synchronize(&at_once, Fixture::TIMEOUT)?;
    ensure(device.query(&at_once)?, || "an event that was synchronised is not complete".into())?;

    let view = FrView::new(f.work("view", 32 << 14)?)?;
    f.run(Op::Fill(Fill::zero(view.view())))?;
    for _ in 0..20 {
        f.run(Op::Vector(Vector::mul(view, view, view)?))?;
    }
    let event = device.record(f.stream())?;
    let clone = event.clone();
    let start = Instant::now();
    while !device.query(&event)? {
        ensure(start.elapsed() < Fixture::TIMEOUT, || "an event never completes".into())?;
        std::thread::yield_now();
    }
    drop(event);
    for _ in 0..3 {
        device.synchronize(&clone, Duration::ZERO)?;
        ensure(device.query(&clone)?, || "a complete event is not complete later".into())?;
    }
    device.destroy_stream(idle)?;
    // An event outlives its stream.
    device.synchronize(&at_once, Fixture::TIMEOUT)?;
    passed()
}

/// A wait that ends early says so, and the work still runs.
fn timeout(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let values = random_values(1 << f.max_lg.min(16), &mut f.rng);
    let view = f.put_frs("view", &values)?;
    let rounds = 30;
    for _ in 0..rounds {
        f.run(Op::Vector(Vector::add(view, view, view)?))?;
    }
    let event = device.record(f.stream())?;
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(50)] {
        match device.synchronize(&event, timeout) {
            Ok(()) | Err(Error::Timeout { .. }) => {}
            Err(other) => return Err(format!("a wait of {timeout:?}: {other}").into()),
        }
    }
    let factor = Scalar::from(1 << rounds);
    let expected: Vec<_> = values.iter().map(|value| value * factor).collect();
    first_difference("after short waits", &f.get_frs(view)?, &expected)?;
    passed()
}

fn destroy(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let mut values = random_values(10_000, &mut f.rng);
    let view = f.put_frs("view", &values)?;
    let stream = device.create_stream("short-lived")?;
    for _ in 0..10 {
        device.enqueue(stream, &Op::Vector(Vector::mul(view, view, view)?))?;
        values.iter_mut().for_each(|value| *value *= *value);
    }
    let event = device.record(stream)?;
    device.destroy_stream(stream)?;
    device.synchronize(&event, Fixture::TIMEOUT)?;
    first_difference("work of a destroyed stream", &f.get_frs(view)?, &values)?;
    passed()
}

fn many(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    for round in 0u32..3 {
        let mut streams = Vec::new();
        for index in 0..32 {
            let stream = device.create_stream("one of many")?;
            let view = f.work("view", 1024)?;
            device.enqueue(stream, &Op::Fill(Fill::new(view, round << 8 | index)))?;
            streams.push((stream, view, round << 8 | index));
        }
        for (stream, view, word) in streams {
            device.wait(f.stream(), &device.record(stream)?)?;
            device.destroy_stream(stream)?;
            first_difference("one of many", &f.get(view)?, &word.to_le_bytes().repeat(256))?;
        }
    }
    passed()
}

/// `Staging::host` waits for the copies that use the buffer, so refilling it changes none of them.
fn staging_reuse(f: &mut Fixture) -> Verdict {
    const LEN: usize = 1 << 18;
    let device = f.device().clone();
    let mut staging = device.allocate_staging("reused", StagingKind::Upload, LEN as u64)?;
    let values = random_values(4096, &mut f.rng);
    let busy = f.put_frs("busy", &values)?;
    let mut uploads = Vec::new();
    for _ in 0..8 {
        let bytes = random_bytes(LEN, &mut f.rng);
        staging.host(Fixture::TIMEOUT)?[..LEN].copy_from_slice(&bytes);
        // Something in front, so that the copy does not start at once; two copies of one filling.
        f.run(Op::Vector(Vector::mul(busy, busy, busy)?))?;
        for _ in 0..2 {
            let view = f.work("view", LEN as u64)?;
            device.upload(f.stream(), &mut *staging, 0, view)?;
            uploads.push((view, bytes.clone()));
        }
    }
    for (index, (view, bytes)) in uploads.into_iter().enumerate() {
        first_difference(&format!("upload {index} of a reused buffer"), &f.get(view)?, &bytes)?;
    }
    passed()
}

/// A buffer may be dropped while copies use it.
fn staging_dropped(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let values = random_values(4096, &mut f.rng);
    let busy = f.put_frs("busy", &values)?;
    let mut uploads = Vec::new();
    for _ in 0..8 {
        let bytes = random_bytes(1 << 16, &mut f.rng);
        let view = f.work("view", bytes.len() as u64)?;
        let size = bytes.len() as u64;
        let mut staging = device.allocate_staging("dropped", StagingKind::Upload, size)?;
        staging.host(Fixture::TIMEOUT)?[..bytes.len()].copy_from_slice(&bytes);
        f.run(Op::Vector(Vector::mul(busy, busy, busy)?))?;
        device.upload(f.stream(), &mut *staging, 0, view)?;
        uploads.push((view, bytes));
    }
    let mut download = device.allocate_staging("dropped", StagingKind::Download, 1 << 16)?;
    device.download(f.stream(), uploads[0].0, &mut *download, 0)?;
    drop(download);
    for (view, bytes) in uploads {
        first_difference("upload of a dropped buffer", &f.get(view)?, &bytes)?;
    }
    passed()
}

/// A download sees what came before it in its stream and nothing of what comes after.
fn download_is_ordered(f: &mut Fixture) -> Verdict {
    let device = f.device().clone();
    let view = f.work("view", 1 << 16)?;
    let mut downloads = Vec::new();
    for word in 0..10 {
        let mut staging = device.allocate_staging("down", StagingKind::Download, 1 << 16)?;
        f.run(Op::Fill(Fill::new(view, word)))?;
        device.download(f.stream(), view, &mut *staging, 0)?;
        downloads.push((staging, word));
    }
    for (mut staging, word) in downloads {
        let host = staging.host(Fixture::TIMEOUT)?;
        first_difference(
            "ordered download",
            &host[..1 << 16],
            &word.to_le_bytes().repeat(1 << 14),
        )?;
    }
    passed()
}

const NO_POISON: &str = "this backend offers the suite no way to make work fail";

fn poisoned(f: &mut Fixture) -> Verdict {
    let Some(poison) = f.poison().cloned() else {
        return Ok(Completion::ignored_with(NO_POISON));
    };
    let device = f.device().clone();
    let bytes = random_bytes(256, &mut f.rng);
    let view = f.work("view", 256)?;
    f.put(view, &bytes)?;
    let stream = device.create_stream("poisoned")?;
    device.enqueue(stream, &Op::Copy(Copy::new(view, f.work("copy", 256)?)?))?;
    let before = device.record(stream)?;
    poison(f, stream)?;
    let after = device.record(stream)?;
    device.synchronize(&before, Fixture::TIMEOUT)?;
    let Err(first) = device.synchronize(&after, Fixture::TIMEOUT) else {
        return Err("work that was to fail succeeded".into());
    };
    ensure(matches!(first, Error::KernelFailed { .. }), || format!("poisoned by: {first}"))?;
    // What follows is accepted, skipped, and every event reports the first failure.
    device.enqueue(stream, &Op::Fill(Fill::new(view, 0x0bad_0bad)))?;
    let _ = poison(f, stream);
    let later = device.record(stream)?;
    for event in [&after, &later] {
        let outcome = device.synchronize(event, Fixture::TIMEOUT);
        ensure(outcome == Err(first.clone()), || format!("expected {first}, got {outcome:?}"))?;
        let outcome = device.query(event);
        ensure(outcome == Err(first.clone()), || format!("query: {outcome:?}, not {first}"))?;
    }
    ensure(device.query(&before)?, || "an event before the failure is not complete".into())?;
    device.destroy_stream(stream)?;
    // Other streams go on, and what was to follow the failure did not run.
    first_difference("after a poisoned stream", &f.get(view)?, &bytes)?;
    passed()
}

fn poison_spreads_by_wait(f: &mut Fixture) -> Verdict {
    let Some(poison) = f.poison().cloned() else {
        return Ok(Completion::ignored_with(NO_POISON));
    };
    let device = f.device().clone();
    let bytes = random_bytes(256, &mut f.rng);
    let view = f.work("view", 256)?;
    f.put(view, &bytes)?;
    let [sick, waiting, healthy] = [
        device.create_stream("sick")?,
        device.create_stream("waiting")?,
        device.create_stream("healthy")?,
    ];
    let before = device.record(sick)?;
    poison(f, sick)?;
    let after = device.record(sick)?;
    device.wait(healthy, &before)?;
    device.wait(waiting, &after)?;
    device.enqueue(waiting, &Op::Fill(Fill::new(view, 0x0bad_0bad)))?;
    let Err(first) = f.sync_stream(sick) else {
        return Err("work that was to fail succeeded".into());
    };
    let outcome = f.sync_stream(waiting);
    ensure(outcome == Err(first.clone()), || format!("expected {first}, got {outcome:?}"))?;
    f.sync_stream(healthy)?;
    for stream in [sick, waiting, healthy] {
        device.destroy_stream(stream)?;
    }
    first_difference("after a wait for a failure", &f.get(view)?, &bytes)?;
    passed()
}
