//! A device that does some operations wrongly.

use std::sync::Arc;
use std::time::Duration;

use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Event, Group, MemoryClass, MemoryInfo, Op, Region, Result, Staging,
    StagingKind, Stream, View,
};

/// What is done instead of an operation.
pub type Rewrite = fn(&dyn Device, &Op) -> Result<Vec<Op>>;

/// A device with one fault.
pub struct Mutant {
    pub inner: Arc<dyn Device>,
    pub rewrite: Rewrite,
    /// Bytes reported beyond those of the regions.
    pub hidden_bytes: u64,
    /// Whether uploads ignore their staging offset.
    pub ignore_offset: bool,
}

impl Device for Mutant {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let memory = self.inner.memory()?;
        Ok(MemoryInfo { regions_bytes: memory.regions_bytes + self.hidden_bytes, ..memory })
    }

    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        self.inner.allocate(name, class, size_bytes)
    }

    fn free(&self, region: Region) -> Result<()> {
        self.inner.free(region)
    }

    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        self.inner.allocate_staging(name, kind, size_bytes)
    }

    fn create_stream(&self, name: &'static str) -> Result<Stream> {
        self.inner.create_stream(name)
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        self.inner.destroy_stream(stream)
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        self.inner.record(stream)
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.inner.wait(stream, event)
    }

    fn query(&self, event: &Event) -> Result<bool> {
        self.inner.query(event)
    }

    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()> {
        self.inner.synchronize(event, timeout)
    }

    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        let offset = if self.ignore_offset { 0 } else { source_offset_bytes };
        self.inner.upload(stream, source, offset, target)
    }

    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        self.inner.download(stream, source, target, target_offset_bytes)
    }

    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()> {
        for op in (self.rewrite)(&*self.inner, op)? {
            self.inner.enqueue(stream, &op)?;
        }
        Ok(())
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        self.inner.ntt_layout(lg_domain)
    }

    fn window_bits(&self, group: Group, len: u64) -> u32 {
        self.inner.window_bits(group, len)
    }

    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout> {
        self.inner.digits_layout(shape)
    }

    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
        self.inner.msm_layout(group, shape)
    }
}
