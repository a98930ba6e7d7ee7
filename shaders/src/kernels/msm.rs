//! Buckets: filled by a digit plan, then summed.
//!
//! Work is cut by position in the sorted entries, not by bucket, so a bucket of a million points
//! costs what a million points in many buckets cost. A run of entries belongs to one thread. A
//! bucket that starts in the run is its own: it begins from the accumulator and ends there. What
//! the run adds to a bucket of an earlier run is its *head*, a point and the bucket's number as
//! key. Heads of one bucket lie side by side; they are folded in runs by the same rule, level by
//! level, until a window has one run, which can have no head.
//!
//! Kernels take windows `0..` of what is bound. Parameter `total` is the number of threads that
//! have work.

use twinlock_fields::FP;

use crate::curve::{
    Curve, FP_UNITS, Formula, affine_accessor, point_accessors, point_functions, store_coordinates,
};
use crate::{Access, Arithmetic, Binding, Kernel, Module, accessors, prelude};

/// Threads of a workgroup.
pub const THREADS: u32 = 64;
/// The key of a run without a head.
pub const NO_KEY: u32 = u32::MAX;

/// Adds bases into buckets. One thread a run of `run_len` entries, `dispatch_runs` runs from
/// `run_first` of each window. Scalar i has base `bases[i - base_first]` or, if `indexed`,
/// `bases[indices[i] - base_first]`; none outside, nor where `indices[i]` is `u32::MAX`.
/// Bindings: offsets and entries (a plan's), bases, accumulator (elements), heads (elements, `runs`
/// a window), keys (words), indices (words; any unless `indexed`). Params: total, dispatch_runs,
/// run_first, runs, run_len, num_buckets, len, stride, base_first, num_bases, indexed.
pub const ACCUMULATE_G1: Kernel =
    Kernel { name: "msm_accumulate_g1", source: |a| accumulate("msm_accumulate_g1", Curve::G1, a) };
/// As [`ACCUMULATE_G1`].
pub const ACCUMULATE_G2: Kernel =
    Kernel { name: "msm_accumulate_g2", source: |a| accumulate("msm_accumulate_g2", Curve::G2, a) };
/// Folds a level of heads into the accumulator and the next level. One thread a run of `run_len`
/// heads, `runs_out` runs a window. Bindings: accumulator, heads, keys. Params: total, runs_in,
/// runs_out, run_len, in_first, out_first (of the first window, in heads), num_buckets.
pub const FOLD_G1: Kernel =
    Kernel { name: "msm_fold_g1", source: |a| fold("msm_fold_g1", Curve::G1, a) };
/// As [`FOLD_G1`].
pub const FOLD_G2: Kernel =
    Kernel { name: "msm_fold_g2", source: |a| fold("msm_fold_g2", Curve::G2, a) };
/// Sums of segments of buckets, bucket b counted b + 1 times. One thread a segment of
/// `segment_len` buckets, `segments` a window. Bindings: buckets, sums (elements). Params: total,
/// segments, segment_len, num_buckets, sums_first.
pub const SEGMENTS_G1: Kernel =
    Kernel { name: "msm_segments_g1", source: |a| segments("msm_segments_g1", Curve::G1, a) };
/// As [`SEGMENTS_G1`].
pub const SEGMENTS_G2: Kernel =
    Kernel { name: "msm_segments_g2", source: |a| segments("msm_segments_g2", Curve::G2, a) };
/// Plain sums of runs of points. One thread a run of `run_len` points, `runs_out` runs a window.
/// Bindings: sums. Params: total, runs_in, runs_out, run_len, in_first, out_first.
pub const SUM_G1: Kernel =
    Kernel { name: "msm_sum_g1", source: |a| sum("msm_sum_g1", Curve::G1, a) };
/// As [`SUM_G1`].
pub const SUM_G2: Kernel =
    Kernel { name: "msm_sum_g2", source: |a| sum("msm_sum_g2", Curve::G2, a) };
/// Points to Jacobian ones. One thread a window. Bindings: sums, windows (elements). Params: total,
/// in_first.
pub const FINISH_G1: Kernel =
    Kernel { name: "msm_finish_g1", source: |a| finish("msm_finish_g1", Curve::G1, a) };
/// As [`FINISH_G1`].
pub const FINISH_G2: Kernel =
    Kernel { name: "msm_finish_g2", source: |a| finish("msm_finish_g2", Curve::G2, a) };

/// This file's kernels.
pub const KERNELS: &[Kernel] = &[
    ACCUMULATE_G1,
    ACCUMULATE_G2,
    FOLD_G1,
    FOLD_G2,
    SEGMENTS_G1,
    SEGMENTS_G2,
    SUM_G1,
    SUM_G2,
    FINISH_G1,
    FINISH_G2,
];

fn elements(name: &'static str) -> Binding {
    Binding::elements(name, Access::ReadWrite)
}

fn words(name: &'static str) -> Binding {
    Binding::words(name, Access::ReadWrite)
}

/// Fp, the formula with `spare` slots for points, and accessors for the bindings that hold points.
fn functions(
    curve: Curve,
    formula: Formula,
    spare: usize,
    arithmetic: Arithmetic,
    names: &[&str],
) -> String {
    let mut body = prelude(&FP, arithmetic);
    body += &point_functions(curve, formula, spare, arithmetic);
    for name in names {
        body += &accessors(&FP, name, true, arithmetic);
        body += &point_accessors(curve, name);
    }
    body
}

/// Writes P where it belongs.
const FLUSH: &str = "fn flush(is_head: bool, window: u32, run: u32, bucket: u32) {
    if is_head {
        point_store_heads(P, run);
        keys[params.keys_offset + run] = bucket;
    } else {
        point_store_accumulator(P, window * params.num_buckets + bucket);
    }
}
";

/// The bucket that owns a position, at or behind the bucket `low`.
const BUCKET_AT: &str = "fn bucket_at(table: u32, first: u32, position: u32) -> u32 {
    var low = first;
    var high = params.num_buckets;
    loop {
        if low + 1u >= high { break; }
        let middle = (low + high) / 2u;
        if offsets[table + middle] <= position { low = middle; } else { high = middle; }
    }
    return low;
}
";

fn accumulate(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let names = ["accumulator", "heads"];
    let mut body = functions(curve, Formula::AddAffine, 0, arithmetic, &names);
    body += &accessors(&FP, "bases", false, arithmetic);
    body += &affine_accessor(curve, "bases");
    body += FLUSH;
    body += BUCKET_AT;
    let bindings = vec![
        words("offsets"),
        words("entries"),
        elements("bases"),
        elements("accumulator"),
        elements("heads"),
        words("keys"),
        words("indices"),
    ];
    let main = format!(
        "    if id >= params.total {{ return; }}
    let window = id / params.dispatch_runs;
    let window_run = params.run_first + id % params.dispatch_runs;
    let run = window * params.runs + window_run;
    keys[params.keys_offset + run] = {NO_KEY}u;
    let table = params.offsets_offset + window * (params.num_buckets + 1u);
    let window_entries = params.entries_offset + window * params.stride;
    let count = min(offsets[table + params.num_buckets], params.len);
    var position = window_run * params.run_len;
    let end = min(position + params.run_len, count);
    if position >= end {{ return; }}
    var bucket = bucket_at(table, 0u, position);
    var bucket_end = offsets[table + bucket + 1u];
    var is_head = offsets[table + bucket] < position;
    point_clear(P);
    if !is_head {{ point_load_accumulator(P, window * params.num_buckets + bucket); }}
    var next = entries[window_entries + position];
    loop {{
        if position >= end {{ break; }}
        if position >= bucket_end && bucket + 1u < params.num_buckets {{
            flush(is_head, window, run, bucket);
            is_head = false;
            bucket += 1u;
            if offsets[table + bucket + 1u] <= position {{
                bucket = bucket_at(table, bucket, position);
            }}
            bucket_end = offsets[table + bucket + 1u];
            point_load_accumulator(P, window * params.num_buckets + bucket);
        }}
        let entry = next;
        position += 1u;
        if position < end {{ next = entries[window_entries + position]; }}
        // An entry never names a scalar past `len`, unless the plan is none.
        var index = entry & 0x7fffffffu;
        if params.indexed != 0u {{
            let scalar = index;
            index = 0xffffffffu;
            if scalar < params.len {{ index = indices[params.indices_offset + scalar]; }}
        }}
        let base = index - params.base_first;
        if index != 0xffffffffu && base < params.num_bases {{
            affine_load_bases(base, (entry >> 31u) != 0u);
            add_affine();
        }}
    }}
    flush(is_head, window, run, bucket);"
    );
    let params = vec![
        "total",
        "dispatch_runs",
        "run_first",
        "runs",
        "run_len",
        "num_buckets",
        "len",
        "stride",
        "base_first",
        "num_bases",
        "indexed",
    ];
    Module::assemble(name, THREADS, bindings, params, &body, &main)
}

fn fold(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let names = ["accumulator", "heads"];
    let mut body = functions(curve, Formula::Add, 0, arithmetic, &names);
    body += FLUSH;
    let main = format!(
        "    if id >= params.total {{ return; }}
    let window = id / params.runs_out;
    let begin = (id % params.runs_out) * params.run_len;
    let end = min(begin + params.run_len, params.runs_in);
    let heads_in = params.in_first + window * params.runs_in;
    let run = params.out_first + id;
    keys[params.keys_offset + run] = {NO_KEY}u;
    var current = {NO_KEY}u;
    var is_head = false;
    for (var i = begin; i < end; i += 1u) {{
        let key = keys[params.keys_offset + heads_in + i];
        if key != current {{
            if current != {NO_KEY}u {{ flush(is_head, window, run, current); }}
            current = key;
            is_head = false;
            point_clear(P);
            if key != {NO_KEY}u {{
                if i == begin && i != 0u {{
                    is_head = keys[params.keys_offset + heads_in + i - 1u] == key;
                }}
                if !is_head {{
                    point_load_accumulator(P, window * params.num_buckets + key);
                }}
            }}
        }}
        if key != {NO_KEY}u {{
            point_load_heads(Q, heads_in + i);
            add();
        }}
    }}
    if current != {NO_KEY}u {{ flush(is_head, window, run, current); }}"
    );
    Module::assemble(
        name,
        THREADS,
        vec![elements("accumulator"), elements("heads"), words("keys")],
        vec!["total", "runs_in", "runs_out", "run_len", "in_first", "out_first", "num_buckets"],
        &body,
        &main,
    )
}

/// Running sums from the segment's end give sum (b - start + 1) B_b and the plain sum; start times
/// the latter, by doubling and adding, is what is missing. Every addition goes through one call.
fn segments(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let names = ["buckets", "sums"];
    let body = functions(curve, Formula::Add, 2, arithmetic, &names);
    let main = "    if id >= params.total { return; }
    let window = id / params.segments;
    let start = (id % params.segments) * params.segment_len;
    let len = min(params.segment_len, params.num_buckets - min(start, params.num_buckets));
    let bucket_end = window * params.num_buckets + start + len;
    let start_bits = 32u - countLeadingZeros(start);
    let running = SPARE;
    let weighted = SPARE + Q;
    point_clear(running);
    point_clear(weighted);
    let scaling = 2u * len;
    let last = scaling + 2u * start_bits;
    for (var i = 0u; i <= last; i += 1u) {
        let is_odd = (i & 1u) != 0u;
        var to = weighted;
        if i < scaling && !is_odd {
            to = running;
            point_load_buckets(Q, bucket_end - 1u - i / 2u);
        } else if i == last {
            point_load_sums(Q, params.sums_first + id);
        } else {
            var source = running;
            if i >= scaling && !is_odd { source = weighted; }
            point_move(Q, source);
            if i >= scaling && is_odd && ((start >> (start_bits - 1u - (i - scaling) / 2u)) & 1u) == 0u {
                point_clear(Q);
            }
        }
        point_move(P, to);
        add();
        point_move(to, P);
        if i + 1u == scaling {
            point_store_sums(weighted, params.sums_first + id);
            point_clear(weighted);
        }
    }
    point_store_sums(weighted, params.sums_first + id);";
    Module::assemble(
        name,
        THREADS,
        vec![elements("buckets"), elements("sums")],
        vec!["total", "segments", "segment_len", "num_buckets", "sums_first"],
        &body,
        main,
    )
}

fn sum(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let body = functions(curve, Formula::Add, 0, arithmetic, &["sums"]);
    let main = "    if id >= params.total { return; }
    let window = id / params.runs_out;
    let begin = (id % params.runs_out) * params.run_len;
    let end = min(begin + params.run_len, params.runs_in);
    let points = params.in_first + window * params.runs_in;
    point_clear(P);
    for (var i = begin; i < end; i += 1u) {
        point_load_sums(Q, points + i);
        add();
    }
    point_store_sums(P, params.out_first + id);";
    Module::assemble(
        name,
        THREADS,
        vec![elements("sums")],
        vec!["total", "runs_in", "runs_out", "run_len", "in_first", "out_first"],
        &body,
        main,
    )
}

fn finish(name: &'static str, curve: Curve, arithmetic: Arithmetic) -> Module {
    let mut body = functions(curve, Formula::ToJacobian, 0, arithmetic, &["sums"]);
    body += &accessors(&FP, "windows", true, arithmetic);
    let len = 3 * curve.degree();
    let stores = store_coordinates("windows", len);
    let main = format!(
        "    if id >= params.total {{ return; }}
    point_load_sums(P, params.in_first + id);
    to_jacobian();
    let at = id * {}u;
{stores}",
        len * FP_UNITS
    );
    let bindings = vec![elements("sums"), elements("windows")];
    Module::assemble(name, THREADS, bindings, vec!["total", "in_first"], &body, &main)
}
