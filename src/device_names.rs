//! The devices that a prover's setting names: one, the best, all, or a list.

use std::sync::Arc;

use twinlock_api::{Device, DeviceInfo, Discovered, OpenOptions};

use crate::groth16::prover::Opener;
use crate::registry::{self, AUTO};
use crate::{Error, Result};

/// The name that stands for every device but software that plays a GPU.
pub const ALL: &str = "all";

/// Opens the devices that `names` stands for, each with what opens it again.
///
/// # Errors
/// As [`registry::open`]; `Invalid` for a list that makes no sense.
pub(crate) fn open(names: &str, options: &OpenOptions) -> Result<Vec<(Arc<dyn Device>, Opener)>> {
    let devices = match names {
        ALL => every_device(options)?,
        _ if names.contains(',') => listed(names, options)?,
        _ => vec![registry::open(names, options)?],
    };
    let with_opener = |device: Arc<dyn Device>| {
        // Not `auto`: what is opened again is what was lost.
        let (name, options) = (device.info().name.clone(), options.clone());
        let opener: Opener = Arc::new(move || registry::open(&name, &options));
        (device, opener)
    };
    Ok(devices.into_iter().map(with_opener).collect())
}

/// What cannot be opened is left out, and said.
fn every_device(options: &OpenOptions) -> Result<Vec<Arc<dyn Device>>> {
    let (mut devices, mut last) = (Vec::new(), None);
    for name in worth_using(registry::discover()) {
        match registry::open(&name, options) {
            Ok(device) => devices.push(device),
            Err(error) => {
                tracing::warn!(device = name, %error, "left out");
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if devices.is_empty() => Err(error),
        _ => Ok(devices),
    }
}

/// Names of the usable devices, without software, and without cards that an earlier backend
/// reaches too: their memory would be counted twice.
fn worth_using(found: Vec<Discovered>) -> Vec<String> {
    let mut taken: Vec<DeviceInfo> = Vec::new();
    for info in found.into_iter().filter_map(|found| found.usable.ok()) {
        let known = |other: &DeviceInfo| other.backend != info.backend && other.model == info.model;
        if !registry::is_software(&info) && !taken.iter().any(known) {
            taken.push(info);
        }
    }
    taken.into_iter().map(|info| info.name).collect()
}

fn listed(names: &str, options: &OpenOptions) -> Result<Vec<Arc<dyn Device>>> {
    let invalid = |problem: String| Error::Invalid { what: format!("devices {names}"), problem };
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for name in names.split(',').map(str::trim) {
        if name.is_empty() {
            return Err(invalid("a name is empty".into()));
        }
        if name == ALL || name == AUTO {
            return Err(invalid(format!("`{name}` stands alone")));
        }
        let device = registry::open(name, options)?;
        let opened = &device.info().name;
        if devices.iter().any(|other| other.info().name == *opened) {
            return Err(invalid(format!("{opened} is named twice")));
        }
        devices.push(device);
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(devices: &[(Arc<dyn Device>, Opener)]) -> Vec<&str> {
        devices.iter().map(|(device, _)| &*device.info().name).collect()
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        let options = OpenOptions::default();
        assert_eq!(names(&open("cpu", &options).unwrap()), ["cpu"]);
        for (list, problem) in [
            ("cpu,", "empty"),
            (",", "empty"),
            ("cpu,all", "`all` stands alone"),
            ("auto,cpu", "`auto` stands alone"),
            ("cpu, cpu", "cpu is named twice"),
            ("cpu,nothing", "nothing"),
        ] {
            let error = open(list, &options).map(drop).unwrap_err().to_string();
            assert!(error.contains(problem), "{list}: {error}");
        }
    }

    #[test]
    fn a_card_is_used_once_and_software_only_by_name() {
        let found = |name: &str, backend, model: &str| Discovered {
            name: name.into(),
            usable: Ok(DeviceInfo {
                name: name.into(),
                backend,
                model: model.into(),
                driver: String::new(),
                memory_bytes: 1 << 30,
                max_region_bytes: 1 << 30,
                max_lg_domain: 20,
            }),
        };
        let unusable = Discovered { name: "cuda:2".into(), usable: Err("too old".into()) };
        let all = vec![
            found("cuda:0", "cuda", "Card A"),
            found("cuda:1", "cuda", "Card A"),
            unusable,
            found("wgsl:0", "wgsl", "Card A"),
            found("wgsl:1", "wgsl", "Card B"),
            #[cfg(feature = "wgsl")]
            found("wgsl:2", "wgsl", "llvmpipe (software)"),
            found("cpu", "cpu", "A CPU"),
        ];
        assert_eq!(worth_using(all), ["cuda:0", "cuda:1", "wgsl:1", "cpu"]);
        let all = open(ALL, &OpenOptions::default()).unwrap();
        assert!(names(&all).contains(&"cpu"));
        assert!(all.iter().all(|(device, _)| !registry::is_software(device.info())));
    }
}
