//! Whether a measurement fits the host and the device, asked before any of it is made.

use twinlock_api::Device;

use crate::host_memory::{require, within};
use crate::{Error, Result};

/// The backend whose device memory is the host's.
const HOST_BACKEND: &str = "cpu";

/// Bytes that a measurement takes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub host_bytes: u64,
    pub device_bytes: u64,
}

impl Room {
    /// Refuses a measurement of size `lg` that `device` or the host has no room for.
    ///
    /// # Errors
    /// [`Error::Limit`] with the bytes needed and available; `Device` if the device does not tell.
    pub fn require(self, lg: u32, device: &dyn Device) -> Result<()> {
        let info = device.info();
        let named = |source| Error::Device { device: info.name.clone(), source };
        let free_bytes = device.memory().map_err(named)?.free_bytes;
        let Self { host_bytes, device_bytes } = self;
        within(format!("bytes on {} for lg {lg}", info.name), device_bytes, free_bytes)?;
        let shared_bytes = if info.backend == HOST_BACKEND { device_bytes } else { 0 };
        require(format!("host bytes for lg {lg}"), host_bytes.saturating_add(shared_bytes))
    }
}
