//! Launches of `msm_accumulate` and `msm_reduce`.

use twinlock_api::op::{DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
use twinlock_api::{Error, Group, Result};

use crate::card::Card;
use crate::launcher::Launcher;
use crate::tables::Table;

fn missing() -> Error {
    Error::Unsupported("msm on the CUDA backend".to_owned())
}

pub(crate) fn tables(_card: &Card) -> Vec<Table> {
    Vec::new()
}

pub(crate) fn window_bits(_card: &Card, _group: Group, _len: u64) -> u32 {
    16
}

pub(crate) fn layout(_card: &Card, _group: Group, _shape: DigitsShape) -> Result<MsmLayout> {
    Err(missing())
}

pub(crate) fn accumulate(_launcher: &mut Launcher<'_>, _op: &MsmAccumulate) -> Result<()> {
    Err(missing())
}

pub(crate) fn reduce(_launcher: &mut Launcher<'_>, _op: &MsmReduce) -> Result<()> {
    Err(missing())
}
