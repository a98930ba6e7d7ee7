//! Formulas as WGSL functions, in every style, and points in memory.
//!
//! A kernel has one formula. Its operands lie in private *slots*, packed values that the compact
//! styles' loop computes with: the first point, and the result, at `P` = 0, the second at `Q`; spare
//! points from `SPARE` on. Loops move them, so that what moving costs in text is there once.
//! Points of an MSM's own lie in memory as in slots: loose, in the radix of the kernel; ZZ = 0 is
//! the identity. Affine points come from others, in canonical form.

use std::fmt::Write as _;

use super::Curve;
use crate::field::{kernel_radix_bits, literal, loose};
use crate::formula::{Opcode, Part, Rare, Reg, Routine, Step};
use crate::{Arithmetic, Style};
use twinlock_fields::FP;

/// 16-byte units of an element of Fp.
pub const FP_UNITS: usize = 3;

/// What a kernel does with points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// `add_affine()`: P += Q, Q affine.
    AddAffine,
    /// `add()`: P += Q.
    Add,
    /// `to_jacobian()`: P as X, Y, Z.
    ToJacobian,
    /// `decode()`: from integers x, y, packed as they are, to the coordinates and y^2 - x^3 - b.
    Decode,
}

impl Formula {
    fn routine(self, curve: Curve) -> Routine {
        match self {
            Self::AddAffine => curve.add_affine(),
            Self::Add => curve.add(),
            Self::ToJacobian => curve.to_jacobian(),
            Self::Decode => curve.decode(),
        }
    }
}

/// The slots with room for `spare` more points, the formula's function, and
/// `point_clear(at) point_move(to, source) point_is_identity(at)`; goes behind the prelude of Fp.
pub fn point_functions(
    curve: Curve,
    formula: Formula,
    spare: usize,
    arithmetic: Arithmetic,
    style: Style,
) -> String {
    let routine = formula.routine(curve);
    let body = match style {
        Style::Unrolled => unrolled(&routine),
        Style::Compact => compact(&routine, false),
        Style::Squared => compact(&routine, true),
    };
    let (degree, affine_len, len) = (curve.degree(), curve.affine_len(), curve.xyzz_len());
    let zero = |first: usize, count: usize| {
        list(count, " && ", |i| format!("fp_words_are_zero(slots[at + {}u])", first + i))
    };
    let one = |at: usize| {
        list(degree, "\n", |i| {
            let value = if i == 0 { "fp_to_words(fp_one())" } else { "FpWords()" };
            format!("slots[{}] = {value};", at + i)
        })
    };
    let function = match formula {
        Formula::AddAffine => format!(
            "fn add_affine() {{
if !affine_is_identity(Q) {{
if point_is_identity(P) {{
for (var i = 0u; i < {affine_len}u; i += 1u) {{ slots[i] = slots[Q + i]; }}
{}
{}
}} else {{
{}}}
}}
}}
",
            one(2 * degree),
            one(3 * degree),
            body.code
        ),
        Formula::Add => format!(
            "fn add() {{
if !point_is_identity(Q) {{
if point_is_identity(P) {{ point_move(P, Q); }} else {{
{}}}
}}
}}
",
            body.code
        ),
        Formula::ToJacobian => format!("fn to_jacobian() {{\n{}}}\n", body.code),
        Formula::Decode => {
            // Read as an in-kernel value, an integer v stands for v over the radix.
            let radix = FP.power_of_two(kernel_radix_bits(&FP, arithmetic) as i32);
            let radix = literal(&FP, arithmetic, &radix);
            format!(
                "fn decode() {{
slots[{affine_len}] = fp_to_words(fp_one());
slots[{}] = fp_to_words({radix});
{}}}
",
                affine_len + 1,
                body.code
            )
        }
    };
    format!(
        "{loose}const P: u32 = 0u;
const Q: u32 = {len}u;
const SPARE: u32 = {slots}u;
var<private> slots: array<FpWords, {all}>;
{globals}fn point_clear(at: u32) {{
for (var i = 0u; i < {len}u; i += 1u) {{ slots[at + i] = FpWords(); }}
}}
fn point_move(to: u32, source: u32) {{
for (var i = 0u; i < {len}u; i += 1u) {{ slots[to + i] = slots[source + i]; }}
}}
fn point_is_identity(at: u32) -> bool {{ return {zz}; }}
fn affine_is_identity(at: u32) -> bool {{ return {xy}; }}
{function}",
        loose = loose(&FP, arithmetic),
        slots = body.slots,
        all = body.slots + spare * len,
        globals = body.globals,
        zz = zero(2 * degree, degree),
        xy = zero(0, affine_len),
    )
}

/// `point_load_NAME(to, index)` and `point_store_NAME(source, index)`, `index` counting points from
/// the start of the binding's view; goes behind Fp's accessors for that binding.
pub fn point_accessors(curve: Curve, name: &str) -> String {
    let len = curve.xyzz_len();
    let units = len * FP_UNITS;
    format!(
        "fn point_load_{name}(to: u32, index: u32) {{
for (var i = 0u; i < {len}u; i += 1u) {{
slots[to + i] = fp_load_words_{name}(index * {units}u + {FP_UNITS}u * i);
}}
}}
fn point_store_{name}(source: u32, index: u32) {{
for (var i = 0u; i < {len}u; i += 1u) {{
fp_store_words_{name}(index * {units}u + {FP_UNITS}u * i, slots[source + i]);
}}
}}
"
    )
}

/// `affine_load_NAME(index, negate)`: a point of canonical form, or its negative, to `Q`.
pub fn affine_accessor(curve: Curve, name: &str) -> String {
    let (len, degree) = (curve.affine_len(), curve.degree());
    let units = len * FP_UNITS;
    format!(
        "fn affine_load_{name}(index: u32, negate: bool) {{
for (var i = 0u; i < {len}u; i += 1u) {{
let raw = fp_load_raw_{name}(index * {units}u + {FP_UNITS}u * i);
var words = fp_to_words(fp_raw_to_loose(raw));
if negate && i >= {degree}u {{ words = fp_words_neg(words); }}
slots[Q + i] = words;
}}
}}
"
    )
}

/// Statements that store slots `0..len` in canonical form, by `name`'s accessors from unit `at` on.
pub fn store_coordinates(name: &str, len: usize) -> String {
    format!(
        "    for (var i = 0u; i < {len}u; i += 1u) {{
        fp_store_{name}(at + {FP_UNITS}u * i, fp_tighten(fp_from_words(slots[i])));
    }}"
    )
}

/// `len` texts with a separator between.
pub(crate) fn list(len: usize, separator: &str, item: impl FnMut(usize) -> String) -> String {
    (0..len).map(item).collect::<Vec<_>>().join(separator)
}

/// A routine in WGSL.
struct Body {
    /// Module-scope declarations.
    globals: String,
    /// Statements from inputs in slots to outputs in slots, both from 0 on.
    code: String,
    /// Slots that it needs.
    slots: usize,
}

fn unrolled(routine: &Routine) -> Body {
    let mut code = String::new();
    let Rare { zeros, part, instead } = &routine.rare;
    for i in 0..routine.num_inputs {
        let _ = writeln!(code, "let r{i} = fp_from_words(slots[{i}]);");
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
    for (slot, output) in routine.outputs.iter().enumerate() {
        let _ = writeln!(code, "slots[{slot}] = fp_to_words(r{output});");
    }
    let slots = routine.outputs.len().max(routine.num_inputs.into());
    Body { globals: String::new(), code, slots }
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
fn compact(routine: &Routine, squares: bool) -> Body {
    let table = routine.encode();
    let words = table.words.iter().map(|word| format!("{word}u")).collect::<Vec<_>>().join(", ");
    let (len, slots) = (table.words.len(), table.num_slots);
    let globals = format!("var<private> steps: array<u32, {len}> = array<u32, {len}>({words});\n");
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
    let code = format!(
        "var at = 0u;
var rare = false;
loop {{
{decide}if at == {len}u {{ break; }}
let step = steps[at];
at += 1u;
let opcode = step & 255u;
var r = slots[(step >> 16u) & 255u];
if opcode < {unless_rare}u {{
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
    Body { globals, code, slots }
}
