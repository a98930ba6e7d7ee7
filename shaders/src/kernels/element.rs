//! Words and vectors over Fr: one thread an element.
//!
//! Parameters `len` and the like count elements. Every kernel may run in place.

use twinlock_fields::FR;

use crate::{Access, Arithmetic, Binding, Kernel, Module, accessors, literal, prelude};

/// Threads of a workgroup.
pub const THREADS: u32 = 128;

/// Workgroups for `len` elements of [`FILL`] to [`FROM_MONTGOMERY`]: x and y, each below 65,536.
/// `None` past 2^31 elements, so that the number of no surplus thread wraps.
pub fn groups(len: u64) -> Option<[u32; 2]> {
    let groups = u32::try_from(len.div_ceil(u64::from(THREADS))).ok()?;
    let rows = groups.div_ceil(65_535).max(1);
    (len <= 1 << 31).then(|| [groups.div_ceil(rows), rows])
}

/// `target[i] = word`. Bindings: target (words). Params: len, word.
pub const FILL: Kernel = Kernel { name: "fill", source: fill };
/// `target[i] = source[i]`. Bindings: source, target (words). Params: len.
pub const COPY: Kernel = Kernel { name: "copy", source: copy };
/// `target[i] = source[indices[i]]`, zero for an index past the source. Bindings: source
/// (elements), indices (words), target (elements). Params: len, source_len.
pub const GATHER: Kernel = Kernel { name: "gather", source: gather };
/// `target = a + b`. Bindings: a, b, target (elements). Params: len.
pub const ADD: Kernel = Kernel { name: "vector_add", source: add };
/// `target = a - b`. Bindings and params as [`ADD`].
pub const SUB: Kernel = Kernel { name: "vector_sub", source: sub };
/// `target = a * b`. Bindings and params as [`ADD`].
pub const MUL: Kernel = Kernel { name: "vector_mul", source: mul };
/// `target = a * factor`. Bindings: a, target (elements). Params: len, the factor's eight words.
pub const SCALE: Kernel = Kernel { name: "vector_scale", source: scale };
/// `target = (a * b - c) * factor`. Bindings: a, b, c, target (elements). Params as [`SCALE`].
pub const MUL_SUB_SCALE: Kernel = Kernel { name: "vector_mul_sub_scale", source: mul_sub_scale };
/// Integers to Montgomery form. Bindings: source, target (elements), status (one atomic word, which
/// is lowered to the first index whose value is not below the modulus). Params: len.
pub const TO_MONTGOMERY: Kernel = Kernel { name: "to_montgomery", source: to_montgomery };
/// Montgomery form to integers. Bindings: source, target (elements). Params: len.
pub const FROM_MONTGOMERY: Kernel = Kernel { name: "from_montgomery", source: from_montgomery };

/// This file's kernels.
pub const KERNELS: &[Kernel] =
    &[FILL, COPY, GATHER, ADD, SUB, MUL, SCALE, MUL_SUB_SCALE, TO_MONTGOMERY, FROM_MONTGOMERY];

/// Parameters of a field element.
const FACTOR: [&str; 8] =
    ["factor0", "factor1", "factor2", "factor3", "factor4", "factor5", "factor6", "factor7"];

const FACTOR_VALUE: &str = "fn factor() -> Fr {
    return fr_raw_to_kernel(fr_from_words(FrWords(
        vec4<u32>(params.factor0, params.factor1, params.factor2, params.factor3),
        vec4<u32>(params.factor4, params.factor5, params.factor6, params.factor7),
    )));
}
";

fn words(name: &'static str) -> Binding {
    Binding::words(name, Access::ReadWrite)
}

fn elements(name: &'static str) -> Binding {
    Binding::elements(name, Access::ReadWrite)
}

fn assemble(
    name: &'static str,
    bindings: Vec<Binding>,
    own: &[&'static str],
    body: &str,
    main: &str,
) -> Module {
    let params = [&["len"], own].concat();
    let main = format!("    if id >= params.len {{ return; }}\n{main}");
    Module::assemble(name, THREADS, bindings, params, body, &main)
}

fn fill(_: Arithmetic) -> Module {
    let main = "    target_words[params.target_words_offset + id] = params.word;";
    assemble(FILL.name, vec![words("target_words")], &["word"], "", main)
}

fn copy(_: Arithmetic) -> Module {
    let bindings = vec![words("source_words"), words("target_words")];
    let main = "    target_words[params.target_words_offset + id] =
        source_words[params.source_words_offset + id];";
    assemble(COPY.name, bindings, &[], "", main)
}

fn gather(_: Arithmetic) -> Module {
    let bindings = vec![elements("source_elements"), words("indices"), elements("target_elements")];
    let main = "    let index = indices[params.indices_offset + id];
    var low = vec4<u32>();
    var high = vec4<u32>();
    if index < params.source_len {
        let at = params.source_elements_offset + 2u * index;
        low = source_elements[at];
        high = source_elements[at + 1u];
    }
    let to = params.target_elements_offset + 2u * id;
    target_elements[to] = low;
    target_elements[to + 1u] = high;";
    assemble(GATHER.name, bindings, &["source_len"], "", main)
}

/// A kernel over Fr with accessors for all of `names`.
fn arithmetic_kernel(
    name: &'static str,
    arithmetic: Arithmetic,
    names: &[&'static str],
    own: &[&'static str],
    main: &str,
) -> Module {
    let mut body = prelude(&FR, arithmetic);
    for name in names {
        body += &accessors(&FR, name, true, arithmetic);
    }
    if !own.is_empty() {
        body += FACTOR_VALUE;
    }
    let bindings = names.iter().map(|name| elements(name)).collect();
    assemble(name, bindings, own, &body, &format!("    let at = 2u * id;\n{main}"))
}

const AB: [&str; 3] = ["a", "b", "result"];

fn add(arithmetic: Arithmetic) -> Module {
    let main = "    fr_store_raw_result(at, fr_add(fr_load_raw_a(at), fr_load_raw_b(at)));";
    arithmetic_kernel(ADD.name, arithmetic, &AB, &[], main)
}

fn sub(arithmetic: Arithmetic) -> Module {
    let main = "    fr_store_raw_result(at, fr_sub(fr_load_raw_a(at), fr_load_raw_b(at)));";
    arithmetic_kernel(SUB.name, arithmetic, &AB, &[], main)
}

fn mul(arithmetic: Arithmetic) -> Module {
    let main = "    fr_store_raw_result(at, fr_mul(fr_load_raw_a(at), fr_load_b(at)));";
    arithmetic_kernel(MUL.name, arithmetic, &AB, &[], main)
}

fn scale(arithmetic: Arithmetic) -> Module {
    let main = "    fr_store_raw_result(at, fr_mul(fr_load_raw_a(at), factor()));";
    arithmetic_kernel(SCALE.name, arithmetic, &["a", "result"], &FACTOR, main)
}

fn mul_sub_scale(arithmetic: Arithmetic) -> Module {
    let main = "    let product = fr_mul(fr_load_raw_a(at), fr_load_b(at));
    fr_store_raw_result(at, fr_mul(fr_sub(product, fr_load_raw_c(at)), factor()));";
    let names = ["a", "b", "c", "result"];
    arithmetic_kernel(MUL_SUB_SCALE.name, arithmetic, &names, &FACTOR, main)
}

fn to_montgomery(arithmetic: Arithmetic) -> Module {
    let radix = literal(&FR, arithmetic, &FR.one_montgomery());
    let names = ["integers", "result"];
    let mut body = prelude(&FR, arithmetic);
    for name in names {
        body += &accessors(&FR, name, true, arithmetic);
    }
    let main = format!(
        "    let at = 2u * id;
    let start = params.integers_offset + at;
    if !fr_words_below_modulus(FrWords(integers[start], integers[start + 1u])) {{
        atomicMin(&status[params.status_offset], id);
    }}
    fr_store_raw_result(at, fr_mul(fr_load_raw_integers(at), {radix}));"
    );
    let bindings = vec![elements("integers"), elements("result"), Binding::atomics("status")];
    assemble(TO_MONTGOMERY.name, bindings, &[], &body, &main)
}

fn from_montgomery(arithmetic: Arithmetic) -> Module {
    let inverse = FR.power_of_two(-(FR.radix_bits() as i32));
    let main = format!(
        "    fr_store_raw_result(at, fr_mul(fr_load_raw_a(at), {}));",
        literal(&FR, arithmetic, &inverse)
    );
    arithmetic_kernel(FROM_MONTGOMERY.name, arithmetic, &["a", "result"], &[], &main)
}
