//! Points as parameter files hold them, to canonical layout.

use twinlock_fields::FP;

use crate::curve::{Curve, FP_UNITS, Formula, list, point_functions, store_coordinates};
use crate::{Access, Arithmetic, Binding, Kernel, Module, accessors, prelude};

/// Threads of a workgroup.
pub const THREADS: u32 = 64;

/// Decodes uncompressed points: x then y, big-endian, with Zcash's flag bits. One thread a point.
/// Bindings: source and points (elements), status (one atomic word, lowered to `index_first` + the
/// first index that is bad; bad points become the identity). Source and points may be the same.
/// Params: len, on_curve (0 or 1), index_first.
pub const DECODE_G1: Kernel = Kernel {
    name: "decode_points_g1",
    source: |a| decode_points("decode_points_g1", Curve::G1, a),
};
/// As [`DECODE_G1`], over Fp2: coefficients as c1, c0.
pub const DECODE_G2: Kernel = Kernel {
    name: "decode_points_g2",
    source: |a| decode_points("decode_points_g2", Curve::G2, a),
};
/// This file's kernels.
pub const KERNELS: &[Kernel] = &[DECODE_G1, DECODE_G2];

const SWAP: &str = "fn swap_words(v: vec4<u32>) -> vec4<u32> {
    let eight = vec4<u32>(8u);
    let far = vec4<u32>(24u);
    let swapped = (v << far) | ((v & vec4<u32>(0xff00u)) << eight)
        | ((v >> eight) & vec4<u32>(0xff00u)) | (v >> far);
    return swapped.wzyx;
}
fn any_bits(v: vec4<u32>) -> u32 { return v.x | v.y | v.z | v.w; }
";

fn decode_points(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let (degree, len) = (curve.degree(), curve.affine_len());
    let mut body = prelude(&FP, arithmetic);
    body += &accessors(&FP, "points", true, arithmetic);
    body += SWAP;
    body += &point_functions(curve, Formula::Decode, 0, arithmetic);
    let loads = list(len, "\n", |i| {
        // The file has the higher coefficient first.
        let at = (i / degree * degree + degree - 1 - i % degree) * FP_UNITS;
        let quads = list(FP_UNITS, ", ", |quad| {
            format!("swap_words(source[start + {}u])", at + FP_UNITS - 1 - quad)
        });
        format!("    var v{i} = FpWords({quads});")
    });
    // The first coefficient in the file carries the flags.
    let first = degree - 1;
    let any =
        list(len * FP_UNITS, " | ", |i| format!("any_bits(v{}.w{})", i / FP_UNITS, i % FP_UNITS));
    let below = list(len, " && ", |i| format!("fp_words_below_modulus(v{i})"));
    let inputs = list(len, "\n", |i| format!("    slots[{i}] = v{i};"));
    let off = list(degree, " && ", |i| format!("fp_words_are_zero(slots[{}])", len + i));
    let stores = store_coordinates("points", len);
    let main = format!(
        "    if id >= params.len {{ return; }}
    let at = id * {units}u;
    let start = params.source_offset + at;
{loads}
    let flags = v{first}.w2.w >> 29u;
    v{first}.w2.w &= 0x1fffffffu;
    let is_zero = ({any}) == 0u;
    // Infinity is its flag and zeros; (0, 0) without it may not pass for infinity.
    var good = (flags == 2u && is_zero) || (flags == 0u && !is_zero && {below});
{inputs}
    decode();
    if params.on_curve != 0u && !is_zero {{ good = good && {off}; }}
    if !good {{
        atomicMin(&status[params.status_offset], params.index_first + id);
        for (var i = 0u; i < {len}u; i += 1u) {{ slots[i] = FpWords(); }}
    }}
{stores}",
        units = len * FP_UNITS,
    );
    let bindings = vec![
        Binding::elements("source", Access::ReadWrite),
        Binding::elements("points", Access::ReadWrite),
        Binding::atomics("status"),
    ];
    Module::assemble(name, THREADS, bindings, vec!["len", "on_curve", "index_first"], &body, &main)
}
