//! What arithmetics are compared by on a device.

use twinlock_fields::FP;

use crate::curve::{Curve, Formula, affine_accessor, point_accessors, point_functions};
use crate::{Access, Arithmetic, Binding, Kernel, Module, accessors, prelude};

/// Threads of a workgroup.
pub const THREADS: u32 = 64;
/// Points to add.
pub const POINTS: u32 = 64;

/// Additions of affine points in a chain, as an MSM's accumulation does them. One thread a chain.
/// Bindings: data (elements): [`POINTS`] points X, Y, ZZ, ZZZ, any values that are not zero, the
/// first two taken for affine points too; then a point for each thread, which is written. Params:
/// total (threads), rounds.
pub const ADDITIONS: Kernel = Kernel { name: "measure_additions", source: additions };

fn additions(arithmetic: Arithmetic) -> Module {
    let mut body = prelude(&FP, arithmetic);
    body += &point_functions(Curve::G1, Formula::AddAffine, 0, arithmetic);
    body += &accessors(&FP, "data", true, arithmetic);
    body += &point_accessors(Curve::G1, "data");
    body += &affine_accessor(Curve::G1, "data");
    let main = format!(
        "    if id >= params.total {{ return; }}
    point_load_data(P, id % {POINTS}u);
    for (var round = 0u; round < params.rounds; round += 1u) {{
        affine_load_data((id + 2u * round + 1u) % {POINTS}u, (round & 1u) != 0u);
        add_affine();
    }}
    point_store_data(P, {POINTS}u + id);"
    );
    let bindings = vec![Binding::elements("data", Access::ReadWrite)];
    Module::assemble(ADDITIONS.name, THREADS, bindings, vec!["total", "rounds"], &body, &main)
}
