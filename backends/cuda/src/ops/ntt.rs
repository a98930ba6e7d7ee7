//! Launches of the `ntt` operations.

use twinlock_api::op::{Direction, Ntt, NttLayout, Order};
use twinlock_api::{Error, Result};
use twinlock_cuda_kernels::ntt::{self, Launch, Transform};

use crate::card::Card;
use crate::launcher::{Arg, Launcher};
use crate::tables::Table;

/// The largest domain that the kernels transform, as its base-2 logarithm.
pub(crate) const MAX_LG: u32 = ntt::MAX_LG;

/// The name of the table of roots.
const ROOTS: &str = "ntt_roots";

fn too_large(lg_domain: u32) -> Error {
    Error::ExceedsLimit {
        what: "lg_domain of an NTT".to_owned(),
        requested: lg_domain.into(),
        limit: MAX_LG.into(),
    }
}

pub(crate) fn tables() -> Vec<Table> {
    vec![Table { name: ROOTS, size_bytes: ntt::TABLES_BYTES, fill }]
}

fn fill(launcher: &mut Launcher<'_>) -> Result<()> {
    let roots = launcher.table(ROOTS)?;
    launch(launcher, &ntt::fill_tables(), roots, roots)
}

/// Transforms work in place and need no scratch.
pub(crate) fn layout(_card: &Card, lg_domain: u32) -> Result<NttLayout> {
    if lg_domain > MAX_LG {
        return Err(too_large(lg_domain));
    }
    Ok(NttLayout { lg_domain, workspace_bytes: 0 })
}

pub(crate) fn enqueue(launcher: &mut Launcher<'_>, op: &Ntt) -> Result<()> {
    let transform = Transform {
        lg: op.lg_domain(),
        inverse: op.direction() == Direction::Inverse,
        coset: op.coset(),
        natural_input: op.input() == Order::Natural,
        natural_output: op.output() == Order::Natural,
    };
    let shared_bytes = launcher.info().shared_bytes_per_block;
    let launches = ntt::plan(transform, shared_bytes).ok_or_else(|| too_large(transform.lg))?;
    let (data, roots) = (launcher.pointer(op.data())?, launcher.table(ROOTS)?);
    launches.iter().try_for_each(|each| launch(launcher, each, data, roots))
}

fn launch(launcher: &mut Launcher<'_>, launch: &Launch, data: u64, roots: u64) -> Result<()> {
    let mut args = vec![Arg::Pointer(data)];
    if launch.reads_tables {
        args.push(Arg::Pointer(roots));
    }
    args.extend(launch.words.iter().map(|word| Arg::U32(*word)));
    args.extend(launch.factors.iter().map(|factor| Arg::Fr(*factor)));
    let Launch { kernel, blocks, threads, shared_bytes, .. } = *launch;
    launcher.launch(kernel, [blocks, 1, 1], threads, shared_bytes, &args)
}
