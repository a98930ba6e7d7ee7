//! Finds devices. The only file that names concrete backends.

use std::sync::Arc;

use twinlock_api::{Backend, Device, Discovered, OpenOptions};

use crate::{Error, Result};

/// The name that stands for the best device found.
pub const AUTO: &str = "auto";

/// Every backend of this build, the preferred first. The CPU is last, and always there.
pub fn backends() -> Vec<Box<dyn Backend>> {
    vec![Box::new(twinlock_cpu::CpuBackend)]
}

/// Every device that was looked for, usable or not, with the reason.
pub fn discover() -> Vec<Discovered> {
    backends().iter().flat_map(|backend| backend.discover()).collect()
}

/// Opens a device by name. [`AUTO`] takes the first that opens; a name never falls back.
///
/// # Errors
/// `Unknown` for a name that no backend has; `Device` with the reason for one that cannot be used.
pub fn open(name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let mut last = None;
    for backend in backends() {
        for found in backend.discover() {
            if name != AUTO && name != found.name {
                continue;
            }
            match backend.open(&found.name, options) {
                Ok(device) => return Ok(device),
                Err(source) if name == AUTO => {
                    tracing::debug!(device = found.name, error = %source, "not used");
                    last = Some(Error::Device { device: found.name, source });
                }
                Err(source) => return Err(Error::Device { device: found.name, source }),
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::Unknown {
        kind: "device",
        name: name.into(),
        known: known_names(),
    }))
}

/// A card of `memory_bytes` bytes that computes nothing: it knows sizes, for plans.
///
/// # Errors
/// `Device` when its memory does not hold a driver's context.
#[cfg(feature = "cli")]
pub fn imagined_card(memory_bytes: u64) -> Result<Arc<dyn Device>> {
    use twinlock_sim::{Clock, SimCard, SimConfig};
    let name = "card";
    let card = SimCard::new(SimConfig::new(name, memory_bytes), Clock::new());
    match card.open() {
        Ok(device) => Ok(device),
        Err(source) => Err(Error::Device { device: name.into(), source }),
    }
}

fn known_names() -> String {
    let mut names = vec![AUTO.to_owned()];
    names.extend(discover().into_iter().map(|found| found.name));
    names.join(", ")
}
