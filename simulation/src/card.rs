//! A simulated card with what outlives a partition on it: memories, staging slots, streams.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock_api::{
    Device, Error, Event, MemoryClass, Op, Region, Result, Staging, StagingKind, Stream,
};
use twinlock_sim::{Clock, KernelCost, SimCard, SimConfig, SimDevice, enter_mem};

/// Staging slots of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotSpec {
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub size_bytes: u64,
}

impl Default for SlotSpec {
    /// As the prover's plans for large circuits have them.
    fn default() -> Self {
        Self { count: 4, size_bytes: 64 << 20 }
    }
}

struct Flying {
    done: Duration,
    event: Event,
    slot: Box<dyn Staging>,
}

/// Not computing, and the ticket.
type Rank = (bool, Ticket);

/// The bounded pool of staging slots. Filling them takes the host no time here, so the link is
/// the limit.
#[derive(Default)]
pub struct Slots {
    free: Vec<Box<dyn Staging>>,
    flying: Vec<Flying>,
    readback: Option<Box<dyn Staging>>,
    /// Who waits for a slot: those that compute go first, then the oldest.
    waiting: BTreeSet<Rank>,
}

/// The two streams of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Copies.
    pub copy: Stream,
    /// Kernels.
    pub compute: Stream,
}

/// An open device.
pub struct Opened {
    /// The device.
    pub device: Arc<SimDevice>,
    /// Staging.
    pub slots: Slots,
    /// One region for each memory, once made.
    pub memories: Vec<Region>,
    streams: Vec<Streams>,
}

/// A card, open or not.
pub struct Card {
    /// The hardware.
    pub sim: Arc<SimCard>,
    /// The device, unless the card was lost.
    pub opened: Option<Opened>,
    slot_spec: SlotSpec,
    /// The most that was ever taken from the driver on purpose, context included.
    pub promised_peak_bytes: u64,
}

/// A card where a kernel takes as many microseconds as its fill's word says.
pub fn config(name: impl Into<String>, memory_bytes: u64) -> SimConfig {
    let cost = |op: &Op| match op {
        Op::Fill(fill) => Duration::from_micros(fill.word().into()),
        _ => Duration::ZERO,
    };
    SimConfig { kernel_cost: KernelCost::new(cost), ..SimConfig::new(name, memory_bytes) }
}

/// What every call answers on a card that is not open.
pub fn not_open() -> Error {
    Error::DeviceLost { reason: "the card is not open".into() }
}

impl Card {
    /// An open card.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn new(config: SimConfig, clock: &Clock, slot_spec: SlotSpec) -> Result<Self> {
        let sim = SimCard::new(config, clock.clone());
        let mut card = Self { sim, opened: None, slot_spec, promised_peak_bytes: 0 };
        card.open()?;
        Ok(card)
    }

    /// Opens the device anew and tries a kernel.
    ///
    /// # Errors
    /// What the device answers.
    pub fn open(&mut self) -> Result<()> {
        self.opened = None;
        let device = self.sim.open()?;
        let mut slots = Slots::default();
        for _ in 0..self.slot_spec.count.max(1) {
            let size_bytes = self.slot_spec.size_bytes;
            slots.free.push(device.allocate_staging("slot", StagingKind::Upload, size_bytes)?);
        }
        let readback = device.allocate_staging("readback", StagingKind::Download, 256 << 10)?;
        slots.readback = Some(readback);
        let canary = device.create_stream("canary")?;
        let done = device.record(canary)?;
        device.synchronize(&done, Duration::from_secs(1))?;
        device.destroy_stream(canary)?;
        self.promised_peak_bytes = self.promised_peak_bytes.max(self.sim.config().context_bytes);
        self.opened = Some(Opened { device, slots, memories: Vec::new(), streams: Vec::new() });
        Ok(())
    }

    /// The open device.
    ///
    /// # Errors
    /// `DeviceLost` without one.
    pub fn opened(&mut self) -> Result<&mut Opened> {
        self.opened.as_mut().ok_or_else(not_open)
    }

    /// Bytes that the driver has to give.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn free_bytes(&mut self) -> Result<u64> {
        Ok(self.opened()?.device.memory()?.free_bytes)
    }

    /// Gives the memories back and takes others. Nobody uses them.
    ///
    /// # Errors
    /// `OutOfMemory`, after which there are none, or `DeviceLost`.
    pub fn make_memories(&mut self, sizes_bytes: &[(MemoryClass, u64)]) -> Result<()> {
        self.free_memories()?;
        let mut held_bytes = self.sim.config().context_bytes;
        for (class, size_bytes) in sizes_bytes {
            let opened = self.opened()?;
            match opened.device.allocate("memory", *class, *size_bytes) {
                Ok(region) => opened.memories.push(region),
                Err(error) => {
                    self.free_memories()?;
                    return Err(error);
                }
            }
            held_bytes += size_bytes;
            self.promised_peak_bytes = self.promised_peak_bytes.max(held_bytes);
        }
        Ok(())
    }

    /// Gives the memories back to the driver.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn free_memories(&mut self) -> Result<()> {
        let Some(opened) = &mut self.opened else { return Ok(()) };
        for region in std::mem::take(&mut opened.memories) {
            opened.device.free(region)?;
        }
        Ok(())
    }
}

impl Opened {
    /// Streams for one partition.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn lend_streams(&mut self) -> Result<Streams> {
        if let Some(streams) = self.streams.pop() {
            return Ok(streams);
        }
        let copy = self.device.create_stream("copy")?;
        Ok(Streams { copy, compute: self.device.create_stream("compute")? })
    }

    /// Takes streams back; a failed one is destroyed.
    pub fn take_back(&mut self, streams: Streams, healthy: bool) {
        if healthy {
            return self.streams.push(streams);
        }
        for stream in [streams.copy, streams.compute] {
            // On a lost device they are gone already.
            let _ = self.device.destroy_stream(stream);
        }
    }
}

/// What became of an attempt to send bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// They are on their way.
    Yes,
    /// No slot is free before this time.
    NotBefore(Duration),
}

impl Slots {
    /// Sends the bytes of `view` (one slot's at most) on `stream`, if a slot is free.
    ///
    /// # Errors
    /// What the device answers.
    pub fn send(
        &mut self,
        device: &SimDevice,
        ticket: Ticket,
        urgent: bool,
        stream: Stream,
        view: twinlock_api::View,
    ) -> Result<Sent> {
        let now = device.card().clock().now();
        self.recycle(device, now)?;
        let rank = (!urgent, ticket);
        self.forget(ticket);
        let yields = self.waiting.first().is_some_and(|first| *first < rank);
        let slot = if yields { None } else { self.free.pop() };
        let Some(mut slot) = slot else {
            self.waiting.insert(rank);
            let next = self.flying.iter().map(|flying| flying.done).min();
            return Ok(Sent::NotBefore(next.unwrap_or(now)));
        };
        let mem = enter_mem();
        let sent = device.upload(stream, slot.as_mut(), 0, view);
        let event = sent.and_then(|()| device.record(stream));
        drop(mem);
        match event {
            Ok(event) => {
                let done = device.completion_time(&event)?;
                self.flying.push(Flying { done, event, slot });
                Ok(Sent::Yes)
            }
            Err(error) => {
                self.free.push(slot);
                Err(error)
            }
        }
    }

    /// Brings the first bytes of `view` back to the host.
    ///
    /// # Errors
    /// What the device answers.
    pub fn fetch(
        &mut self,
        device: &SimDevice,
        stream: Stream,
        view: twinlock_api::View,
    ) -> Result<()> {
        let Some(readback) = &mut self.readback else { return Ok(()) };
        let len_bytes = view.len_bytes().min(readback.size_bytes());
        device.download(stream, view.slice(0, len_bytes)?, readback.as_mut(), 0)
    }

    /// The size of a slot.
    pub fn slot_bytes(&self) -> u64 {
        let all = self.free.iter().chain(self.flying.iter().map(|flying| &flying.slot));
        all.map(|slot| slot.size_bytes()).next().unwrap_or(1)
    }

    /// Forgets that a partition waits.
    pub fn forget(&mut self, ticket: Ticket) {
        self.waiting.retain(|(_, other)| *other != ticket);
    }

    fn recycle(&mut self, device: &SimDevice, now: Duration) -> Result<()> {
        let mut at = 0;
        while let Some(flying) = self.flying.get(at) {
            if flying.done > now {
                at += 1;
                continue;
            }
            match device.query(&flying.event) {
                // A failure is the stream's own; whoever works on it will see it.
                Err(error @ Error::DeviceLost { .. }) => return Err(error),
                Ok(_) | Err(_) => self.free.push(self.flying.swap_remove(at).slot),
            }
        }
        Ok(())
    }
}
