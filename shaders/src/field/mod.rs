//! Field arithmetic in WGSL.
//!
//! [`prelude`] declares a struct (`Fr`, `Fp`: the in-kernel form) and, with F its lower-case name,
//! `F_zero() F_one() F_is_zero(a) F_eq(a, b) F_add(a, b) F_sub(a, b) F_neg(a) F_mul(a, b) F_sqr(a)
//! F_select(if_false, if_true, condition)`. Values are below the modulus at these borders.
//!
//! An in-kernel value is in Montgomery form for a radix of the arithmetic's own: 2^(32 * limbs),
//! that of memory, for [`Arithmetic::Wide`]; 2^260 (Fr) and 2^390 (Fp) for [`Arithmetic::Narrow`];
//! 2^261 and 2^392 for [`Arithmetic::Sparse`].
//! A *raw* value is one whose radix is still memory's. Sums of raw values are raw, and so is the
//! product of a raw value and an in-kernel one: `a * M * b * K / K = a * b * M`. So a kernel that
//! multiplies by in-kernel constants can leave its data raw and save the conversion.
//!
//! `F_from_words(FWords) -> F` and `F_to_words(F) -> FWords` repack limbs without changing the
//! value, for workgroup memory; `FWords` is `w0, w1` (and `w2`) of `vec4<u32>`.
//! `F_words_below_modulus(FWords) -> bool` tells whether words are a value at all.
//! `F_raw_to_kernel(a)` and `F_kernel_to_raw(a)` change the radix.

mod code;
mod sparse;
mod wide;

use twinlock_fields::Field;

use crate::Arithmetic;
use code::Code;

/// What the text of an arithmetic is made of.
struct Form {
    field: Field,
    /// Limbs of the in-kernel form.
    count: usize,
    /// Bits of a limb.
    width: u32,
}

impl Form {
    fn new(field: &Field, arithmetic: Arithmetic) -> Self {
        let width = match arithmetic {
            Arithmetic::Wide => 32,
            Arithmetic::Sparse | Arithmetic::Narrow => sparse::width(arithmetic, field.limbs),
        };
        Self { field: *field, count: field.bits.div_ceil(width) as usize, width }
    }

    /// Name of the struct.
    fn ty(&self) -> &'static str {
        if self.field.name == "fr" { "Fr" } else { "Fp" }
    }

    /// All bits of a limb, of fewer than 32.
    fn mask(&self) -> u32 {
        (1 << self.width) - 1
    }

    fn modulus(&self) -> Vec<u32> {
        self.field.modulus_limbs(self.width, self.count)
    }

    /// Twice the modulus.
    fn twice_modulus(&self) -> Vec<u32> {
        twinlock_fields::split_limbs(&self.twice_modulus_words(), self.width, self.count)
    }

    /// Twice the modulus, which has room in the words of one.
    fn twice_modulus_words(&self) -> Vec<u32> {
        let mut carry = 0;
        let twice = |word: &u32| {
            let twice = word << 1 | carry;
            carry = word >> 31;
            twice
        };
        self.field.modulus.iter().map(twice).collect()
    }

    /// log2 of the in-kernel radix.
    fn radix_bits(&self) -> u32 {
        self.width * self.count as u32
    }

    /// In-kernel radix over that of memory, as a power of two.
    fn radix_excess(&self) -> u32 {
        self.radix_bits() - self.field.radix_bits()
    }

    /// A value of the struct from one expression a limb.
    fn value(&self, limb: impl Fn(usize) -> String) -> String {
        let limbs: Vec<_> = (0..self.count).map(limb).collect();
        format!("{}({})", self.ty(), limbs.join(", "))
    }

    /// `vec4`s of a value in memory.
    fn quads(&self) -> usize {
        self.field.limbs / 4
    }
}

/// A constant in in-kernel form; `standard` is an integer below the modulus.
pub fn literal(field: &Field, arithmetic: Arithmetic, standard: &[u32]) -> String {
    let form = Form::new(field, arithmetic);
    let radix = field.power_of_two(form.radix_bits() as i32);
    let value = field.mul(standard, &radix);
    let limbs = twinlock_fields::split_limbs(&value, form.width, form.count);
    form.value(|i| format!("{}u", limbs[i]))
}

/// The struct and functions of `field`; see the module's documentation.
pub fn prelude(field: &Field, arithmetic: Arithmetic) -> String {
    let form = Form::new(field, arithmetic);
    let (f, ty) = (field.name, form.ty());
    let mut code = Code::default();
    code.open(format!("struct {ty}"));
    for i in 0..form.count {
        code.line(format!("l{i}: u32,"));
    }
    code.close();
    code.open(format!("struct {ty}Words"));
    for i in 0..form.quads() {
        code.line(format!("w{i}: vec4<u32>,"));
    }
    code.close();
    for (name, value) in [("zero", field.small(0)), ("one", field.small(1))] {
        code.open(format!("fn {f}_{name}() -> {ty}"));
        code.line(format!("return {};", literal(field, arithmetic, &value)));
        code.close();
    }
    let any =
        |limb: &dyn Fn(usize) -> String| (0..form.count).map(limb).collect::<Vec<_>>().join(" | ");
    code.open(format!("fn {f}_is_zero(a: {ty}) -> bool"));
    code.line(format!("return ({}) == 0u;", any(&|i| format!("a.l{i}"))));
    code.close();
    code.open(format!("fn {f}_eq(a: {ty}, b: {ty}) -> bool"));
    code.line(format!("return ({}) == 0u;", any(&|i| format!("(a.l{i} ^ b.l{i})"))));
    code.close();
    code.open(format!("fn {f}_select(if_false: {ty}, if_true: {ty}, condition: bool) -> {ty}"));
    let select = form.value(|i| format!("select(if_false.l{i}, if_true.l{i}, condition)"));
    code.line(format!("return {select};"));
    code.close();
    code.open(format!("fn {f}_words_below_modulus(words: {ty}Words) -> bool"));
    code.line("var below = false;");
    for (i, limb) in field.modulus.iter().enumerate() {
        let word = format!("words.w{}[{}]", i / 4, i % 4);
        code.line(format!("below = {word} < {limb}u || ({word} == {limb}u && below);"));
    }
    code.line("return below;");
    code.close();
    match arithmetic {
        Arithmetic::Wide => wide::write(&form, &mut code),
        Arithmetic::Sparse | Arithmetic::Narrow => sparse::write(&form, &mut code),
    }
    code.open(format!("fn {f}_neg(a: {ty}) -> {ty}"));
    code.line(format!("return {f}_sub({f}_zero(), a);"));
    code.close();
    code.text
}

/// What formulas compute with, behind [`prelude`]. A *loose* value is below twice the modulus where
/// that saves work (every arithmetic but [`Arithmetic::Wide`]), else below it:
/// `F_add_loose F_sub_loose F_mul_loose` are of and give loose values, and
/// `F_tighten(a)` is below the modulus, `F_raw_to_loose(a)` is a raw value's. Between them values
/// lie packed, as `FWords`: `F_words_are_zero(w)` tells whether a loose value stands for zero,
/// `F_words_neg(w)` is its negative.
pub fn loose(field: &Field, arithmetic: Arithmetic) -> String {
    let form = Form::new(field, arithmetic);
    let (f, ty) = (field.name, form.ty());
    let mut code = Code::default();
    let word = |i: usize| format!("words.w{}[{}]", i / 4, i % 4);
    let any =
        |word: &dyn Fn(usize) -> String| (0..field.limbs).map(word).collect::<Vec<_>>().join(" | ");
    let is_zero = format!("({}) == 0u", any(&word));
    code.open(format!("fn {f}_words_are_zero(words: {ty}Words) -> bool"));
    if arithmetic == Arithmetic::Wide {
        code.line(format!("return {is_zero};"));
    } else {
        let differs = any(&|i| format!("({} ^ {}u)", word(i), field.modulus[i]));
        code.line(format!("return {is_zero} || ({differs}) == 0u;"));
    }
    code.close();
    code.open(format!("fn {f}_words_neg(words: {ty}Words) -> {ty}Words"));
    code.line(format!("if {is_zero} {{ return words; }}"));
    let bound = if arithmetic == Arithmetic::Wide {
        field.modulus.to_vec()
    } else {
        form.twice_modulus_words()
    };
    for (i, limb) in bound.iter().enumerate() {
        let (word, before) = (word(i), i.wrapping_sub(1));
        code.line(format!("let t{i} = {limb}u - {word};"));
        if i == 0 {
            code.line(format!("let d{i} = t{i};"));
            code.line(format!("let b{i} = u32({word} > {limb}u);"));
        } else {
            code.line(format!("let d{i} = t{i} - b{before};"));
            code.line(format!("let b{i} = u32({word} > {limb}u || t{i} < b{before});"));
        }
    }
    let quad = |i: usize| {
        let words: Vec<_> = (4 * i..4 * i + 4).map(|i| format!("d{i}")).collect();
        format!("vec4<u32>({})", words.join(", "))
    };
    let quads: Vec<_> = (0..form.quads()).map(quad).collect();
    code.line(format!("return {ty}Words({});", quads.join(", ")));
    code.close();
    if arithmetic != Arithmetic::Wide {
        sparse::write_loose(&form, &mut code);
        return code.text;
    }
    for name in ["add", "sub", "mul"] {
        code.open(format!("fn {f}_{name}_loose(a: {ty}, b: {ty}) -> {ty}"));
        code.line(format!("return {f}_{name}(a, b);"));
        code.close();
    }
    for name in ["tighten", "raw_to_loose"] {
        code.open(format!("fn {f}_{name}(a: {ty}) -> {ty}"));
        code.line("return a;");
        code.close();
    }
    code.text
}

/// The power of two by which [`Arithmetic`]'s in-kernel form multiplies.
pub fn kernel_radix_bits(field: &Field, arithmetic: Arithmetic) -> u32 {
    Form::new(field, arithmetic).radix_bits()
}

/// Functions to read and, if `read_write`, write elements of `field` in the storage binding
/// `binding`, an `array<vec4<u32>>`: `F_load_NAME(at)`, `F_store_NAME(at, value)` and their raw
/// twins `F_load_raw_NAME`, `F_store_raw_NAME`; `F_load_words_NAME` and `F_store_words_NAME` move
/// `FWords` as they are. `at` counts 16-byte units from the view's start,
/// which is `params.NAME_offset` units into the array.
pub fn accessors(field: &Field, binding: &str, read_write: bool, arithmetic: Arithmetic) -> String {
    let form = Form::new(field, arithmetic);
    let (f, ty) = (field.name, form.ty());
    let same_radix = form.radix_excess() == 0;
    let mut code = Code::default();
    code.open(format!("fn {f}_load_words_{binding}(at: u32) -> {ty}Words"));
    code.line(format!("let start = params.{binding}_offset + at;"));
    let quads: Vec<_> = (0..form.quads()).map(|i| format!("{binding}[start + {i}u]")).collect();
    code.line(format!("return {ty}Words({});", quads.join(", ")));
    code.close();
    code.open(format!("fn {f}_load_raw_{binding}(at: u32) -> {ty}"));
    code.line(format!("return {f}_from_words({f}_load_words_{binding}(at));"));
    code.close();
    code.open(format!("fn {f}_load_{binding}(at: u32) -> {ty}"));
    let raw = format!("{f}_load_raw_{binding}(at)");
    code.line(if same_radix {
        format!("return {raw};")
    } else {
        format!("return {f}_raw_to_kernel({raw});")
    });
    code.close();
    if read_write {
        code.open(format!("fn {f}_store_words_{binding}(at: u32, words: {ty}Words)"));
        code.line(format!("let start = params.{binding}_offset + at;"));
        for i in 0..form.quads() {
            code.line(format!("{binding}[start + {i}u] = words.w{i};"));
        }
        code.close();
        code.open(format!("fn {f}_store_raw_{binding}(at: u32, value: {ty})"));
        code.line(format!("{f}_store_words_{binding}(at, {f}_to_words(value));"));
        code.close();
        code.open(format!("fn {f}_store_{binding}(at: u32, value: {ty})"));
        let value =
            if same_radix { "value".to_owned() } else { format!("{f}_kernel_to_raw(value)") };
        code.line(format!("{f}_store_raw_{binding}(at, {value});"));
        code.close();
    }
    code.text
}
