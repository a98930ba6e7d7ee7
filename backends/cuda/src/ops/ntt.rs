//! Launches of the `ntt` operations.

use twinlock_api::op::{Ntt, NttLayout};
use twinlock_api::{Error, Result};

use crate::card::Card;
use crate::launcher::Launcher;
use crate::tables::Table;

/// The largest domain that the kernels transform, as its base-2 logarithm.
pub(crate) const MAX_LG: u32 = 28;

fn missing() -> Error {
    Error::Unsupported("ntt on the CUDA backend".to_owned())
}

pub(crate) fn tables(_card: &Card) -> Vec<Table> {
    Vec::new()
}

pub(crate) fn layout(_card: &Card, _lg_domain: u32) -> Result<NttLayout> {
    Err(missing())
}

pub(crate) fn enqueue(_launcher: &mut Launcher<'_>, _op: &Ntt) -> Result<()> {
    Err(missing())
}
