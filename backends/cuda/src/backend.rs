//! Finds and opens devices.

use std::sync::Arc;

use twinlock_api::{Backend, Device, Discovered, Error, FaultyBackend, OpenOptions, Result};

use crate::device::CudaDevice;
use crate::discover::{self, NAME};
use crate::faults::Faults;
use crate::open;
use crate::settings::Settings;

/// The CUDA backend. Its devices are `cuda:0`, `cuda:1`, ... in the driver's order.
#[derive(Debug, Clone, Copy, Default)]
pub struct CudaBackend {
    memory_bytes: Option<u64>,
}

impl CudaBackend {
    /// The same with devices that hold at most this much in regions, in bytes.
    #[must_use]
    pub const fn with_memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes: Some(memory_bytes) }
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Settings::from_env()?;
        Ok(Settings { memory_bytes: self.memory_bytes.or(settings.memory_bytes), ..settings })
    }

    /// Opens a device that can be made to fail.
    ///
    /// # Errors
    /// As [`Backend::open`].
    #[doc(hidden)]
    pub fn open_with_faults(&self, name: &str) -> Result<(Arc<dyn Device>, Arc<Faults>)> {
        let faults = Arc::new(Faults::default());
        let device = self.open_device(name, Arc::clone(&faults))?;
        Ok((device, faults))
    }

    fn open_device(&self, name: &str, faults: Arc<Faults>) -> Result<Arc<dyn Device>> {
        let settings = self.settings()?;
        let found = discover::find(&settings).map_err(Error::Unsupported)?;
        let names: Vec<_> = found.iter().map(|found| found.discovered.name.clone()).collect();
        let chosen = found.into_iter().find(|found| found.discovered.name == name);
        let chosen = chosen.ok_or_else(|| {
            Error::invalid(format!("no device {name}; the backend has {}", names.join(", ")))
        })?;
        let gpu = open::open(chosen, &settings, faults)?;
        Ok(Arc::new(CudaDevice::new(gpu)))
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        let unusable = |reason| vec![Discovered { name: NAME.to_owned(), usable: Err(reason) }];
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(error) => return unusable(error.to_string()),
        };
        match discover::find(&settings) {
            Ok(found) => found.into_iter().map(|found| found.discovered).collect(),
            Err(reason) => unusable(reason),
        }
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        self.open_device(name, Arc::default())
    }
}

impl FaultyBackend for CudaBackend {
    fn open_faulty(&self, name: &str) -> Result<(Arc<dyn Device>, Arc<dyn twinlock_api::Faults>)> {
        let (device, faults) = self.open_with_faults(name)?;
        Ok((device, faults))
    }
}
