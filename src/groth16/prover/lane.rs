//! A proof's two streams on one device.

use std::sync::Arc;
use std::time::Duration;

use twinlock_api::{Device, Error, Event, Op, Result, Stream};

use crate::scheduler::locks::{DeviceWait, outside_mem};

const WAITS: &str = "waiting for a device";

/// One stream for copies and decoding, one for arithmetic. Dropping it waits for both, so that
/// what the work used may be reused.
pub(super) struct Lane {
    pub device: Arc<dyn Device>,
    pub copy: Stream,
    pub compute: Stream,
    pub timeout: Duration,
}

impl Lane {
    pub fn new(device: Arc<dyn Device>, timeout: Duration) -> Result<Self> {
        let copy = device.create_stream("copy")?;
        let compute = match device.create_stream("compute") {
            Ok(stream) => stream,
            Err(error) => {
                device.destroy_stream(copy)?;
                return Err(error);
            }
        };
        Ok(Self { device, copy, compute, timeout })
    }

    /// Enqueues arithmetic.
    pub fn run(&self, op: Op) -> Result<()> {
        self.device.enqueue(self.compute, &op)
    }

    /// Makes later arithmetic wait for the copies so far.
    pub fn compute_after_copy(&self) -> Result<()> {
        self.device.wait(self.compute, &self.device.record(self.copy)?)
    }

    /// Waits on the host for an event.
    pub fn await_event(&self, event: &Event, _wait: &mut DeviceWait<'_>) -> Result<()> {
        outside_mem(WAITS);
        self.device.synchronize(event, self.timeout)
    }

    /// Waits on the host for all arithmetic so far.
    pub fn finish(&self, wait: &mut DeviceWait<'_>) -> Result<()> {
        self.await_event(&self.device.record(self.compute)?, wait)
    }

    /// Waits until neither stream has work in flight, whether it succeeded or not. `false` when
    /// that cannot be known, for a wait ran out of time.
    pub fn settle(&self) -> bool {
        outside_mem(WAITS);
        let mut settled = true;
        for stream in [self.copy, self.compute] {
            let ended = (self.device.record(stream))
                .and_then(|event| self.device.synchronize(&event, self.timeout));
            if let Err(error) = ended {
                settled &= !matches!(error, Error::Timeout { .. });
                tracing::debug!(%error, "a stream did not end cleanly");
            }
        }
        settled
    }

    /// Runs `enqueue` on a stream of its own and waits for it.
    pub fn on_fresh_stream(
        &self,
        enqueue: impl FnOnce(&dyn Device, Stream) -> Result<()>,
    ) -> Result<()> {
        outside_mem(WAITS);
        let stream = self.device.create_stream("wipe")?;
        let done = enqueue(&*self.device, stream)
            .and_then(|()| self.device.record(stream))
            .and_then(|event| self.device.synchronize(&event, self.timeout));
        done.and(self.device.destroy_stream(stream))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.settle();
        for stream in [self.copy, self.compute] {
            if let Err(error) = self.device.destroy_stream(stream) {
                tracing::debug!(%error, "a stream was not destroyed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use twinlock_api::OpenOptions;

    use super::*;
    use crate::registry;
    use crate::scheduler::locks::{LockToken, noticed_under_mem};

    #[test]
    fn waits_under_mem_are_found_out() {
        let device = registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
        let lane = Lane::new(device.clone(), Duration::from_secs(30)).unwrap();
        let event = device.record(lane.compute).unwrap();
        let mut token = LockToken::for_this_thread();
        let mut noticed = |wait: &dyn Fn(&mut DeviceWait<'_>) -> Result<()>| {
            let (waited, noticed) = noticed_under_mem(|| wait(&mut token.device_wait()));
            assert_eq!((waited, noticed), (Ok(()), vec![WAITS.to_owned()]));
        };
        noticed(&|wait| lane.await_event(&event, wait));
        noticed(&|wait| lane.finish(wait));
        noticed(&|_| lane.on_fresh_stream(|_, _| Ok(())));
        assert_eq!(noticed_under_mem(|| lane.settle()), (true, vec![WAITS.to_owned()]));
        assert_eq!(noticed_under_mem(|| drop(lane)).1, [WAITS]);
    }
}
