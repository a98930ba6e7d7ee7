//! Dispatches of the `msm` operations.

use twinlock_api::op::{DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
use twinlock_api::{Error, Group, Result};

use crate::gpu::Gpu;
use crate::launcher::Launcher;

pub(crate) fn window_bits(_gpu: &Gpu, _group: Group, _len: u64) -> u32 {
    8
}

pub(crate) fn layout(_gpu: &Gpu, _group: Group, _shape: DigitsShape) -> Result<MsmLayout> {
    Err(Error::Unsupported("an MSM on the WGSL backend".to_owned()))
}

pub(crate) fn accumulate(_launcher: &mut Launcher<'_>, _op: &MsmAccumulate) -> Result<()> {
    Err(Error::Unsupported("msm_accumulate on the WGSL backend".to_owned()))
}

pub(crate) fn reduce(_launcher: &mut Launcher<'_>, _op: &MsmReduce) -> Result<()> {
    Err(Error::Unsupported("msm_reduce on the WGSL backend".to_owned()))
}
