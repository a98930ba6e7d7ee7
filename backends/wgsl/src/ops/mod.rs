//! One file for each family of operations: what an operation is in dispatches, and what it needs.

pub(crate) mod digits;
pub(crate) mod element;
pub(crate) mod msm;
pub(crate) mod ntt;
pub(crate) mod points;

use twinlock_api::{Error, Op, Result};

use crate::launcher::Launcher;

/// Encodes an operation.
///
/// # Errors
/// `Unsupported`, or what the launcher answers.
pub(crate) fn encode(launcher: &mut Launcher<'_>, op: &Op) -> Result<()> {
    match op {
        Op::Fill(op) => {
            let target = launcher.view(op.target())?;
            launcher.fill(&target, op.word())
        }
        Op::Copy(op) => {
            let (source, target) = (launcher.view(op.source())?, launcher.view(op.target())?);
            launcher.copy(&source, &target)
        }
        Op::Gather(op) => element::gather(launcher, op),
        Op::Vector(op) => element::vector(launcher, op),
        Op::ToMontgomery(op) => element::to_montgomery(launcher, op),
        Op::FromMontgomery(op) => element::from_montgomery(launcher, op),
        Op::DecodePoints(op) => points::decode(launcher, op),
        Op::BaseTables(_) => Err(Error::Unsupported("base_tables on the WGSL backend".into())),
        Op::FixedBase(_) => Err(Error::Unsupported("fixed_base on the WGSL backend".into())),
        Op::Ntt(op) => ntt::encode(launcher, op),
        Op::Digits(op) => digits::encode(launcher, op),
        Op::MsmAccumulate(op) => msm::accumulate(launcher, op),
        Op::MsmReduce(op) => msm::reduce(launcher, op),
    }
}
