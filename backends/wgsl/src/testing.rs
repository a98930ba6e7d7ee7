//! What unit tests on a device share.

use std::sync::Arc;

use twinlock_api::{Device, Faults, FaultyBackend, StagingKind};
use twinlock_conformance::harness::{Settings, first_device};

use crate::WgslBackend;
use crate::gpu::Gpu;
use crate::staging::WgslStaging;

/// An open device, from outside and from inside.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) faults: Arc<dyn Faults>,
    pub(crate) gpu: Arc<Gpu>,
}

/// The first device; `None` where there is none and none is required.
pub(crate) fn open(backend: WgslBackend) -> Option<Opened> {
    let name = match first_device(&backend) {
        Ok(name) => name,
        Err(reason) => {
            let required = Settings::from_env().expect("settings").require;
            assert!(required.iter().all(|name| !name.starts_with("wgsl")), "{reason}");
            eprintln!("not tested: {reason}");
            return None;
        }
    };
    let (device, faults) = backend.open_faulty(&name).expect("it opens");
    let mut staging = device.allocate_staging("any", StagingKind::Download, 8).expect("staging");
    let staging = staging.as_any_mut().downcast_mut::<WgslStaging>().expect("ours");
    let gpu = Arc::clone(staging.gpu());
    Some(Opened { device, faults, gpu })
}
