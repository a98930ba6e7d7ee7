//! Launches of `decode_points`.

use twinlock_api::op::DecodePoints;
use twinlock_api::{Error, Result};

use crate::launcher::Launcher;

pub(crate) fn decode(_launcher: &mut Launcher<'_>, _op: &DecodePoints) -> Result<()> {
    Err(Error::Unsupported("decode_points on the CUDA backend".to_owned()))
}
