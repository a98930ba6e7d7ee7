//! Dispatches of the `digits` operations.

use twinlock_api::op::{Digits, DigitsLayout, DigitsShape};
use twinlock_api::{Error, Result};

use crate::gpu::Gpu;
use crate::launcher::Launcher;

pub(crate) fn layout(_gpu: &Gpu, _shape: DigitsShape) -> Result<DigitsLayout> {
    Err(Error::Unsupported("digits on the WGSL backend".to_owned()))
}

pub(crate) fn encode(_launcher: &mut Launcher<'_>, _op: &Digits) -> Result<()> {
    Err(Error::Unsupported("digits on the WGSL backend".to_owned()))
}
