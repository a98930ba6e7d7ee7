//! What a device costs apart from kernels: opening, staging, enqueueing.
//! `cargo bench -p twinlock-wgsl --bench device [-- wgsl:0]`
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use twinlock_api::op::{Copy, Fill};
use twinlock_api::{Backend, Device, MemoryClass, Op, OpenOptions, Result, StagingKind};
use twinlock_wgsl::WgslBackend;

const SOON: Duration = Duration::from_secs(300);
const SLOT_BYTES: u64 = 64 << 20;
const SLOTS: usize = 4;

fn main() -> Result<()> {
    let name = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let name = name.unwrap_or_else(|| "wgsl:0".to_owned());
    let open = || WgslBackend::default().open(&name, &OpenOptions::default());
    let start = Instant::now();
    let device = open()?;
    println!("{:#?}", device.info());
    println!("open              {:8.1} ms", ms(start));
    println!("memory            {:?}", device.memory()?);
    drop(device);
    let start = Instant::now();
    let device = open()?;
    println!("open again        {:8.1} ms", ms(start));

    latency(&device)?;
    allocate(&device)?;
    transfers(&device)
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn gb_per_s(bytes: u64, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn latency(device: &Arc<dyn Device>) -> Result<()> {
    let region = device.allocate("bench", MemoryClass::Work, 1 << 20)?;
    let view = region.view("bench", 0, 4096)?;
    let stream = device.create_stream("bench")?;
    let fill = Op::Fill(Fill::new(view, 1));
    // The first one compiles.
    device.enqueue(stream, &fill)?;
    device.synchronize(&device.record(stream)?, SOON)?;
    let rounds = 200;
    let start = Instant::now();
    for _ in 0..rounds {
        device.enqueue(stream, &fill)?;
        device.synchronize(&device.record(stream)?, SOON)?;
    }
    println!("one op and wait   {:8.1} us", ms(start) * 1e3 / f64::from(rounds));
    let rounds = 5000;
    let start = Instant::now();
    for _ in 0..rounds {
        device.enqueue(stream, &fill)?;
    }
    println!("enqueue           {:8.1} us an op", ms(start) * 1e3 / f64::from(rounds));
    device.synchronize(&device.record(stream)?, SOON)?;
    println!("enqueue and run   {:8.1} us an op", ms(start) * 1e3 / f64::from(rounds));
    device.free(region)
}

fn allocate(device: &Arc<dyn Device>) -> Result<()> {
    let size_bytes = device.info().max_region_bytes.min(1 << 30);
    let before = device.memory()?.free_bytes;
    let start = Instant::now();
    let region = device.allocate("bench", MemoryClass::Work, size_bytes)?;
    println!("allocate {:4} MiB {:8.1} ms", size_bytes >> 20, ms(start));
    println!(
        "  free memory fell by {} MiB",
        before.saturating_sub(device.memory()?.free_bytes) >> 20
    );
    let stream = device.create_stream("bench")?;
    for what in ["first", "second"] {
        let start = Instant::now();
        device.enqueue(stream, &Op::Fill(Fill::new(region.whole("bench")?, 7)))?;
        device.synchronize(&device.record(stream)?, SOON)?;
        println!("  {what} fill      {:8.1} GB/s", gb_per_s(size_bytes, start));
    }
    let (a, b) = (region.whole("bench")?, size_bytes / 2 / 256 * 256);
    let copy = Op::Copy(Copy::new(a.slice(0, b)?, a.slice(b, b)?)?);
    let start = Instant::now();
    device.enqueue(stream, &copy)?;
    device.synchronize(&device.record(stream)?, SOON)?;
    println!("  copy within     {:8.1} GB/s", gb_per_s(b, start));
    let start = Instant::now();
    device.free(region)?;
    println!("free              {:8.1} ms", ms(start));
    println!("  memory          {:?}", device.memory()?);
    Ok(())
}

fn transfers(device: &Arc<dyn Device>) -> Result<()> {
    let before = device.memory()?.free_bytes;
    let region = device.allocate("bench", MemoryClass::Resident, SLOT_BYTES)?;
    let view = region.whole("bench")?;
    let stream = device.create_stream("bench")?;
    let source = vec![0x5a; SLOT_BYTES as usize];
    let mut slots = (0..SLOTS)
        .map(|_| device.allocate_staging("bench", StagingKind::Upload, SLOT_BYTES))
        .collect::<Result<Vec<_>>>()?;
    let fell = before.saturating_sub(device.memory()?.free_bytes + SLOT_BYTES);
    println!("staging           {} MiB of device memory for {SLOTS} slots", fell >> 20);

    let start = Instant::now();
    slots[0].host(SOON)?.copy_from_slice(&source);
    println!("host write        {:8.1} GB/s, one thread, first", gb_per_s(SLOT_BYTES, start));
    for threads in [1, 4, 8] {
        let start = Instant::now();
        let piece = SLOT_BYTES as usize / threads;
        let host = slots[0].host(SOON)?;
        std::thread::scope(|scope| {
            for (to, from) in host.chunks_mut(piece).zip(source.chunks(piece)) {
                scope.spawn(|| to.copy_from_slice(from));
            }
        });
        println!("host write        {:8.1} GB/s, {threads} threads", gb_per_s(SLOT_BYTES, start));
    }
    let start = Instant::now();
    let sum: u64 = slots[0].host(SOON)?[..1 << 22].iter().map(|byte| u64::from(*byte)).sum();
    println!("host read         {:8.1} GB/s ({sum})", gb_per_s(1 << 22, start));

    let rounds = 16;
    let start = Instant::now();
    for _ in 0..rounds {
        device.upload(stream, &mut *slots[0], 0, view)?;
    }
    device.synchronize(&device.record(stream)?, SOON)?;
    println!("upload            {:8.1} GB/s", gb_per_s(SLOT_BYTES * rounds, start));

    let start = Instant::now();
    for round in 0..rounds as usize {
        let slot = &mut slots[round % SLOTS];
        let piece = SLOT_BYTES as usize / 8;
        let host = slot.host(SOON)?;
        std::thread::scope(|scope| {
            for (to, from) in host.chunks_mut(piece).zip(source.chunks(piece)) {
                scope.spawn(|| to.copy_from_slice(from));
            }
        });
        device.upload(stream, &mut **slot, 0, view)?;
    }
    device.synchronize(&device.record(stream)?, SOON)?;
    println!("write and upload  {:8.1} GB/s, 8 threads", gb_per_s(SLOT_BYTES * rounds, start));

    let mut down = device.allocate_staging("bench", StagingKind::Download, SLOT_BYTES)?;
    for _ in 0..2 {
        let start = Instant::now();
        device.download(stream, view, &mut *down, 0)?;
        down.host(SOON)?;
        println!("download          {:8.1} GB/s", gb_per_s(SLOT_BYTES, start));
    }
    device.free(region)
}
