//! The number-theoretic transform over Fr, in passes of tiles that fit workgroup memory.
//!
//! n = 2^lg inputs are split by the digits of their index, `n = (n_1, ..., n_P)` from the top, of
//! b_1, ..., b_P bits. Pass p transforms along n_p, which gives the digit k_p of the output's
//! index, counted from the bottom; between passes element (k_p, rest) takes the factor
//! `w^(k_p * rest)` with w of order 2^(bits of n_p and rest) (Bailey 1990, in place). A pass
//! is radix-2 Cooley-Tukey within a tile: 2^b butterfly positions of 2^c neighbours, so that memory
//! is read in runs. A coset h is free: a transform of 2^b points over it has the factors
//! `h^(2^(b - q)) w_(2^q)^j` in stage q instead of `w_(2^q)^j`, and h for pass p is
//! `g^(2^(bits of rest))`. The inverse undoes these steps one by one, backwards, with
//! Gentleman-Sande butterflies; 1/n rides on a factor between passes.
//!
//! A digit's place in memory is where the order of the input has it, and its output digit takes
//! that place, bits reversed. So natural order goes to bit-reversed order or the other way for
//! free; like orders need [`REVERSE`] behind, unless one tile holds all.
//!
//! Factors come from tables that [`TABLES`] writes to the workspace first: powers of w_n below
//! 2^b_1 (times 1/n, for the inverse), powers of `w_n^(2^b_1)`, and each pass's stage factors.

mod plan;

use twinlock_fields::FR;

use crate::{Access, Arithmetic, Binding, Kernel, Module, Style, accessors, prelude};

pub use plan::{Buffer, Dispatch, MAX_LG, Transform, plan, workspace_bytes};

/// log2 of a tile's elements.
pub const LG_TILE: u32 = 9;
/// Threads of a workgroup.
pub const THREADS: u32 = 256;
/// Passes at most.
const MAX_PASSES: u32 = 4;

/// One forward pass. Bindings: data, tables. Params: see `TILE_PARAMS`.
pub const FORWARD: Kernel = Kernel { name: "ntt_forward", source: forward };
/// One inverse pass, as [`FORWARD`].
pub const INVERSE: Kernel = Kernel { name: "ntt_inverse", source: inverse };
/// Puts elements i and i with its bits reversed in each other's place. Bindings: data. Params: lg,
/// first (of the elements of this dispatch).
pub const REVERSE: Kernel = Kernel { name: "ntt_reverse", source: reverse };
/// Writes the tables. Bindings: tables. Params: see `TABLES_PARAMS`.
pub const TABLES: Kernel = Kernel { name: "ntt_tables", source: tables };

/// This file's kernels.
pub const KERNELS: &[Kernel] = &[FORWARD, INVERSE, REVERSE, TABLES];

/// Parameters of a pass:
/// * `first`: the first tile of this dispatch;
/// * `lg`: log2 of the elements in all;
/// * `bits`, `at`: how many bits of a position the pass transforms, and from which on;
/// * `run_bits`: log2 of the neighbours in a tile;
/// * `stages`: where the pass's stage factors start in the tables, in elements;
/// * `flags`: bits 0 and 1: a tile is read, written with its butterfly positions reversed; 2: digits
///   lie as in a natural index; 3: the first stage's factor is not 1; 4, 5: elements take a factor
///   of the low, high table;
/// * `low_bits`: log2 of the low table's elements;
/// * `before`: bits of the digits before this pass's.
const TILE_PARAMS: [&str; 9] =
    ["first", "lg", "bits", "at", "run_bits", "stages", "flags", "low_bits", "before"];

/// Parameters of the tables: log2 of the elements in all, bits of the digits, whether on a coset,
/// and standing in Montgomery form the root of order 2^lg, the coset's generator and the factor of
/// the low table.
const TABLES_PARAMS: [&str; 30] = [
    "lg", "bits0", "bits1", "bits2", "bits3", "coset", "root0", "root1", "root2", "root3", "root4",
    "root5", "root6", "root7", "shift0", "shift1", "shift2", "shift3", "shift4", "shift5",
    "shift6", "shift7", "scale0", "scale1", "scale2", "scale3", "scale4", "scale5", "scale6",
    "scale7",
];

fn data() -> Binding {
    Binding::elements("data", Access::ReadWrite)
}

fn table() -> Binding {
    Binding::elements("tables", Access::ReadWrite)
}

fn forward(arithmetic: Arithmetic, _: Style) -> Module {
    // Cooley-Tukey: the smallest stage first.
    let butterfly = "let q = stage + 1u;";
    let operands = "let product = factored(high, bound, w);
            tile_store(i, fr_add(low, product));
            tile_store(j, fr_sub(low, product));";
    pass(FORWARD.name, arithmetic, butterfly, operands, Side::Store)
}

fn inverse(arithmetic: Arithmetic, _: Style) -> Module {
    // Gentleman-Sande: the largest stage first.
    let butterfly = "let q = params.bits - stage;";
    let operands = "tile_store(i, fr_add(low, high));
            tile_store(j, factored(fr_sub(low, high), bound, w));";
    pass(INVERSE.name, arithmetic, butterfly, operands, Side::Load)
}

/// When elements take the factor between passes.
#[derive(PartialEq)]
enum Side {
    Load,
    Store,
}

fn pass(
    name: &'static str,
    arithmetic: Arithmetic,
    stage: &str,
    butterfly: &str,
    side: Side,
) -> Module {
    let mut body = prelude(&FR, arithmetic);
    body += &accessors(&FR, "data", true, arithmetic);
    for (name, value) in [
        ("TILE", 1 << LG_TILE),
        ("LOW_TABLE", MAX_PASSES << LG_TILE),
        ("HIGH_TABLE", (MAX_PASSES + 1) << LG_TILE),
    ] {
        body += &format!("const {name}: u32 = {value}u;\n");
    }
    body += TILE;
    let (load, store) = match side {
        Side::Load => ("between(value, place)", "value"),
        Side::Store => ("value", "between(value, place)"),
    };
    let main = format!(
        "    let size = 1u << (params.bits + params.run_bits);
    let tile_number = params.first + group;
    for (var i = local; i < size; i += {THREADS}u) {{
        let place = placed(i, tile_number, 0u);
        let value = fr_load_raw_data(2u * place.index);
        tile_store(place.slot, {load});
    }}
    // Neighbours lie together in the tile, unless butterfly positions do so in memory.
    let base = select(params.run_bits, 0u, params.at == 0u);
    for (var stage = 0u; stage < params.bits; stage++) {{
        workgroupBarrier();
        {stage}
        if local < size / 2u {{
            let bit = base + q - 1u;
            let i = ((local >> bit) << (bit + 1u)) | (local & ((1u << bit) - 1u));
            let j = i | (1u << bit);
            let half = 1u << (q - 1u);
            let exponent = (i >> base) & (half - 1u);
            let low = tile_load(i);
            let high = tile_load(j);
            let w = params.stages + half + exponent;
            let bound = q > 1u || (params.flags & 8u) != 0u;
            {butterfly}
        }}
    }}
    workgroupBarrier();
    for (var i = local; i < size; i += {THREADS}u) {{
        let place = placed(i, tile_number, 1u);
        let value = tile_load(place.slot);
        fr_store_raw_data(2u * place.index, {store});
    }}"
    );
    let bindings = vec![data(), table()];
    Module::assemble(name, THREADS, bindings, TILE_PARAMS.to_vec(), &body, &main)
}

/// Workgroup memory and what passes share.
const TILE: &str = "
// Limb i of element j at i * TILE + j: neighbours in neighbouring banks.
var<workgroup> tile: array<u32, 8u * TILE>;

fn tile_load(at: u32) -> Fr {
    return fr_from_words(FrWords(
        vec4<u32>(tile[at], tile[at + TILE], tile[at + 2u * TILE], tile[at + 3u * TILE]),
        vec4<u32>(
            tile[at + 4u * TILE], tile[at + 5u * TILE], tile[at + 6u * TILE], tile[at + 7u * TILE],
        ),
    ));
}

fn tile_store(at: u32, value: Fr) {
    let words = fr_to_words(value);
    tile[at] = words.w0.x;
    tile[at + TILE] = words.w0.y;
    tile[at + 2u * TILE] = words.w0.z;
    tile[at + 3u * TILE] = words.w0.w;
    tile[at + 4u * TILE] = words.w1.x;
    tile[at + 5u * TILE] = words.w1.y;
    tile[at + 6u * TILE] = words.w1.z;
    tile[at + 7u * TILE] = words.w1.w;
}

fn table(at: u32) -> Fr {
    let start = params.tables_offset + 2u * at;
    return fr_from_words(FrWords(tables[start], tables[start + 1u]));
}

fn reversed(value: u32, bits: u32) -> u32 {
    // No shift by 32: with no bits there is nothing to reverse.
    return select(reverseBits(value) >> ((32u - bits) & 31u), 0u, bits == 0u);
}

struct Place {
    index: u32,
    slot: u32,
    // The transform's own index of the element along the pass, and that of the digits after.
    digit: u32,
    rest: u32,
}

// Where element i of a tile, in the order of memory, is in memory and in the tile. `written` is 0
// for the pass's input and 1 for its output.
fn placed(i: u32, tile_number: u32, written: u32) -> Place {
    let bits = params.bits;
    let run_bits = params.run_bits;
    let at = params.at;
    let reverse = (params.flags & (1u << written)) != 0u;
    var place: Place;
    var position: u32;
    if at == 0u {
        position = i & ((1u << bits) - 1u);
        place.index = (tile_number << (bits + run_bits)) | i;
    } else {
        position = i >> run_bits;
        let run = i & ((1u << run_bits) - 1u);
        let between = at - run_bits;
        place.index = ((tile_number >> between) << (at + bits)) | (position << at)
            | ((tile_number & ((1u << between) - 1u)) << run_bits) | run;
    }
    place.digit = select(position, reversed(position, bits), reverse);
    if at == 0u {
        place.slot = ((i >> bits) << bits) | place.digit;
    } else {
        place.slot = (place.digit << run_bits) | (i & ((1u << run_bits) - 1u));
    }
    let after = params.lg - params.before - bits;
    if (params.flags & 4u) != 0u {
        place.rest = place.index & ((1u << after) - 1u);
    } else {
        place.rest = reversed(place.index >> (at + bits), after);
    }
    return place;
}

fn factored(value: Fr, bound: bool, w: u32) -> Fr {
    if bound {
        return fr_mul(value, table(w));
    }
    return value;
}

// The element times its factor between this pass and the next.
fn between(value: Fr, place: Place) -> Fr {
    let flags = params.flags & 48u;
    if flags == 0u {
        return value;
    }
    let exponent = (place.digit * place.rest) << params.before;
    let low_at = LOW_TABLE + (exponent & ((1u << params.low_bits) - 1u));
    var factor = table(select(HIGH_TABLE + (exponent >> params.low_bits), low_at, flags == 16u));
    if flags == 48u {
        factor = fr_mul(factor, table(low_at));
    }
    return fr_mul(value, factor);
}
";

fn reverse(_: Arithmetic, _: Style) -> Module {
    let main = "    let i = params.first + id;
    if i >= (1u << params.lg) { return; }
    let j = reverseBits(i) >> (32u - params.lg);
    if i >= j { return; }
    let here = params.data_offset + 2u * i;
    let there = params.data_offset + 2u * j;
    let low = data[here];
    let high = data[here + 1u];
    data[here] = data[there];
    data[here + 1u] = data[there + 1u];
    data[there] = low;
    data[there + 1u] = high;";
    Module::assemble(REVERSE.name, THREADS, vec![data()], vec!["lg", "first"], "", main)
}

fn tables(arithmetic: Arithmetic, _: Style) -> Module {
    let constant = |name: &str| {
        let words = |from: usize| {
            let words: Vec<_> = (from..from + 4).map(|i| format!("params.{name}{i}")).collect();
            format!("vec4<u32>({})", words.join(", "))
        };
        format!(
            "fn {name}() -> Fr {{
    return fr_raw_to_kernel(fr_from_words(FrWords({}, {})));
}}
",
            words(0),
            words(4)
        )
    };
    let mut body = prelude(&FR, arithmetic);
    for name in ["root", "shift", "scale"] {
        body += &constant(name);
    }
    let main = format!(
        "    let number = min(id >> {LG_TILE}u, {}u);
    let i = id - (number << {LG_TILE}u);
    // The entry is root^exponent * other^other_exponent.
    var exponent = i;
    var other_exponent = 0u;
    var other = fr_one();
    if number < {MAX_PASSES}u {{
        var all_bits = array<u32, 4>(params.bits0, params.bits1, params.bits2, params.bits3);
        var through = 0u;
        for (var k = 0u; k <= number; k++) {{ through += all_bits[k]; }}
        let bits = all_bits[number];
        if i == 0u || i >= (1u << bits) {{ return; }}
        let before_stage = firstLeadingBit(i);
        let stage = before_stage + 1u;
        exponent = (i - (1u << before_stage)) << (params.lg - stage);
        if params.coset != 0u {{
            other = shift();
            other_exponent = 1u << (params.lg - through + bits - stage);
        }}
    }} else if number == {MAX_PASSES}u {{
        if i >= (1u << params.bits0) {{ return; }}
        other = scale();
        other_exponent = 1u;
    }} else {{
        if i >= (1u << (params.lg - params.bits0)) {{ return; }}
        exponent = i << params.bits0;
    }}
    var result = fr_one();
    var power = root();
    for (var part = 0u; part < 2u; part++) {{
        for (var bits = exponent; bits != 0u; bits >>= 1u) {{
            if (bits & 1u) != 0u {{ result = fr_mul(result, power); }}
            power = fr_mul(power, power);
        }}
        exponent = other_exponent;
        power = other;
    }}
    let words = fr_to_words(result);
    let to = params.tables_offset + 2u * id;
    tables[to] = words.w0;
    tables[to + 1u] = words.w1;",
        MAX_PASSES + 1
    );
    let (bindings, params) = (vec![table()], TABLES_PARAMS.to_vec());
    Module::assemble(TABLES.name, THREADS, bindings, params, &body, &main)
}
