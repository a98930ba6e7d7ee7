//! Formulas as WGSL functions, in both styles, and the types that kernels hold points in.
//!
//! `Xyzz` and `Affine` have fields `c0`, `c1`, ... : the coordinates one after the other, each with
//! its coefficients, packed into words. Points of an MSM's own lie in memory as they are in here:
//! loose, in the radix of the kernel; zeros are the identity. Affine points come from others, in
//! canonical form.

use std::fmt::Write as _;

use super::Curve;
use crate::field::{kernel_radix_bits, literal, loose};
use crate::formula::{Opcode, Part, Rare, Reg, Routine, Step};
use crate::{Arithmetic, Style};
use twinlock_fields::FP;

/// `Xyzz`, `Affine` and what needs no multiplication; goes behind the prelude of Fp.
pub fn point_types(curve: Curve, arithmetic: Arithmetic) -> String {
    let (degree, affine_len, xyzz_len) = (curve.degree(), curve.affine_len(), curve.xyzz_len());
    let mut text = loose(&FP, arithmetic);
    for (name, len) in [("Xyzz", xyzz_len), ("Affine", affine_len)] {
        let fields = list(len, ", ", |i| format!("c{i}: FpWords"));
        let _ = writeln!(text, "struct {name} {{ {fields} }}");
    }
    let zz = list(degree, " && ", |i| format!("fp_words_are_zero(p.c{})", 2 * degree + i));
    let all = list(affine_len, " && ", |i| format!("fp_words_are_zero(q.c{i})"));
    let negate = list(degree, " ", |i| format!("q.c{0} = fp_words_neg(q.c{0});", degree + i));
    let ones = list(2 * degree, ", ", |i| {
        if i % degree == 0 { "fp_to_words(fp_one())".into() } else { "FpWords()".into() }
    });
    let xy = list(affine_len, ", ", |i| format!("q.c{i}"));
    let _ = write!(
        text,
        "fn xyzz_identity() -> Xyzz {{ return Xyzz(); }}
fn xyzz_is_identity(p: Xyzz) -> bool {{ return {zz}; }}
fn affine_is_identity(q: Affine) -> bool {{ return {all}; }}
fn affine_negate(point: Affine) -> Affine {{ var q = point; {negate} return q; }}
fn affine_to_xyzz(q: Affine) -> Xyzz {{ return Xyzz({xy}, {ones}); }}
"
    );
    text
}

/// `xyzz_load_NAME`, `xyzz_store_NAME` and `affine_load_NAME`, by the index of a point counted from
/// the start of the binding's view; goes behind Fp's accessors for that binding.
pub fn point_accessors(curve: Curve, name: &str) -> String {
    let mut text = String::new();
    let words = |at: String| format!("fp_load_words_{name}({at})");
    let converted = |at: String| format!("fp_to_words(fp_raw_to_loose(fp_load_raw_{name}({at})))");
    let kinds: [(_, _, _, &dyn Fn(String) -> String); 2] = [
        ("xyzz", "Xyzz", curve.xyzz_len(), &words),
        ("affine", "Affine", curve.affine_len(), &converted),
    ];
    for (kind, ty, len, load) in kinds {
        let loads = list(len, ", ", |i| load(format!("at + {}u", i * FP_UNITS)));
        let units = len * FP_UNITS;
        let _ = writeln!(
            text,
            "fn {kind}_load_{name}(index: u32) -> {ty} {{ let at = index * {units}u; \
             return {ty}({loads}); }}"
        );
    }
    let units = curve.xyzz_len() * FP_UNITS;
    let stores = list(curve.xyzz_len(), " ", |i| {
        format!("fp_store_words_{name}(at + {}u, p.c{i});", i * FP_UNITS)
    });
    let _ = writeln!(
        text,
        "fn xyzz_store_{name}(index: u32, p: Xyzz) {{ let at = index * {units}u; {stores} }}"
    );
    text
}

/// 16-byte units of an element of Fp.
pub const FP_UNITS: usize = 3;

/// `fn add_affine(p: ptr<function, Xyzz>, q: Affine)`: P += Q in every case.
pub fn add_affine(curve: Curve, style: Style) -> String {
    let inputs = inputs(&[("(*p).", curve.xyzz_len()), ("q.", curve.affine_len())]);
    let body = body(&curve.add_affine(), style, &inputs, &assign("(*p).", curve.xyzz_len()));
    format!(
        "{}fn add_affine(p: ptr<function, Xyzz>, q: Affine) {{
if affine_is_identity(q) {{ return; }}
if xyzz_is_identity(*p) {{ *p = affine_to_xyzz(q); return; }}
{}}}
",
        body.globals, body.code
    )
}

/// `fn add(p: ptr<function, Xyzz>, q: Xyzz)`: P += Q in every case.
pub fn add(curve: Curve, style: Style) -> String {
    let inputs = inputs(&[("(*p).", curve.xyzz_len()), ("q.", curve.xyzz_len())]);
    let body = body(&curve.add(), style, &inputs, &assign("(*p).", curve.xyzz_len()));
    format!(
        "{}fn add(p: ptr<function, Xyzz>, q: Xyzz) {{
if xyzz_is_identity(q) {{ return; }}
if xyzz_is_identity(*p) {{ *p = q; return; }}
{}}}
",
        body.globals, body.code
    )
}

/// `fn to_jacobian(p: Xyzz) -> Jacobian`.
pub fn to_jacobian(curve: Curve, style: Style) -> String {
    let inputs = inputs(&[("p.", curve.xyzz_len())]);
    let len = 3 * curve.degree();
    let body = body(&curve.to_jacobian(), style, &inputs, &assign("result.", len));
    let fields = list(len, ", ", |i| format!("c{i}: FpWords"));
    format!(
        "struct Jacobian {{ {fields} }}
{}fn to_jacobian(p: Xyzz) -> Jacobian {{
var result: Jacobian;
{}return result;
}}
",
        body.globals, body.code
    )
}

/// `fn decode(q: Affine) -> Decoded`: from integers, packed as they are, to the coordinates, then
/// y^2 - x^3 - b.
pub fn decode(curve: Curve, arithmetic: Arithmetic, style: Style) -> String {
    let mut inputs = inputs(&[("q.", curve.affine_len())]);
    inputs.push("fp_to_words(fp_one())".into());
    // Read as an in-kernel value, an integer v stands for v over the radix.
    let radix = FP.power_of_two(kernel_radix_bits(&FP, arithmetic) as i32);
    let radix = literal(&FP, arithmetic, &radix);
    inputs.push(format!("fp_to_words({radix})"));
    let len = 3 * curve.degree();
    let body = body(&curve.decode(), style, &inputs, &assign("result.", len));
    let fields = list(len, ", ", |i| format!("c{i}: FpWords"));
    format!(
        "struct Decoded {{ {fields} }}
{}fn decode(q: Affine) -> Decoded {{
var result: Decoded;
{}return result;
}}
",
        body.globals, body.code
    )
}

/// Statements that store coordinates `0..len` of `point` in canonical form, by `name`'s accessors
/// from unit `at` on. A loop, for what a value costs here is written once then.
pub fn store_coordinates(name: &str, point: &str, len: usize) -> String {
    let values = list(len, ", ", |i| format!("{point}.c{i}"));
    format!(
        "var coordinates = array<FpWords, {len}>({values});
for (var i = 0u; i < {len}u; i += 1u) {{
fp_store_{name}(at + {FP_UNITS}u * i, fp_tighten(fp_from_words(coordinates[i])));
}}
"
    )
}

/// `len` texts with a separator between.
pub(crate) fn list(len: usize, separator: &str, item: impl FnMut(usize) -> String) -> String {
    (0..len).map(item).collect::<Vec<_>>().join(separator)
}

fn inputs(parts: &[(&str, usize)]) -> Vec<String> {
    parts.iter().flat_map(|(prefix, len)| (0..*len).map(move |i| format!("{prefix}c{i}"))).collect()
}

fn assign(prefix: &str, len: usize) -> Vec<String> {
    (0..len).map(|i| format!("{prefix}c{i}")).collect()
}

/// A routine in WGSL.
struct Body {
    /// Module-scope declarations.
    globals: String,
    /// Statements that read the inputs and write the targets, all of them packed.
    code: String,
}

fn body(routine: &Routine, style: Style, inputs: &[String], targets: &[String]) -> Body {
    match style {
        Style::Unrolled => {
            Body { globals: String::new(), code: unrolled(routine, inputs, targets) }
        }
        Style::Compact => compact(routine, false, inputs, targets),
        Style::Squared => compact(routine, true, inputs, targets),
    }
}

fn unrolled(routine: &Routine, inputs: &[String], targets: &[String]) -> String {
    let mut code = String::new();
    let Rare { zeros, part, instead } = &routine.rare;
    for (i, input) in inputs.iter().enumerate() {
        let _ = writeln!(code, "let r{i} = fp_from_words({input});");
    }
    write_steps(&mut code, &routine.head, zeros);
    if !zeros.is_empty() {
        let zero: Vec<_> =
            zeros.iter().map(|r| format!("fp_words_are_zero(fp_to_words(r{r}))")).collect();
        let _ = writeln!(code, "let rare = {};\nif rare {{", zero.join(" && "));
        write_steps(&mut code, part, &[]);
        for (target, source) in zeros.iter().zip(instead) {
            let _ = writeln!(code, "r{target} = r{source};");
        }
        code.push_str("}\n");
    }
    write_steps(&mut code, &routine.tail, &[]);
    for (output, target) in routine.outputs.iter().zip(targets) {
        let _ = writeln!(code, "{target} = fp_to_words(r{output});");
    }
    code
}

/// Each step as a declaration; `variable` ones are assigned again later.
fn write_steps(code: &mut String, part: &Part, variable: &[Reg]) {
    for (result, step) in (part.first..).zip(&part.steps) {
        let word = if variable.contains(&result) { "var" } else { "let" };
        let _ = match step {
            Step::Mul(a, b) => writeln!(code, "{word} r{result} = fp_mul_loose(r{a}, r{b});"),
            Step::Sqr(a) => writeln!(code, "{word} r{result} = fp_sqr_loose(r{a});"),
            Step::Add(a, b) => writeln!(code, "{word} r{result} = fp_add_loose(r{a}, r{b});"),
            Step::Sub(a, b) => writeln!(code, "{word} r{result} = fp_sub_loose(r{a}, r{b});"),
            Step::UnlessRare(a) => {
                writeln!(code, "{word} r{result} = fp_select(r{a}, fp_zero(), rare);")
            }
        };
    }
}

/// A loop over the routine's table: one call site for each kind of step, of squares only if
/// `squares`. Slots are packed: limbs may be many more than words.
fn compact(routine: &Routine, squares: bool, inputs: &[String], targets: &[String]) -> Body {
    let table = routine.encode();
    let words = table.words.iter().map(|word| format!("{word}u")).collect::<Vec<_>>().join(", ");
    let (len, slots) = (table.words.len(), table.num_slots.max(inputs.len()));
    let globals = format!(
        "var<private> steps: array<u32, {len}> = array<u32, {len}>({words});
var<private> slots: array<FpWords, {slots}>;
"
    );
    let mut code = String::new();
    for (i, input) in inputs.iter().enumerate() {
        let _ = writeln!(code, "slots[{i}] = {input};");
    }
    let zero: Vec<_> =
        table.zeros.iter().map(|slot| format!("fp_words_are_zero(slots[{slot}])")).collect();
    let (decide, zero_if_rare) = if zero.is_empty() {
        (String::new(), String::new())
    } else {
        let decide = format!(
            "if at == {}u {{
rare = {};
if !rare {{ at = {}u; }}
}}
",
            table.rare_at,
            zero.join(" && "),
            table.tail_at,
        );
        let unless_rare = Opcode::UnlessRare as u32;
        let zero = format!("if rare && opcode == {unless_rare}u {{ r = FpWords(); }}\n");
        (decide, zero)
    };
    let square = Opcode::Sqr as u32;
    let square = if squares {
        format!("case {square}u: {{ r = fp_to_words(fp_sqr_loose(a)); }}\n")
    } else {
        String::new()
    };
    let _ = write!(
        code,
        "var at = 0u;
var rare = false;
loop {{
{decide}if at == {len}u {{ break; }}
let step = steps[at];
at += 1u;
let opcode = step & 255u;
var r = slots[(step >> 16u) & 255u];
if opcode != {unless_rare}u {{
let a = fp_from_words(r);
let b = fp_from_words(slots[step >> 24u]);
switch opcode {{
case {add}u: {{ r = fp_to_words(fp_add_loose(a, b)); }}
case {sub}u: {{ r = fp_to_words(fp_sub_loose(a, b)); }}
{square}default: {{ r = fp_to_words(fp_mul_loose(a, b)); }}
}}
}}
{zero_if_rare}slots[(step >> 8u) & 255u] = r;
}}
",
        add = Opcode::Add as u32,
        sub = Opcode::Sub as u32,
        unless_rare = Opcode::UnlessRare as u32,
    );
    for (slot, target) in table.outputs.iter().zip(targets) {
        let _ = writeln!(code, "{target} = slots[{slot}];");
    }
    Body { globals, code }
}
