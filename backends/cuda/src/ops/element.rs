//! Launches of the `element` operations.

use twinlock_api::op::{Convert, Gather, Vector};
use twinlock_api::{Error, Result};

use crate::launcher::Launcher;

fn missing() -> Error {
    Error::Unsupported("element operations on the CUDA backend".to_owned())
}

pub(crate) fn gather(_launcher: &mut Launcher<'_>, _op: &Gather) -> Result<()> {
    Err(missing())
}

pub(crate) fn vector(_launcher: &mut Launcher<'_>, _op: &Vector) -> Result<()> {
    Err(missing())
}

pub(crate) fn to_montgomery(_launcher: &mut Launcher<'_>, _op: &Convert) -> Result<()> {
    Err(missing())
}

pub(crate) fn from_montgomery(_launcher: &mut Launcher<'_>, _op: &Convert) -> Result<()> {
    Err(missing())
}
