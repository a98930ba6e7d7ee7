//! Faults for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use twinlock_api::Result;

use crate::timeline::Timeline;

/// How long a device is waited for to say that it is lost.
const LONGEST_LOSS: Duration = Duration::from_secs(60);

/// Makes an open device fail. For tests.
#[derive(Default)]
pub struct Faults {
    op: AtomicBool,
    memory: AtomicBool,
    no_memory: AtomicBool,
    device: std::sync::OnceLock<(wgpu::Device, Arc<Timeline>)>,
}

impl Faults {
    pub(crate) fn attach(&self, device: &wgpu::Device, timeline: &Arc<Timeline>) {
        // A second device keeps its faults to itself.
        let _ = self.device.set((device.clone(), Arc::clone(timeline)));
    }

    pub(crate) fn take_op(&self) -> bool {
        self.op.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn take_allocation(&self) -> bool {
        self.memory.swap(false, Ordering::SeqCst) || self.no_memory.load(Ordering::SeqCst)
    }
}

impl twinlock_api::Faults for Faults {
    /// It encodes a command that is not valid.
    fn fail_next_op(&self) {
        self.op.store(true, Ordering::SeqCst);
    }

    fn fail_next_allocation(&self) {
        self.memory.store(true, Ordering::SeqCst);
    }

    fn refuse_allocations(&self, refused: bool) {
        self.no_memory.store(refused, Ordering::SeqCst);
    }

    /// Nothing is submitted meanwhile.
    fn hold(&self, held: bool) -> Result<()> {
        if let Some((_, timeline)) = self.device.get() {
            timeline.hold(held);
        }
        Ok(())
    }

    fn lose(&self) {
        if let Some((device, timeline)) = self.device.get() {
            device.destroy();
            // It is told when what was submitted has run.
            let start = Instant::now();
            while timeline.check_alive().is_ok() && start.elapsed() < LONGEST_LOSS {
                // What cannot be polled is lost all the same.
                let _ = device.poll(wgpu::PollType::Poll);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
