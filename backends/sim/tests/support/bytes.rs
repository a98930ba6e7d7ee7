//! Host memory that can be copied and filled, at once: enough arithmetic to see data move.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{
    Device, DeviceInfo, Error, Event, Group, MemoryClass, MemoryInfo, Op, Region, Result, Staging,
    StagingKind, Stream, View,
};

pub struct Bytes {
    info: DeviceInfo,
    regions: Mutex<HashMap<Region, Vec<u8>>>,
}

struct Host(StagingKind, Vec<u8>);

impl Staging for Host {
    fn kind(&self) -> StagingKind {
        self.0
    }

    fn size_bytes(&self) -> u64 {
        self.1.len() as u64
    }

    fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
        Ok(&mut self.1)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Default for Bytes {
    fn default() -> Self {
        let info = DeviceInfo {
            name: "bytes".into(),
            backend: "bytes",
            model: "host memory".into(),
            driver: "none".into(),
            memory_bytes: 1 << 30,
            max_region_bytes: 1 << 30,
            max_lg_domain: 20,
        };
        Self { info, regions: Mutex::default() }
    }
}

impl Bytes {
    /// Bytes in regions that were not freed.
    pub fn live_bytes(&self) -> usize {
        self.regions().values().map(Vec::len).sum()
    }

    fn regions(&self) -> MutexGuard<'_, HashMap<Region, Vec<u8>>> {
        self.regions.lock().unwrap()
    }

    fn read(&self, view: View) -> Vec<u8> {
        self.regions()[&view.region()][range(view)].to_vec()
    }

    fn write(&self, view: View, bytes: &[u8]) {
        let mut regions = self.regions();
        regions.get_mut(&view.region()).unwrap()[range(view)].copy_from_slice(bytes);
    }
}

fn range(view: View) -> std::ops::Range<usize> {
    view.offset_bytes() as usize..view.end_bytes() as usize
}

fn host(staging: &mut dyn Staging) -> &mut Vec<u8> {
    &mut staging.as_any_mut().downcast_mut::<Host>().unwrap().1
}

fn unsupported<T>() -> Result<T> {
    Err(Error::Unsupported("bytes do not compute".into()))
}

impl Device for Bytes {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        unsupported()
    }

    fn allocate(&self, _name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region> {
        let region = Region::fresh(class, size_bytes);
        self.regions().insert(region, vec![0xAA; size_bytes as usize]);
        Ok(region)
    }

    fn free(&self, region: Region) -> Result<()> {
        self.regions().remove(&region).map(drop).ok_or_else(|| Error::invalid("freed twice"))
    }

    fn allocate_staging(
        &self,
        _name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>> {
        Ok(Box::new(Host(kind, vec![0; size_bytes as usize])))
    }

    fn create_stream(&self, _name: &'static str) -> Result<Stream> {
        Ok(Stream::fresh())
    }

    fn destroy_stream(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }

    fn record(&self, _stream: Stream) -> Result<Event> {
        Ok(Event::new(()))
    }

    fn wait(&self, _stream: Stream, _event: &Event) -> Result<()> {
        Ok(())
    }

    fn query(&self, _event: &Event) -> Result<bool> {
        Ok(true)
    }

    fn synchronize(&self, _event: &Event, _timeout: Duration) -> Result<()> {
        Ok(())
    }

    fn upload(
        &self,
        _stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()> {
        let start = source_offset_bytes as usize;
        let bytes = &host(source)[start..start + target.len_bytes() as usize];
        self.write(target, bytes);
        Ok(())
    }

    fn download(
        &self,
        _stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()> {
        let start = target_offset_bytes as usize;
        host(target)[start..start + source.len_bytes() as usize]
            .copy_from_slice(&self.read(source));
        Ok(())
    }

    fn enqueue(&self, _stream: Stream, op: &Op) -> Result<()> {
        match op {
            Op::Fill(op) => {
                let words = op.target().len_bytes() as usize / 4;
                self.write(op.target(), &op.word().to_le_bytes().repeat(words));
            }
            Op::Copy(op) => self.write(op.target(), &self.read(op.source())),
            _ => return unsupported(),
        }
        Ok(())
    }

    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout> {
        Ok(NttLayout { lg_domain, workspace_bytes: 12_345 })
    }

    fn window_bits(&self, _group: Group, _len: u64) -> u32 {
        11
    }

    fn digits_layout(&self, _shape: DigitsShape) -> Result<DigitsLayout> {
        unsupported()
    }

    fn msm_layout(&self, _group: Group, _shape: DigitsShape) -> Result<MsmLayout> {
        unsupported()
    }
}
