//! Dispatches of the `ntt` operations.

use twinlock_api::op::{Direction, Ntt, NttLayout, Order};
use twinlock_api::{Error, Result};
use twinlock_shaders::kernels::ntt::{self, Buffer, Transform};

use crate::gpu::Gpu;
use crate::launcher::Launcher;

fn too_large(lg_domain: u32) -> Error {
    Error::ExceedsLimit {
        what: "lg_domain of an NTT".to_owned(),
        requested: lg_domain.into(),
        limit: ntt::MAX_LG.into(),
    }
}

/// Sizes for a domain: the workspace holds tables of factors, written anew by each transform.
pub(crate) fn layout(_gpu: &Gpu, lg_domain: u32) -> Result<NttLayout> {
    let workspace_bytes = ntt::workspace_bytes(lg_domain).ok_or_else(|| too_large(lg_domain))?;
    Ok(NttLayout { lg_domain, workspace_bytes })
}

pub(crate) fn encode(launcher: &mut Launcher<'_>, op: &Ntt) -> Result<()> {
    let transform = Transform {
        lg: op.lg_domain(),
        inverse: op.direction() == Direction::Inverse,
        coset: op.coset(),
        natural_input: op.input() == Order::Natural,
        natural_output: op.output() == Order::Natural,
    };
    let dispatches = ntt::plan(transform).ok_or_else(|| too_large(transform.lg))?;
    let (data, tables) = (launcher.view(op.data())?, launcher.view(op.workspace())?);
    for dispatch in dispatches {
        let views: Vec<_> = dispatch
            .buffers
            .iter()
            .map(|buffer| match buffer {
                Buffer::Data => data.clone(),
                Buffer::Tables => tables.clone(),
            })
            .collect();
        launcher.dispatch(&dispatch.kernel, &views, &dispatch.params, [dispatch.groups, 1, 1])?;
    }
    Ok(())
}
