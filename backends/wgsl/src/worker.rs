//! The thread of a device that submits and waits, so that no enqueueing call ever does.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use twinlock_api::{Error, Result};

use crate::gpu::{Gpu, Scopes};
use crate::profile::PartProfile;
use crate::timeline::{MAX_IN_FLIGHT, Next, Part};

/// How long one look at the device takes while more could be submitted, or others look too.
const SHORT: Duration = Duration::from_millis(1);
/// The same while nothing could be submitted.
const LONG: Duration = Duration::from_millis(3);

/// Work that the driver has.
struct Submission {
    index: wgpu::SubmissionIndex,
    /// The ticket of its last part.
    ticket: u64,
    profiles: Vec<PartProfile>,
}

/// Starts the thread.
pub(crate) fn start(gpu: &Arc<Gpu>) -> Result<JoinHandle<()>> {
    let gpu = Arc::clone(gpu);
    std::thread::Builder::new()
        .name(gpu.info.name.clone())
        .spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&gpu)));
            if outcome.is_err() {
                gpu.timeline.lose("the thread that submits has panicked");
            }
        })
        .map_err(|error| Error::Unsupported(format!("no thread to submit with: {error}")))
}

fn run(gpu: &Gpu) {
    let mut in_flight: VecDeque<Submission> = VecDeque::new();
    loop {
        match gpu.timeline.next(in_flight.len()) {
            Next::Stop => return,
            Next::Discard(parts) => drop(parts),
            Next::Submit(parts, ticket) => match submit(gpu, parts, ticket) {
                Ok(submission) => in_flight.push_back(submission),
                Err(reason) => gpu.timeline.lose(&reason),
            },
            Next::Poll => {
                let slice = if in_flight.len() < MAX_IN_FLIGHT { SHORT } else { LONG };
                let Some(oldest) = in_flight.front() else { continue };
                let poll = wgpu::PollType::Wait {
                    submission_index: Some(oldest.index.clone()),
                    timeout: Some(slice),
                };
                match gpu.poll(poll) {
                    Ok(true) => {
                        if let Some(done) = in_flight.pop_front() {
                            if let Some(profile) = &gpu.profile {
                                done.profiles.iter().for_each(|part| profile.collect(gpu, part));
                            }
                            gpu.timeline.complete(done.ticket);
                        }
                    }
                    Ok(false) => {}
                    Err(_) => in_flight.clear(),
                }
            }
        }
        if gpu.timeline.check_alive().is_err() {
            in_flight.clear();
        }
    }
}

/// Hands parts to the driver, or says why the device is lost.
fn submit(gpu: &Gpu, parts: Vec<Part>, ticket: u64) -> Result<Submission, String> {
    let scopes = Scopes::push(&gpu.device);
    let mut profiles = Vec::new();
    let mut commands = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(params) = part.params {
            gpu.queue.write_buffer(&params.buffer, 0, &params.bytes);
        }
        commands.push(part.commands);
        profiles.extend(part.profile);
    }
    let index = gpu.queue.submit(commands);
    match scopes.pop() {
        // What was encoded has been validated; a driver that refuses it now has no more memory
        // for its own needs or worse, and which parts ran is unknown.
        Some(error) => Err(format!("a submission failed: {}", crate::gpu::words(&error))),
        None => Ok(Submission { index, ticket, profiles }),
    }
}
