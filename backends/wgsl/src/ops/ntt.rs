//! Dispatches of the `ntt` operations.

use twinlock_api::op::{Ntt, NttLayout};
use twinlock_api::{Error, Result};

use crate::gpu::Gpu;
use crate::launcher::Launcher;

/// Sizes for a domain that the device can bind.
pub(crate) fn layout(_gpu: &Gpu, lg_domain: u32) -> Result<NttLayout> {
    Ok(NttLayout { lg_domain, workspace_bytes: 0 })
}

pub(crate) fn encode(_launcher: &mut Launcher<'_>, _op: &Ntt) -> Result<()> {
    Err(Error::Unsupported("ntt on the WGSL backend".to_owned()))
}
