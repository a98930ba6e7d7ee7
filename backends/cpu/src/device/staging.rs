//! Staging buffers: plain host memory.

use super::memory::Memory;
use super::stream::EventState;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};
use twinlock_api::{Error, Result, Staging, StagingKind};

pub(super) struct CpuStaging {
    name: &'static str,
    kind: StagingKind,
    size_bytes: u64,
    pub(super) memory: Arc<Memory>,
    /// Events behind the copies that may still use the memory.
    pub(super) pending: Vec<Arc<EventState>>,
}

impl CpuStaging {
    pub(super) fn new(
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
        memory: Arc<Memory>,
    ) -> Self {
        Self { name, kind, size_bytes, memory, pending: Vec::new() }
    }

    /// Forgets copies that have run; failures are kept for `host` to tell.
    pub(super) fn forget_done(&mut self) {
        self.pending.retain(|event| event.query() != Ok(true));
    }
}

impl Staging for CpuStaging {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        let start = Instant::now();
        let mut outcome = Ok(());
        while let Some(event) = self.pending.last() {
            let waited = event.wait(self.name, timeout.saturating_sub(start.elapsed()));
            if let Err(Error::Timeout { what, .. }) = waited {
                let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::Timeout { what, timeout_ms });
            }
            // The earliest failure is the cause of the others.
            outcome = waited.and(outcome);
            self.pending.pop();
        }
        outcome?;
        let name = self.name;
        // Copies drop their claims before their events complete.
        Memory::get_mut(&mut self.memory).ok_or_else(|| Error::DeviceLost {
            reason: format!("staging buffer {name} is still held by a copy"),
        })
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
