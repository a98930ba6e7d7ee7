//! Launches of the `digits` operation, and how a plan is laid out.

use twinlock_api::op::{Digits, DigitsLayout, DigitsShape};
use twinlock_api::{Error, Result};

use crate::card::Card;
use crate::launcher::Launcher;

fn missing() -> Error {
    Error::Unsupported("digits on the CUDA backend".to_owned())
}

pub(crate) fn layout(_card: &Card, _shape: DigitsShape) -> Result<DigitsLayout> {
    Err(missing())
}

pub(crate) fn enqueue(_launcher: &mut Launcher<'_>, _op: &Digits) -> Result<()> {
    Err(missing())
}
