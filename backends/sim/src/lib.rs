//! A simulated device: the semantics of a CUDA card on a virtual clock, with faults on demand.
//!
//! A [`SimCard`] is the hardware; [`SimCard::open`] (or [`SimBackend`]) opens a [`SimDevice`] on
//! it. Nothing here reads real time: the [`Clock`] moves by what calls cost the host, by waits, and
//! by whoever drives it.
//!
//! # Time
//! Enqueued work starts when its stream and the events it waits for are ready, its engine is free
//! and the host has enqueued it; it ends after its cost. There is one compute engine and one copy
//! engine each way. All times are settled at enqueueing, so an event's completion is known at once
//! ([`SimDevice::completion_time`]); `query` compares it with the clock, `synchronize` moves the
//! clock there, or to its timeout.
//!
//! There is one clock, not one a thread: a wait by one thread moves time for all. So that several
//! workers overlap, drive them from one thread: keep for each the time at which it goes on, move
//! the clock to the earliest, and call `query` (not `synchronize`) when an event is due, which is
//! how the host *sees* its end.
//!
//! # Arithmetic
//! [`Arithmetic::Of`] runs every operation on another device when it is enqueued, so bytes in
//! device memory change earlier than the clock says. Nobody can tell: what the host may read, it
//! may read only behind an event or [`twinlock_api::Staging::host`], and what races with it is
//! reported by [`SimCard::races`]. After a failed or lost operation the bytes are what they are.
//!
//! # What is like CUDA
//! * `allocate`, `free`, page-locked staging and dropping the device wait for all streams, and cost
//!   what was measured ([`DriverCosts`]).
//! * [`SimDevice::pool_allocate`] and its kin are a stream-ordered pool. It keeps what was freed;
//!   `memory` counts that as used; it gives back only what the host has seen freed, when trimmed or
//!   past its threshold at a synchronise.
//! * An open device holds its context's bytes. A lost card loses every device on it, and has all
//!   its memory again.
//!
//! # What it watches
//! * [`enter_mem`]: calls that wait or go to the driver's allocator while the lock `mem` is held
//!   ([`SimCard::violations`]).
//! * Uses of the same bytes by two streams, or a free, with no order between them
//!   ([`SimCard::races`]), whether or not they collided in this run.
//! * Spans and memory in use ([`SimCard::log`]).

mod backend;
mod card;
mod clock;
mod config;
mod context;
mod cost;
mod device;
mod driver;
mod engine;
mod faults;
mod log;
mod mem_guard;
mod memory;
mod order;
mod pool;
mod races;
mod sizes;
mod staging;

pub use backend::SimBackend;
pub use card::SimCard;
pub use clock::Clock;
pub use config::{Arithmetic, CopyRate, KernelCost, SimConfig};
pub use cost::{DriverCosts, KernelRates};
pub use device::SimDevice;
pub use engine::EngineOrder;
pub use faults::{Counts, Fault, FaultPlan, FaultRates, ParseFaultsError};
pub use log::{Lane, Log, MemorySample, Span};
pub use mem_guard::{MemGuard, OnViolation, Violation, enter_mem};
pub use races::{Race, RaceKind, Use};
