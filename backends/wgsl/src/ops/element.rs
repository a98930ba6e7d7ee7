//! Dispatches of the `element` operations.

use twinlock_api::op::{Convert, Gather, Vector};
use twinlock_api::{Error, Result};

use crate::launcher::Launcher;

fn unsupported(op: &str) -> Result<()> {
    Err(Error::Unsupported(format!("{op} on the WGSL backend")))
}

pub(crate) fn gather(_launcher: &mut Launcher<'_>, _op: &Gather) -> Result<()> {
    unsupported("gather")
}

pub(crate) fn vector(_launcher: &mut Launcher<'_>, _op: &Vector) -> Result<()> {
    unsupported("vector")
}

pub(crate) fn to_montgomery(_launcher: &mut Launcher<'_>, _op: &Convert) -> Result<()> {
    unsupported("to_montgomery")
}

pub(crate) fn from_montgomery(_launcher: &mut Launcher<'_>, _op: &Convert) -> Result<()> {
    unsupported("from_montgomery")
}
