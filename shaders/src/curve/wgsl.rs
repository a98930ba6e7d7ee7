//! Formulas as WGSL functions, in both styles, and the types that kernels hold points in.
//!
//! `Xyzz` and `Affine` have fields `c0`, `c1`, ... : the coordinates one after the other, each with
//! its coefficients.

use std::fmt::Write as _;

use super::Curve;
use crate::formula::{Opcode, Part, Rare, Reg, Routine, Step};
use crate::{Arithmetic, Style, literal};
use twinlock_fields::FP;

/// `Xyzz`, `Affine` and what needs no multiplication; goes behind the prelude of Fp.
pub fn point_types(curve: Curve) -> String {
    let (degree, affine_len, xyzz_len) = (curve.degree(), curve.affine_len(), curve.xyzz_len());
    let mut text = String::new();
    for (name, len) in [("Xyzz", xyzz_len), ("Affine", affine_len)] {
        let fields = list(len, ", ", |i| format!("c{i}: Fp"));
        let _ = writeln!(text, "struct {name} {{ {fields} }}");
    }
    let zeros = list(xyzz_len, ", ", |_| "fp_zero()".into());
    let zz = list(degree, " && ", |i| format!("fp_is_zero(p.c{})", 2 * degree + i));
    let all = list(affine_len, " && ", |i| format!("fp_is_zero(q.c{i})"));
    let negate = list(degree, " ", |i| format!("q.c{0} = fp_neg(q.c{0});", degree + i));
    let ones = list(2 * degree, ", ", |i| {
        if i % degree == 0 { "fp_one()".into() } else { "fp_zero()".into() }
    });
    let xy = list(affine_len, ", ", |i| format!("q.c{i}"));
    let _ = write!(
        text,
        "fn xyzz_identity() -> Xyzz {{ return Xyzz({zeros}); }}
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
    for (kind, ty, len) in
        [("xyzz", "Xyzz", curve.xyzz_len()), ("affine", "Affine", curve.affine_len())]
    {
        let loads = list(len, ", ", |i| format!("fp_load_{name}(at + {}u)", i * FP_UNITS));
        let units = len * FP_UNITS;
        let _ = writeln!(
            text,
            "fn {kind}_load_{name}(index: u32) -> {ty} {{ let at = index * {units}u; \
             return {ty}({loads}); }}"
        );
    }
    let units = curve.xyzz_len() * FP_UNITS;
    let stores = list(curve.xyzz_len(), " ", |i| {
        format!("fp_store_{name}(at + {}u, p.c{i});", i * FP_UNITS)
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
    let fields = list(len, ", ", |i| format!("c{i}: Fp"));
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

/// `fn decode(q: Affine) -> Decoded`: from integers read as Montgomery forms to the coordinates,
/// then y^2 - x^3 - b.
pub fn decode(curve: Curve, arithmetic: Arithmetic, style: Style) -> String {
    let mut inputs = inputs(&[("q.", curve.affine_len())]);
    inputs.push("fp_one()".into());
    inputs.push(literal(&FP, arithmetic, &FP.power_of_two(FP.radix_bits() as i32)));
    let len = 3 * curve.degree();
    let body = body(&curve.decode(), style, &inputs, &assign("result.", len));
    let fields = list(len, ", ", |i| format!("c{i}: Fp"));
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
    /// Statements that read the inputs and write the targets.
    code: String,
}

fn body(routine: &Routine, style: Style, inputs: &[String], targets: &[String]) -> Body {
    match style {
        Style::Unrolled => {
            Body { globals: String::new(), code: unrolled(routine, inputs, targets) }
        }
        Style::Compact => compact(routine, inputs, targets),
    }
}

fn unrolled(routine: &Routine, inputs: &[String], targets: &[String]) -> String {
    let mut code = String::new();
    let Rare { zeros, part, instead } = &routine.rare;
    for (i, input) in inputs.iter().enumerate() {
        let _ = writeln!(code, "let r{i} = {input};");
    }
    write_steps(&mut code, &routine.head, zeros);
    if !zeros.is_empty() {
        let zero: Vec<_> = zeros.iter().map(|r| format!("fp_is_zero(r{r})")).collect();
        let _ = writeln!(code, "let rare = {};\nif rare {{", zero.join(" && "));
        write_steps(&mut code, part, &[]);
        for (target, source) in zeros.iter().zip(instead) {
            let _ = writeln!(code, "r{target} = r{source};");
        }
        code.push_str("}\n");
    }
    write_steps(&mut code, &routine.tail, &[]);
    for (output, target) in routine.outputs.iter().zip(targets) {
        let _ = writeln!(code, "{target} = r{output};");
    }
    code
}

/// Each step as a declaration; `variable` ones are assigned again later.
fn write_steps(code: &mut String, part: &Part, variable: &[Reg]) {
    for (result, step) in (part.first..).zip(&part.steps) {
        let word = if variable.contains(&result) { "var" } else { "let" };
        let _ = match step {
            Step::Mul(a, b) => writeln!(code, "{word} r{result} = fp_mul(r{a}, r{b});"),
            Step::Sqr(a) => writeln!(code, "{word} r{result} = fp_sqr(r{a});"),
            Step::Add(a, b) => writeln!(code, "{word} r{result} = fp_add(r{a}, r{b});"),
            Step::Sub(a, b) => writeln!(code, "{word} r{result} = fp_sub(r{a}, r{b});"),
            Step::UnlessRare(a) => {
                writeln!(code, "{word} r{result} = fp_select(r{a}, fp_zero(), rare);")
            }
        };
    }
}

/// A loop over the routine's table: one call site for each kind of step. Slots hold words, for
/// software drivers gather each word of a slot by itself, and limbs may be many more.
fn compact(routine: &Routine, inputs: &[String], targets: &[String]) -> Body {
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
        let _ = writeln!(code, "slots[{i}] = fp_to_words({input});");
    }
    let zero: Vec<_> = table
        .zeros
        .iter()
        .map(|slot| format!("fp_is_zero(fp_from_words(slots[{slot}]))"))
        .collect();
    let decide = if zero.is_empty() {
        String::new()
    } else {
        format!(
            "if at == {}u {{
rare = {};
if !rare {{ at = {}u; }}
}}
",
            table.rare_at,
            zero.join(" && "),
            table.tail_at,
        )
    };
    let _ = write!(
        code,
        "var at = 0u;
var rare = false;
loop {{
{decide}if at == {len}u {{ break; }}
let step = steps[at];
at += 1u;
let a = fp_from_words(slots[(step >> 16u) & 255u]);
let b = fp_from_words(slots[step >> 24u]);
var r: Fp;
switch step & 255u {{
case {add}u: {{ r = fp_add(a, b); }}
case {sub}u: {{ r = fp_sub(a, b); }}
case {unless_rare}u: {{ r = fp_select(a, fp_zero(), rare); }}
default: {{ r = fp_mul(a, b); }}
}}
slots[(step >> 8u) & 255u] = fp_to_words(r);
}}
",
        add = Opcode::Add as u32,
        sub = Opcode::Sub as u32,
        unless_rare = Opcode::UnlessRare as u32,
    );
    for (slot, target) in table.outputs.iter().zip(targets) {
        let _ = writeln!(code, "{target} = fp_from_words(slots[{slot}]);");
    }
    Body { globals, code }
}
