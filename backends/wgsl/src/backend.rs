//! Finds and opens devices.

use std::sync::Arc;

use twinlock_api::{Backend, Device, Discovered, Error, FaultyBackend, OpenOptions, Result};
use twinlock_shaders::Arithmetic;

use crate::adapters::{self, NAME};
use crate::device::WgslDevice;
use crate::faults::Faults;
use crate::open;
use crate::settings::Settings;
use crate::steps::Steps;

/// The WGSL backend. Its devices are `wgsl:0`, `wgsl:1`, ..., GPUs before software.
#[derive(Debug, Clone, Copy, Default)]
pub struct WgslBackend {
    arithmetic: Option<Arithmetic>,
    memory_bytes: Option<u64>,
    buffer_bytes: Option<u64>,
    binding_bytes: Option<u64>,
    steps: Option<Steps>,
    portable: bool,
    profile: bool,
}

impl WgslBackend {
    /// The same with this arithmetic, whatever the environment says.
    #[must_use]
    pub const fn with_arithmetic(self, arithmetic: Arithmetic) -> Self {
        Self { arithmetic: Some(arithmetic), ..self }
    }

    /// The same with devices of which at most this much is used, in bytes: for regions, and for what
    /// opening takes where that can be measured.
    #[must_use]
    pub const fn with_memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes: Some(memory_bytes), ..self }
    }

    /// The same with devices whose buffers hold at most `buffer_bytes` bytes, of which at most
    /// `binding_bytes` can be bound at once, both multiples of 256: what lies beyond is chunked.
    #[must_use]
    pub const fn with_chunks(self, buffer_bytes: u64, binding_bytes: u64) -> Self {
        Self { buffer_bytes: Some(buffer_bytes), binding_bytes: Some(binding_bytes), ..self }
    }

    /// The same with dispatches that do at most this much, and at most what they do by default.
    #[must_use]
    pub const fn with_steps(self, steps: Steps) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// The same without what only some APIs have: immediates (push constants) and staging buffers
    /// that wgpu did not make.
    #[must_use]
    pub const fn portable(self) -> Self {
        Self { portable: true, ..self }
    }

    /// The same with kernels timed, as `TWINLOCK_WGSL_PROFILE=1` has it.
    #[must_use]
    pub const fn profiled(self) -> Self {
        Self { profile: true, ..self }
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Settings::from_env()?;
        Ok(Settings {
            arithmetic: self.arithmetic.or(settings.arithmetic),
            memory_bytes: self.memory_bytes.or(settings.memory_bytes),
            buffer_bytes: self.buffer_bytes,
            binding_bytes: self.binding_bytes,
            steps: self.steps.map_or(settings.steps, Steps::sound),
            profile: self.profile || settings.profile,
            portable: self.portable,
            ..settings
        })
    }

    fn open_device(&self, name: &str, faults: Arc<Faults>) -> Result<Arc<dyn Device>> {
        let settings = self.settings()?;
        let found = adapters::find(&settings);
        if found.is_empty() {
            return Err(Error::Unsupported(adapters::nothing_found()));
        }
        let names: Vec<_> = found.iter().map(|found| found.discovered.name.clone()).collect();
        let chosen = found.into_iter().find(|found| found.discovered.name == name);
        let chosen = chosen.ok_or_else(|| {
            Error::invalid(format!("no device {name}; the backend has {}", names.join(", ")))
        })?;
        let gpu = open::open(chosen, &settings, faults)?;
        Ok(Arc::new(WgslDevice::new(gpu, settings.memory_bytes)?))
    }
}

impl Backend for WgslBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        let unusable = |reason| vec![Discovered { name: NAME.to_owned(), usable: Err(reason) }];
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(error) => return unusable(error.to_string()),
        };
        let found = adapters::find(&settings);
        if found.is_empty() {
            return unusable(adapters::nothing_found());
        }
        found.into_iter().map(|found| found.discovered).collect()
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        self.open_device(name, Arc::default())
    }
}

impl FaultyBackend for WgslBackend {
    fn open_faulty(&self, name: &str) -> Result<(Arc<dyn Device>, Arc<dyn twinlock_api::Faults>)> {
        let faults = Arc::new(Faults::default());
        Ok((self.open_device(name, Arc::clone(&faults))?, faults))
    }
}
