//! Finds devices. The only file that opens concrete backends.

use std::sync::Arc;

use twinlock_api::{Backend, Device, DeviceInfo, Discovered, OpenOptions};

use crate::{Error, Result};

/// The name that stands for the best device found.
pub const AUTO: &str = "auto";

const NOT_IN_BUILD: &str = "not part of this build";

/// Every backend of this build, the preferred first. The CPU is last, and always there.
pub fn backends() -> Vec<Box<dyn Backend>> {
    vec![
        #[cfg(feature = "cuda")]
        Box::new(twinlock_cuda::CudaBackend::default()),
        #[cfg(feature = "wgsl")]
        Box::new(twinlock_wgsl::WgslBackend::default()),
        Box::new(twinlock_cpu::CpuBackend),
    ]
}

/// Whether a device that looks like a GPU is a program on the CPU, slower than the `cpu` device:
/// good for tests, and never the best.
pub fn is_software(info: &DeviceInfo) -> bool {
    #[cfg(feature = "wgsl")]
    if twinlock_wgsl::is_software(info) {
        return true;
    }
    let _ = info;
    false
}

/// Backends that this build could have and has not.
const NOT_BUILT: [&str; 2] = ["cuda", "wgsl"];

/// The backends that are not part of this build, each as a device that says so.
pub fn not_built() -> Vec<Discovered> {
    let built = backends();
    NOT_BUILT
        .into_iter()
        .filter(|name| built.iter().all(|backend| backend.name() != *name))
        .map(|name| Discovered { name: name.into(), usable: Err(NOT_IN_BUILD.into()) })
        .collect()
}

/// Every device that the backends of this build looked for, usable or not, with the reason.
pub fn discover() -> Vec<Discovered> {
    backends().iter().flat_map(|backend| backend.discover()).collect()
}

/// Opens a device by name: `wgsl:1`, or `wgsl` for the backend's first. [`AUTO`] takes the best
/// that opens; a name never falls back.
///
/// # Errors
/// `Unknown` for a name that no backend has; `Device` with the reason for one that cannot be used;
/// `Invalid` for one of a backend that is not part of this build.
pub fn open(name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    if name == AUTO {
        return open_best(options);
    }
    // `cuda:0` and `cuda` alike.
    let backend = name.split_once(':').map_or(name, |(backend, _)| backend);
    // Looking for devices takes time, so only where this one can be.
    for candidate in backends().into_iter().filter(|candidate| candidate.name() == backend) {
        let found = candidate.discover();
        // A backend's name alone stands for its first device, also if that says why there is none.
        let named = |found: &&Discovered| found.name == name || found.name == backend;
        let first = |found: &&Discovered| name == backend && found.usable.is_ok();
        let any = |_: &&Discovered| name == backend;
        let chosen =
            found.iter().find(named).or(found.iter().find(first)).or(found.iter().find(any));
        if let Some(Discovered { name, .. }) = chosen {
            let opened = candidate.open(name, options);
            return opened.map_err(|source| Error::Device { device: name.clone(), source });
        }
    }
    if let Some(missing) = not_built().into_iter().find(|missing| missing.name == backend) {
        return Err(Error::Invalid {
            what: format!("device {name}"),
            problem: format!("{} is {NOT_IN_BUILD}; there are: {}", missing.name, known_names()),
        });
    }
    Err(unknown(name))
}

/// The first device that opens; software after the CPU.
fn open_best(options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let backends = backends();
    let mut found: Vec<_> = backends
        .iter()
        .flat_map(|backend| backend.discover().into_iter().map(move |found| (backend, found)))
        .collect();
    found.sort_by_key(|(_, found)| found.usable.as_ref().is_ok_and(is_software));
    let mut last = None;
    for (backend, Discovered { name, .. }) in found {
        match backend.open(&name, options) {
            Ok(device) => return Ok(device),
            Err(source) => {
                tracing::debug!(device = name, error = %source, "not used");
                last = Some(Error::Device { device: name, source });
            }
        }
    }
    Err(last.unwrap_or_else(|| unknown(AUTO)))
}

fn unknown(name: &str) -> Error {
    Error::Unknown { kind: "device", name: name.into(), known: known_names() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_says_so_and_auto_does_without() {
        let missing = not_built();
        for name in NOT_BUILT {
            let built = backends().iter().any(|backend| backend.name() == name);
            assert_eq!(built, missing.iter().all(|found| found.name != name), "{name}");
        }
        for found in &missing {
            assert!(discover().iter().all(|other| other.name != found.name));
            for name in [found.name.clone(), format!("{}:0", found.name)] {
                let error = open(&name, &OpenOptions::default()).map(drop).unwrap_err().to_string();
                assert!(error.contains(&name) && error.contains(NOT_IN_BUILD), "{error}");
            }
        }
        let best = open(AUTO, &OpenOptions::default()).unwrap();
        assert!(!is_software(best.info()), "{:?}", best.info());
        let unknown = open("cudax:0", &OpenOptions::default()).map(drop).unwrap_err();
        assert!(matches!(unknown, Error::Unknown { .. }), "{unknown}");
    }
}
