//! Staging buffers of a simulated device.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use twinlock_api::{Error, Result, Staging, StagingKind};

use crate::card::{Waited, lost};
use crate::device::{Core, INNER_TIMEOUT};
use crate::order::VectorClock;

/// A buffer. Its memory is touched when the host first looks at it.
pub(crate) struct SimStaging {
    pub(crate) core: Arc<Core>,
    pub(crate) name: &'static str,
    pub(crate) kind: StagingKind,
    pub(crate) size_bytes: u64,
    pub(crate) is_pageable: bool,
    /// When the last copy ends.
    pub(crate) done: Duration,
    /// What a copy failed with since the host last looked.
    pub(crate) failure: Option<Error>,
    /// The copies, and what came before them.
    pub(crate) order: VectorClock,
    pub(crate) inner: Option<Box<dyn Staging>>,
    pub(crate) bytes: Option<Box<[u8]>>,
}

impl SimStaging {
    fn wait(&mut self, timeout: Duration) -> Result<()> {
        let card = &self.core.card;
        let mut state = self.core.enter()?;
        card.check_rule(&mut state, "staging_host", self.name, self.done)?;
        let start = card.clock().now();
        let waited = card.pass_until(&mut state, self.done, start.saturating_add(timeout));
        self.core.add_host_span(&mut state, "staging_host", self.name, self.size_bytes, start);
        match waited {
            Ok(()) => {}
            Err(Waited::Lost) => return Err(lost()),
            Err(Waited::TooLong) => {
                return Err(Error::Timeout {
                    what: format!("copies of {}", self.name),
                    timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                });
            }
        }
        state.context(self.core.context)?.see(&self.order);
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Staging for SimStaging {
    fn kind(&self) -> StagingKind {
        self.kind
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        self.wait(timeout)?;
        if let Some(inner) = &mut self.inner {
            // It may be larger than asked for.
            let bytes = inner.host(INNER_TIMEOUT)?;
            let len = usize::try_from(self.size_bytes).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(&mut bytes[..len]);
        }
        if self.bytes.is_none() {
            let no_room = || Error::OutOfMemory {
                what: format!("host memory of {}", self.name),
                requested_bytes: self.size_bytes,
                free_bytes: None,
            };
            let len = usize::try_from(self.size_bytes).map_err(|_| no_room())?;
            let bytes = bytemuck::allocation::try_zeroed_slice_box(len).map_err(|()| no_room())?;
            self.bytes = Some(bytes);
        }
        Ok(self.bytes.as_deref_mut().unwrap_or_default())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for SimStaging {
    /// Page-locked memory is freed by the driver, so the rule holds for it as well. An unfinished
    /// copy keeps nothing alive here: its bytes moved when it was enqueued.
    fn drop(&mut self) {
        if !self.is_pageable
            && let Ok(mut state) = self.core.card.enter()
        {
            let done = self.done;
            // Dropping cannot be refused; the record is what counts.
            let _ = self.core.card.check_rule(&mut state, "free_staging", self.name, done);
        }
    }
}
