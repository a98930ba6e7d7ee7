//! Formulas as WGSL functions, and points in memory.
//!
//! A kernel has one formula. Its operands lie in private *slots*, packed values that a loop over the
//! formula's table computes with: the first point, and the result, at `P` = 0, the second at `Q`;
//! spare points from `SPARE` on. Loops move them, so that what moving costs in text is there once.
//! Points of an MSM's own lie in memory as in slots: loose, in the radix of the kernel; ZZ = 0 is
//! the identity. Affine points come from others, in canonical form.

use super::Curve;
use crate::Arithmetic;
use crate::field::{kernel_radix_bits, literal, loose};
use crate::formula::{Opcode, Routine};
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
) -> String {
    let body = interpreter(&formula.routine(curve));
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

/// A loop over the routine's table: one call of each operation, for text takes long to compile and
/// GPUs hold few instructions near. A square's operand is named twice, and multiplied by itself.
/// Slots are packed: limbs may be many more than words.
fn interpreter(routine: &Routine) -> Body {
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
default: {{ r = fp_to_words(fp_mul_loose(a, b)); }}
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
