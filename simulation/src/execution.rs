//! One partition's work on a device, step by step: what a worker's thread would do, without the
//! thread.

use std::collections::VecDeque;
use std::time::Duration;

use twinlock::scheduler::admission::Ticket;
use twinlock_api::op::Fill;
use twinlock_api::{Device, Event, Op, Result, View};
use twinlock_sim::SimDevice;

use crate::card::{Opened, Sent, Streams};
use crate::program::StageWork;

/// A step.
#[derive(Debug, Clone)]
enum Step {
    /// Bytes to the device, slot by slot.
    Upload { view: View, sent_bytes: u64 },
    /// Kernels wait, on the device, for the copies so far.
    Join,
    /// Copies wait, on the device, for the kernels so far.
    JoinBack,
    /// A kernel that touches all of these.
    Kernel { time: Duration, touches: Vec<View> },
    /// The host waits until only so many of the kernels enqueued so far are not complete: it does
    /// not send what they still need the room for.
    Settle { but: usize },
    /// Bytes to the host.
    Download(View),
    /// The host waits for all of it.
    Finish,
}

/// How far the work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It can't go on before this time.
    Until(Duration),
    /// The host has seen the end of all of it.
    Done,
}

/// Steps in progress on two streams.
pub struct Execution {
    ticket: Ticket,
    streams: Streams,
    steps: VecDeque<Step>,
    kernels: Vec<Event>,
    last: Option<[Event; 2]>,
}

impl Execution {
    /// Nothing to do yet.
    pub fn new(ticket: Ticket, streams: Streams) -> Self {
        Self { ticket, streams, steps: VecDeque::new(), kernels: Vec::new(), last: None }
    }

    /// The streams it works on.
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds uploads, and the wait for them.
    pub fn add_uploads(&mut self, views: impl IntoIterator<Item = View>) {
        self.steps.extend(views.into_iter().map(|view| Step::Upload { view, sent_bytes: 0 }));
        self.steps.push_back(Step::Finish);
    }

    /// Lets the stages that follow be enqueued while those before still run: their copies wait for
    /// kernels on the device.
    pub fn run_ahead(&mut self) {
        if matches!(self.steps.back(), Some(Step::Finish)) {
            self.steps.pop_back();
        }
        self.steps.push_back(Step::JoinBack);
    }

    /// Adds the work of a stage, and what is sent meanwhile for the next, if that is sent ahead.
    /// `touched` are the buffers that its kernels use, those that pieces are streamed into apart;
    /// `place` tells where a buffer lies.
    ///
    /// # Errors
    /// `InvalidArgument` for pieces larger than their buffers.
    pub fn add_stage(
        &mut self,
        work: &StageWork,
        next: Option<&StageWork>,
        touched: &[View],
        place: impl Fn(usize) -> Option<View>,
    ) -> Result<()> {
        if !work.ahead {
            self.steps.extend(work.uploads.iter().filter_map(|index| place(*index)).map(upload));
        }
        self.steps.push_back(Step::Join);
        let parts = work.pieces.len().max(if work.midway.is_some() { 2 } else { 1 });
        let time = work.kernels / u32::try_from(parts).unwrap_or(u32::MAX);
        let mut meanwhile = slices(&ahead(next, &place)?, parts)?.into_iter();
        let kernel = |touches| Step::Kernel { time, touches };
        if let Some(view) = work.midway.and_then(&place) {
            self.steps.push_back(kernel(touched.to_vec()));
            self.steps.push_back(Step::Settle { but: 0 });
            self.steps.push_back(upload(view));
            self.steps.push_back(Step::Join);
            self.steps.push_back(kernel(touched.to_vec()));
        } else if work.pieces.is_empty() {
            if !work.kernels.is_zero() {
                self.steps.push_back(kernel(touched.to_vec()));
            }
        } else {
            let into: Vec<View> = work.into.iter().filter_map(|index| place(*index)).collect();
            let pieces = work.pieces.iter().zip(into.iter().cycle());
            for (at, (bytes, target)) in pieces.enumerate() {
                let target = target.slice(0, *bytes)?;
                if !work.ahead || at >= into.len() {
                    self.steps.push_back(Step::Settle { but: into.len().saturating_sub(1) });
                    self.steps.push_back(upload(target));
                    self.steps.push_back(Step::Join);
                }
                self.steps.push_back(kernel(touched.iter().copied().chain([target]).collect()));
                self.steps.extend(meanwhile.next().into_iter().flatten().map(upload));
            }
        }
        self.steps.extend(meanwhile.flatten().map(upload));
        self.steps.extend(work.download.and_then(&place).map(Step::Download));
        self.steps.push_back(Step::Finish);
        Ok(())
    }

    /// Does what can be done now. `urgent` work gets staging slots before other work.
    ///
    /// # Errors
    /// What the device answers, or what its work failed with.
    pub fn go_on(&mut self, opened: &mut Opened, urgent: bool) -> Result<Progress> {
        let device = opened.device.clone();
        let slot_bytes = opened.slots.slot_bytes();
        while let Some(step) = self.steps.front_mut() {
            match step {
                Step::Upload { view, sent_bytes } => {
                    while *sent_bytes < view.len_bytes() {
                        let len = slot_bytes.min(view.len_bytes() - *sent_bytes);
                        let part = view.slice(*sent_bytes, len)?;
                        let copy = self.streams.copy;
                        match opened.slots.send(&device, self.ticket, urgent, copy, part)? {
                            Sent::Yes => *sent_bytes += len,
                            Sent::NotBefore(time) => return Ok(Progress::Until(time)),
                        }
                    }
                }
                Step::Join => {
                    let copied = device.record(self.streams.copy)?;
                    device.wait(self.streams.compute, &copied)?;
                }
                Step::JoinBack => {
                    let computed = device.record(self.streams.compute)?;
                    device.wait(self.streams.copy, &computed)?;
                }
                Step::Kernel { time, touches } => {
                    let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
                    for (at, view) in touches.iter().enumerate() {
                        // One kernel that uses all of them, as so many operations.
                        let word = if at == 0 { micros } else { 0 };
                        device.enqueue(self.streams.compute, &Op::Fill(Fill::new(*view, word)))?;
                    }
                    self.kernels.push(device.record(self.streams.compute)?);
                }
                Step::Settle { but } => {
                    let settled = self.kernels.len().checked_sub(*but + 1);
                    if let Some(event) = settled.and_then(|at| self.kernels.get(at))
                        && let Some(time) = due(&device, event)?
                    {
                        return Ok(Progress::Until(time));
                    }
                }
                Step::Download(view) => {
                    opened.slots.fetch(&device, self.streams.compute, *view)?;
                }
                Step::Finish => {
                    if self.last.is_none() {
                        let copied = device.record(self.streams.copy)?;
                        self.last = Some([copied, device.record(self.streams.compute)?]);
                    }
                    for event in self.last.iter().flatten() {
                        if let Some(time) = due(&device, event)? {
                            return Ok(Progress::Until(time));
                        }
                    }
                    self.last = None;
                    self.kernels.clear();
                }
            }
            self.steps.pop_front();
        }
        Ok(Progress::Done)
    }

    /// Drops what was not enqueued yet; answers when what was will have ended, well or not, once
    /// it has, `None`: then the host has seen it.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn give_up(&mut self, opened: &mut Opened) -> Result<Option<Duration>> {
        opened.slots.forget(self.ticket);
        self.steps.clear();
        self.last = None;
        let device = &opened.device;
        for stream in [self.streams.copy, self.streams.compute] {
            let event = device.record(stream)?;
            match due(device, &event) {
                Ok(Some(time)) => return Ok(Some(time)),
                Err(error @ twinlock_api::Error::DeviceLost { .. }) => return Err(error),
                // The failure is known already.
                Ok(None) | Err(_) => {}
            }
        }
        Ok(None)
    }
}

/// When an event is due; `None` when the host has seen it.
///
/// # Errors
/// What the work before it failed with, or `DeviceLost`.
pub fn due(device: &SimDevice, event: &Event) -> Result<Option<Duration>> {
    let time = device.completion_time(event)?;
    if time > device.card().clock().now() {
        return Ok(Some(time));
    }
    device.query(event).map(|_| None)
}

fn upload(view: View) -> Step {
    Step::Upload { view, sent_bytes: 0 }
}

/// What is sent for the next stage during this one.
fn ahead(next: Option<&StageWork>, place: impl Fn(usize) -> Option<View>) -> Result<Vec<View>> {
    let Some(work) = next.filter(|work| work.ahead) else { return Ok(Vec::new()) };
    let mut views: Vec<View> = work.uploads.iter().filter_map(|index| place(*index)).collect();
    for (bytes, index) in work.pieces.iter().zip(&work.into) {
        let target = place(*index).map(|target| target.slice(0, *bytes));
        views.extend(target.transpose()?);
    }
    Ok(views)
}

/// `views` in `count` parts of about equal size.
fn slices(views: &[View], count: usize) -> Result<Vec<Vec<View>>> {
    let total_bytes: u64 = views.iter().map(|view| view.len_bytes()).sum();
    let part_bytes = total_bytes.div_ceil(count.max(1) as u64).next_multiple_of(4).max(4);
    let mut parts: Vec<Vec<View>> = Vec::new();
    let mut room_bytes = 0;
    for view in views {
        let mut start = 0;
        while start < view.len_bytes() {
            if room_bytes == 0 {
                parts.push(Vec::new());
                room_bytes = part_bytes;
            }
            let len = room_bytes.min(view.len_bytes() - start);
            if let Some(part) = parts.last_mut() {
                part.push(view.slice(start, len)?);
            }
            start += len;
            room_bytes -= len;
        }
    }
    Ok(parts)
}
