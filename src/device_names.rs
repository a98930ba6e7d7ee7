//! The devices that a prover's setting names: one, the best, all, or a list.

use std::sync::Arc;

use twinlock_api::{Device, DeviceInfo, OpenOptions};

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
    let (mut devices, mut last) = (Vec::<Arc<dyn Device>>::new(), None);
    for info in registry::discover().into_iter().filter_map(|found| found.usable.ok()) {
        if !is_worth_using(&info, devices.iter().map(|device| device.info())) {
            continue;
        }
        let name = &info.name;
        match registry::open(name, options) {
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

/// Whether a device is neither software nor a card that another backend has `opened`: its memory
/// would be counted twice.
fn is_worth_using<'d>(info: &DeviceInfo, mut opened: impl Iterator<Item = &'d DeviceInfo>) -> bool {
    let known = |other: &DeviceInfo| other.backend != info.backend && other.model == info.model;
    !registry::is_software(info) && !opened.any(known)
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
    use twinlock_api::Discovered;

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
        let usable: Vec<_> = all.into_iter().filter_map(|found| found.usable.ok()).collect();
        let mut opened: Vec<&DeviceInfo> = Vec::new();
        for info in &usable {
            if is_worth_using(info, opened.iter().copied()) {
                opened.push(info);
            }
        }
        let opened: Vec<_> = opened.iter().map(|info| &*info.name).collect();
        assert_eq!(opened, ["cuda:0", "cuda:1", "wgsl:1", "cpu"]);
        // A card that one backend cannot open is left to the other.
        assert!(is_worth_using(&usable[2], std::iter::empty()));
        let all = open(ALL, &OpenOptions::default()).unwrap();
        assert!(names(&all).contains(&"cpu"));
        assert!(all.iter().all(|(device, _)| !registry::is_software(device.info())));
    }
}
