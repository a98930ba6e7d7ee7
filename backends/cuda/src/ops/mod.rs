//! One file for each family of operations: what an operation is in launches, and what it needs.

pub(crate) mod base_tables;
pub(crate) mod digits;
pub(crate) mod element;
pub(crate) mod fixed_base;
pub(crate) mod msm;
pub(crate) mod ntt;
pub(crate) mod points;

use twinlock_api::{Op, Result};

use crate::launcher::Launcher;
use crate::tables::Table;

/// Every constant table, in the order in which they are filled.
pub(crate) fn tables() -> Vec<Table> {
    ntt::tables()
}

/// Enqueues an operation.
///
/// # Errors
/// `Unsupported`, or what the launcher answers.
pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &Op) -> Result<()> {
    match op {
        Op::Fill(op) => launcher.fill(op.target(), op.word()),
        Op::Copy(op) => launcher.copy(op.source(), op.target()),
        Op::Gather(op) => element::gather(launcher, op),
        Op::Vector(op) => element::vector(launcher, op),
        Op::ToMontgomery(op) => element::to_montgomery(launcher, op),
        Op::FromMontgomery(op) => element::from_montgomery(launcher, op),
        Op::DecodePoints(op) => points::decode(launcher, op),
        Op::FixedBase(op) => fixed_base::enqueue(launcher, op),
        Op::BaseTables(op) => base_tables::enqueue(launcher, op),
        Op::Ntt(op) => ntt::enqueue(launcher, op),
        Op::Digits(op) => digits::enqueue(launcher, op),
        Op::MsmAccumulate(op) => msm::accumulate(launcher, op),
        Op::MsmReduce(op) => msm::reduce(launcher, op),
    }
}
