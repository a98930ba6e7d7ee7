//! Parameters of dispatches: small uniform buffers, one a part, reused when the part has run.

use std::sync::{Mutex, PoisonError};

use crate::timeline::MAX_DISPATCHES;

/// The most bytes of parameters a dispatch has.
pub(crate) const MAX_PARAM_BYTES: u64 = 256;
/// Buffers made at open. More are made only while more parts than this wait to run.
const BUFFERS: usize = 32;

/// The buffers that no part uses.
pub(crate) struct ParamPool {
    free: Mutex<Vec<wgpu::Buffer>>,
    slot_bytes: u64,
}

impl ParamPool {
    pub(crate) fn new(device: &wgpu::Device, limits: &wgpu::Limits) -> Self {
        let align = u64::from(limits.min_uniform_buffer_offset_alignment).max(16);
        let slot_bytes = MAX_PARAM_BYTES.next_multiple_of(align);
        let pool = Self { free: Mutex::default(), slot_bytes };
        let buffers = (0..BUFFERS).map(|_| pool.make(device)).collect();
        pool.give_back(buffers);
        pool
    }

    /// Bytes from one dispatch's parameters to the next one's.
    pub(crate) const fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Bytes of all buffers made at open.
    pub(crate) const fn size_bytes(&self) -> u64 {
        self.slot_bytes * MAX_DISPATCHES as u64 * BUFFERS as u64
    }

    fn make(&self, device: &wgpu::Device) -> wgpu::Buffer {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: self.slot_bytes * u64::from(MAX_DISPATCHES),
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// A buffer for the parameters of [`MAX_DISPATCHES`] dispatches.
    pub(crate) fn take(&self, device: &wgpu::Device) -> wgpu::Buffer {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| self.make(device))
    }

    pub(crate) fn give_back(&self, buffers: Vec<wgpu::Buffer>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(buffers);
    }
}
