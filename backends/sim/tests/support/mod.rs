//! What the tests share: a card whose costs are round numbers, and an inner device for bytes.
#![allow(dead_code, reason = "each test uses a part")]

mod bytes;

use std::sync::Arc;
use std::time::Duration;

use twinlock_api::op::Fill;
use twinlock_api::{Backend, Device, Event, MemoryClass, Op, OpenOptions, Region, Stream, View};
use twinlock_sim::{
    Arithmetic, Clock, CopyRate, DriverCosts, KernelCost, SimBackend, SimCard, SimConfig, SimDevice,
};

pub use bytes::Bytes;

pub const GIB: u64 = 1 << 30;
pub const FOREVER: Duration = Duration::MAX;

pub fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A card of 1 MiB where copies take a second for 1,000 bytes (10 when pageable), a fill takes as
/// many seconds as its word says, and calls cost nothing.
pub fn round_numbers() -> SimConfig {
    let rate = CopyRate { pinned: 1_000.0, pageable: 100.0, latency: Duration::ZERO };
    SimConfig {
        context_bytes: 0,
        upload: rate,
        download: rate,
        kernel_cost: KernelCost::new(|op| match op {
            Op::Fill(fill) => s(fill.word().into()),
            _ => s(1),
        }),
        driver_costs: DriverCosts::zero(),
        ..SimConfig::new("sim:0", 1 << 20)
    }
}

pub fn with_bytes(config: SimConfig) -> SimConfig {
    SimConfig { arithmetic: Arithmetic::Of(Arc::new(Bytes::default())), ..config }
}

pub fn card(config: SimConfig) -> Arc<SimCard> {
    SimCard::new(config, Clock::new())
}

pub fn open(config: SimConfig) -> Arc<SimDevice> {
    card(config).open().unwrap()
}

pub fn open_by_name(backend: &SimBackend, name: &str) -> Arc<dyn Device> {
    backend.open(name, &OpenOptions::default()).unwrap()
}

pub fn work(device: &SimDevice, name: &'static str, size_bytes: u64) -> View {
    device.allocate(name, MemoryClass::Work, size_bytes).unwrap().whole(name).unwrap()
}

/// Enqueues a kernel of `seconds` that writes `view`.
pub fn kernel(device: &SimDevice, stream: Stream, view: View, seconds: u32) -> Event {
    device.enqueue(stream, &Op::Fill(Fill::new(view, seconds))).unwrap();
    device.record(stream).unwrap()
}

pub fn completion(device: &SimDevice, stream: Stream) -> Duration {
    device.completion_time(&device.record(stream).unwrap()).unwrap()
}

pub fn now(device: &SimDevice) -> Duration {
    device.card().clock().now()
}

pub fn free_bytes(device: &SimDevice) -> u64 {
    device.memory().unwrap().free_bytes
}

pub fn region(device: &SimDevice, size_bytes: u64) -> twinlock_api::Result<Region> {
    device.allocate("region", MemoryClass::Work, size_bytes)
}
