//! Launches of `decode_points` and `fixed_base`.

use twinlock_api::op::{DecodePoints, FixedBase};
use twinlock_api::{Error, Result};

use crate::launcher::Launcher;

pub(crate) fn decode(_launcher: &mut Launcher<'_>, _op: &DecodePoints) -> Result<()> {
    Err(Error::Unsupported("decode_points on the CUDA backend".to_owned()))
}

pub(crate) fn fixed_base(_launcher: &mut Launcher<'_>, _op: &FixedBase) -> Result<()> {
    Err(Error::Unsupported("fixed_base on the CUDA backend".to_owned()))
}
