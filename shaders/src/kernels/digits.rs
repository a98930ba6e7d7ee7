//! From scalars to a digit plan: count, prefix sums, place.
//!
//! Digits are signed (Booth): a window of c bits, with the bit below it, gives a digit in
//! -2^(c-1)..=2^(c-1) without a carry from window to window. A scalar above r/2 is first replaced
//! by r minus itself with the sign flipped, so r - 1 costs what 1 costs, and zeros cost nothing.
//!
//! A plan is a table of offsets and the entries. Window w's part of the table has
//! `num_buckets + 1` words: where each bucket starts among the window's entries, and their number.
//! Bucket b stands for the digits of magnitude b + 1. A window's entries have room for `stride`
//! words; an entry is a scalar's index with the digit's sign in the top bit. The order within a
//! bucket is whatever the atomic operations make it.

use twinlock_fields::FR;

use crate::curve::list;
use crate::{Access, Arithmetic, Binding, Kernel, Module, accessors, literal, prelude};

/// Threads of a workgroup of [`COUNT`] and [`PLACE`].
pub const THREADS: u32 = 128;
/// Threads of a workgroup of [`STARTS`], which takes one window.
pub const STARTS_THREADS: u32 = 256;

/// Adds each digit to its bucket's count. One thread a scalar. Bindings: scalars (elements), counts
/// (atomic words, `num_windows * num_buckets`, zero at first). Params: len, window_bits,
/// num_windows.
pub const COUNT: Kernel = Kernel { name: "digits_count", source: count };
/// Counts to starts. One workgroup a window. Bindings: counts, which become cursors; offsets.
/// Params: num_windows, num_buckets.
pub const STARTS: Kernel = Kernel { name: "digits_starts", source: starts };
/// Puts each digit where its bucket's cursor points. One thread a scalar; windows `window_first` to
/// `window_end`, whose entries are bound. Bindings: scalars, counts (all windows'), entries.
/// Params: len, window_bits, num_windows, index_first (of the scalars bound), window_first,
/// window_end, stride.
pub const PLACE: Kernel = Kernel { name: "digits_place", source: place };

/// This file's kernels.
pub const KERNELS: &[Kernel] = &[COUNT, STARTS, PLACE];

/// Calls `each`, a statement on `window`, `magnitude` (not zero) and `sign` (0 or 2^31), for the
/// digits of scalar `id`.
fn for_each_digit(arithmetic: Arithmetic, last: &str, each: &str) -> String {
    let inverse = literal(&FR, arithmetic, &FR.power_of_two(-(FR.radix_bits() as i32)));
    format!(
        "    if id >= params.len {{ return; }}
    let scalar = fr_mul(fr_load_raw_scalars(2u * id), {inverse});
    let positive = fr_to_words(scalar);
    let negative = fr_to_words(fr_neg(scalar));
    let flip = words_less(negative, positive);
    var low = select(positive.w0, negative.w0, flip);
    var high = select(positive.w1, negative.w1, flip);
    let c = params.window_bits;
    let right = vec4<u32>(c);
    let left = vec4<u32>(32u - c);
    let mask = (2u << c) - 1u;
    var below = 0u;
    for (var window = 0u; window < {last}; window += 1u) {{
        let value = ((low.x << 1u) | below) & mask;
        let is_negative = (value >> c) == 1u;
        let upper = (value + 1u) >> 1u;
        let magnitude = select(upper, (1u << c) - upper, is_negative);
        let sign = select(0u, 0x80000000u, is_negative != flip);
        below = (low.x >> (c - 1u)) & 1u;
        low = (low >> right) | (vec4<u32>(low.yzw, high.x) << left);
        high = (high >> right) | (vec4<u32>(high.yzw, 0u) << left);
        if magnitude != 0u {{
{each}
        }}
        let rest = low | high;
        if (rest.x | rest.y | rest.z | rest.w | below) == 0u {{ break; }}
    }}"
    )
}

/// `words_less` and the field.
fn scalar_functions(arithmetic: Arithmetic) -> String {
    let mut body = prelude(&FR, arithmetic);
    body += &accessors(&FR, "scalars", false, arithmetic);
    let compare = list(8, "\n", |i| {
        let (quad, lane) = ((7 - i) / 4, (7 - i) % 4);
        let at = |name: &str| format!("{name}.w{quad}[{lane}]");
        format!("    if {0} != {1} {{ return {0} < {1}; }}", at("a"), at("b"))
    });
    body += &format!(
        "fn words_less(a: FrWords, b: FrWords) -> bool {{\n{compare}\n    return false;\n}}\n"
    );
    body
}

fn scalars() -> Binding {
    Binding::elements("scalars", Access::ReadWrite)
}

fn count(arithmetic: Arithmetic) -> Module {
    let each = "            let bucket = (window << (c - 1u)) + magnitude - 1u;
            atomicAdd(&counts[params.counts_offset + bucket], 1u);";
    Module::assemble(
        COUNT.name,
        THREADS,
        vec![scalars(), Binding::atomics("counts")],
        vec!["len", "window_bits", "num_windows"],
        &scalar_functions(arithmetic),
        &for_each_digit(arithmetic, "params.num_windows", each),
    )
}

fn place(arithmetic: Arithmetic) -> Module {
    // A cursor never passes the stride, unless the scalars changed between the passes.
    let each = "            if window >= params.window_first {
                let bucket = (window << (c - 1u)) + magnitude - 1u;
                let position = atomicAdd(&counts[params.counts_offset + bucket], 1u);
                if position < params.stride {
                    let at = (window - params.window_first) * params.stride + position;
                    entries[params.entries_offset + at] = (params.index_first + id) | sign;
                }
            }";
    Module::assemble(
        PLACE.name,
        THREADS,
        vec![scalars(), Binding::atomics("counts"), Binding::words("entries", Access::ReadWrite)],
        vec![
            "len",
            "window_bits",
            "num_windows",
            "index_first",
            "window_first",
            "window_end",
            "stride",
        ],
        &scalar_functions(arithmetic),
        &for_each_digit(arithmetic, "min(params.num_windows, params.window_end)", each),
    )
}

fn starts(_: Arithmetic) -> Module {
    let main = format!(
        "    if group >= params.num_windows {{ return; }}
    let num_buckets = params.num_buckets;
    let share = (num_buckets + {STARTS_THREADS}u - 1u) / {STARTS_THREADS}u;
    let begin = min(local * share, num_buckets);
    let end = min(begin + share, num_buckets);
    let counted = params.counts_offset + group * num_buckets;
    let table = params.offsets_offset + group * (num_buckets + 1u);
    var sum = 0u;
    for (var i = begin; i < end; i += 1u) {{ sum += counts[counted + i]; }}
    sums[local] = sum;
    workgroupBarrier();
    for (var width = 1u; width < {STARTS_THREADS}u; width *= 2u) {{
        var before = 0u;
        if local >= width {{ before = sums[local - width]; }}
        workgroupBarrier();
        sums[local] += before;
        workgroupBarrier();
    }}
    var start = sums[local] - sum;
    for (var i = begin; i < end; i += 1u) {{
        let count = counts[counted + i];
        counts[counted + i] = start;
        offsets[table + i] = start;
        start += count;
    }}
    if local == {STARTS_THREADS}u - 1u {{ offsets[table + num_buckets] = sums[local]; }}"
    );
    Module::assemble(
        STARTS.name,
        STARTS_THREADS,
        vec![
            Binding::words("counts", Access::ReadWrite),
            Binding::words("offsets", Access::ReadWrite),
        ],
        vec!["num_windows", "num_buckets"],
        &format!("var<workgroup> sums: array<u32, {STARTS_THREADS}>;\n"),
        &main,
    )
}
