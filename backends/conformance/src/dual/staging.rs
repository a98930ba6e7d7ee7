//! A staging buffer in two copies.

use std::any::Any;
use std::time::Duration;

use twinlock_api::{Error, Result, Staging, StagingKind};

/// The caller sees the subject's buffer; the oracle's follows it.
pub(super) struct DualStaging {
    pub(super) oracle: Box<dyn Staging>,
    pub(super) subject: Box<dyn Staging>,
    /// Whether the caller may have written since the oracle's buffer last followed.
    pub(super) touched: bool,
    pub(super) size_bytes: u64,
}

impl DualStaging {
    /// Makes the oracle's buffer hold what the subject's does.
    pub(super) fn follow(&mut self, timeout: Duration) -> Result<()> {
        if self.touched {
            let source = self.subject.host(timeout)?;
            let target = self.oracle.host(timeout)?;
            let len = source.len().min(target.len());
            target[..len].copy_from_slice(&source[..len]);
            self.touched = false;
        }
        Ok(())
    }
}

impl Staging for DualStaging {
    fn kind(&self) -> StagingKind {
        self.subject.kind()
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]> {
        self.oracle.host(timeout)?;
        self.touched = true;
        let host = self.subject.host(timeout)?;
        host.get_mut(..self.size_bytes as usize)
            .ok_or_else(|| Error::invalid("a staging buffer smaller than asked for"))
    }

    fn wipe_copied(&mut self) -> Result<()> {
        let oracle = self.oracle.wipe_copied();
        oracle.and(self.subject.wipe_copied())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
