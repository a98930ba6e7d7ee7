//! The number-theoretic transform over Fr, in passes of tiles that fit workgroup memory.
//!
//! n = 2^lg inputs are split by the digits of their index, `n = (n_1, ..., n_P)` from the top, of
//! b_1, ..., b_P bits. Pass p transforms along n_p, which gives the digit k_p of the output's
//! index, counted from the bottom; between passes element (k_p, rest) takes the factor
//! `w^(k_p * rest)` with w of order 2^(bits of n_p and rest) (Bailey 1990, in place). A pass
//! is Cooley-Tukey within a tile: 2^b butterfly positions of 2^c neighbours, so that memory is read in
//! runs. A coset h is free: a transform of 2^b points over it has the factors
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

use crate::{Access, Arithmetic, Binding, Kernel, Module, prelude};

pub use plan::{Buffer, Dispatch, MAX_LG, Transform, plan, plan_in_steps, workspace_bytes};

/// log2 of a tile's elements.
pub const LG_TILE: u32 = 9;
const TILE_LEN: u32 = 1 << LG_TILE;
/// Threads of a workgroup of [`FORWARD`] and [`INVERSE`]: one a butterfly.
const TILE_THREADS: u32 = TILE_LEN / 2;
/// Threads of a workgroup of [`REVERSE`] and [`TABLES`].
const THREADS: u32 = 256;
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

fn forward(arithmetic: Arithmetic) -> Module {
    pass(FORWARD.name, arithmetic, false)
}

fn inverse(arithmetic: Arithmetic) -> Module {
    pass(INVERSE.name, arithmetic, true)
}

fn pass(name: &'static str, arithmetic: Arithmetic, inverse: bool) -> Module {
    let mut body = prelude(&FR, arithmetic);
    for (name, value) in [
        ("TILE", 1 << LG_TILE),
        ("LOW_TABLE", MAX_PASSES << LG_TILE),
        ("HIGH_TABLE", (MAX_PASSES + 1) << LG_TILE),
    ] {
        body += &format!("const {name}: u32 = {value}u;\n");
    }
    body += TILE;
    // Elements take the factor between two passes after the first, or undo it before.
    let (load, store) = if inverse {
        ("between(words, place)", "words")
    } else {
        ("words", "between(words, place)")
    };
    let stages = if inverse { INVERSE_STAGES } else { FORWARD_STAGES };
    let main = format!(
        "    let size = 1u << (params.bits + params.run_bits);
    let tile_number = params.first + group;
    for (var i = local; i < size; i += {TILE_THREADS}u) {{
        let place = placed(i, tile_number, 0u);
        let start = params.data_offset + 2u * place.index;
        let words = FrWords(data[start], data[start + 1u]);
        tile_put(place.slot, {load});
    }}
    // Neighbours lie together in the tile, unless butterfly positions do so in memory.
    let base = select(params.run_bits, 0u, params.at == 0u);
    let shifted = (params.flags & 8u) != 0u;
{stages}
    workgroupBarrier();
    for (var i = local; i < size; i += {TILE_THREADS}u) {{
        let place = placed(i, tile_number, 1u);
        let words = tile_get(place.slot);
        let scaled = {store};
        let start = params.data_offset + 2u * place.index;
        data[start] = scaled.w0;
        data[start + 1u] = scaled.w1;
    }}"
    );
    let bindings = vec![data(), table()];
    Module::assemble(name, TILE_THREADS, bindings, TILE_PARAMS.to_vec(), &body, &main)
}

/// Cooley-Tukey, the smallest stage first.
const FORWARD_STAGES: &str = "
    for (var stage = 0u; stage < params.bits; stage++) {
        workgroupBarrier();
        let q = stage + 1u;
        if local < size / 2u {
            let pair = paired(local, base, q);
            let low = tile_load(pair.i);
            let high = factored(tile_load(pair.j), q > 1u || shifted, pair.w);
            tile_store(pair.i, fr_add(low, high));
            tile_store(pair.j, fr_sub(low, high));
        }
    }";

/// Gentleman-Sande, the largest stage first.
const INVERSE_STAGES: &str = "
    for (var stage = 0u; stage < params.bits; stage++) {
        workgroupBarrier();
        let q = params.bits - stage;
        if local < size / 2u {
            let pair = paired(local, base, q);
            let low = tile_load(pair.i);
            let high = tile_load(pair.j);
            tile_store(pair.i, fr_add(low, high));
            tile_store(pair.j, factored(fr_sub(low, high), q > 1u || shifted, pair.w));
        }
    }";

/// Workgroup memory and what passes share.
const TILE: &str = "
// Limb i of element j at i * TILE + j: neighbours in neighbouring banks.
var<workgroup> tile: array<u32, 8u * TILE>;

fn tile_get(at: u32) -> FrWords {
    return FrWords(
        vec4<u32>(tile[at], tile[at + TILE], tile[at + 2u * TILE], tile[at + 3u * TILE]),
        vec4<u32>(
            tile[at + 4u * TILE], tile[at + 5u * TILE], tile[at + 6u * TILE], tile[at + 7u * TILE],
        ),
    );
}

fn tile_put(at: u32, words: FrWords) {
    tile[at] = words.w0.x;
    tile[at + TILE] = words.w0.y;
    tile[at + 2u * TILE] = words.w0.z;
    tile[at + 3u * TILE] = words.w0.w;
    tile[at + 4u * TILE] = words.w1.x;
    tile[at + 5u * TILE] = words.w1.y;
    tile[at + 6u * TILE] = words.w1.z;
    tile[at + 7u * TILE] = words.w1.w;
}

fn tile_load(at: u32) -> Fr {
    return fr_from_words(tile_get(at));
}

fn tile_store(at: u32, value: Fr) {
    tile_put(at, fr_to_words(value));
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

struct Pair {
    i: u32,
    j: u32,
    // Where the stage's factor is.
    w: u32,
}

// The butterfly of a thread in stage q; butterfly positions start at bit `base` of a slot.
fn paired(thread: u32, base: u32, q: u32) -> Pair {
    let half = 1u << (q - 1u);
    let bit = base + q - 1u;
    let i = ((thread >> bit) << (bit + 1u)) | (thread & ((1u << bit) - 1u));
    return Pair(i, i + (1u << bit), params.stages + half + ((i >> base) & (half - 1u)));
}

fn factored(value: Fr, bound: bool, w: u32) -> Fr {
    if bound {
        return fr_mul(value, table(w));
    }
    return value;
}

// The element times its factor between this pass and the next.
fn between(words: FrWords, place: Place) -> FrWords {
    let flags = params.flags & 48u;
    if flags == 0u {
        return words;
    }
    let exponent = (place.digit * place.rest) << params.before;
    let low_at = LOW_TABLE + (exponent & ((1u << params.low_bits) - 1u));
    var factor = table(select(HIGH_TABLE + (exponent >> params.low_bits), low_at, flags == 16u));
    if flags == 48u {
        factor = fr_mul(factor, table(low_at));
    }
    return fr_to_words(fr_mul(fr_from_words(words), factor));
}
";

fn reverse(_: Arithmetic) -> Module {
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

fn tables(arithmetic: Arithmetic) -> Module {
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
