//! Limbs of so few bits that a column of products adds up without a carry: 60 of 26 bits in 32
//! bits ([`Arithmetic::Narrow`]), 28 of 56 or 18 of 58 bits in 64 ([`Arithmetic::Sparse`]).

use super::Form;
use super::code::Code;
use crate::Arithmetic;

/// Bits of a limb.
pub(super) fn width(arithmetic: Arithmetic, limbs: usize) -> u32 {
    match arithmetic {
        Arithmetic::Narrow => 13,
        _ if limbs == 8 => 29,
        _ => 28,
    }
}

/// The type of a column of products.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    U32,
    U64,
}

impl Column {
    /// For `form`, by what fits.
    fn of(form: &Form) -> Self {
        if form.width <= 16 { Self::U32 } else { Self::U64 }
    }

    /// A `u32` expression as a column.
    fn widen(self, expression: &str) -> String {
        match self {
            Self::U32 => expression.to_owned(),
            Self::U64 => format!("u64({expression})"),
        }
    }

    /// The low 32 bits of a column.
    fn low(self, expression: &str) -> String {
        match self {
            Self::U32 => expression.to_owned(),
            Self::U64 => format!("u32({expression})"),
        }
    }

    /// A literal.
    fn literal(self, value: u32) -> String {
        match self {
            Self::U32 => format!("{value}u"),
            Self::U64 => format!("{value}lu"),
        }
    }

    /// The signed type.
    fn signed(self) -> &'static str {
        match self {
            Self::U32 => "i32",
            Self::U64 => "i64",
        }
    }
}

pub(super) fn write(form: &Form, code: &mut Code) {
    let p = form.modulus();
    add_and_sub(form, "", &p, code);
    mul(form, "", &p, code);
    sqr(form, &p, code);
    words(form, code);
    raw_to_kernel(form, &p, true, code);
    kernel_to_raw(form, &p, code);
}

/// The functions of [`super::loose`]. A product of values below 2 p is below
/// `p (1 + 4 p / radix)`, and there are nine bits between p and the radix, so it needs no
/// subtraction.
pub(super) fn write_loose(form: &Form, code: &mut Code) {
    let (f, ty) = (form.field.name, form.ty());
    let (p, twice) = (form.modulus(), form.twice_modulus());
    add_and_sub(form, "_loose", &twice, code);
    mul(form, "_loose", &p, code);
    raw_to_kernel(form, &p, false, code);
    code.open(format!("fn {f}_tighten(a: {ty}) -> {ty}"));
    for i in 0..form.count {
        code.line(format!("let t{i} = a.l{i};"));
    }
    carry_and_subtract(form, &p, Column::U32, code);
    code.close();
}

/// Sum and difference of values below `bound`.
fn add_and_sub(form: &Form, suffix: &str, bound: &[u32], code: &mut Code) {
    let (f, ty, n) = (form.field.name, form.ty(), form.count);
    let (width, mask) = (form.width, form.mask());
    code.open(format!("fn {f}_add{suffix}(a: {ty}, b: {ty}) -> {ty}"));
    for i in 0..n {
        code.line(format!("let t{i} = a.l{i} + b.l{i};"));
    }
    carry_and_subtract(form, bound, Column::U32, code);
    code.close();

    code.open(format!("fn {f}_sub{suffix}(a: {ty}, b: {ty}) -> {ty}"));
    for i in 0..n {
        let borrow = if i == 0 { String::new() } else { format!(" + (x{} >> {width}u)", i - 1) };
        code.line(format!("let x{i} = i32(a.l{i}) - i32(b.l{i}){borrow};"));
    }
    code.line(format!("let mask = u32(x{} >> {width}u) & {mask}u;", n - 1));
    for (i, limb) in bound.iter().enumerate() {
        let carry = if i == 0 { String::new() } else { format!(" + (y{} >> {width}u)", i - 1) };
        code.line(format!("let y{i} = (u32(x{i}) & {mask}u) + ({limb}u & mask){carry};"));
    }
    code.line(format!("return {};", form.value(|i| format!("y{i} & {mask}u"))));
    code.close();
}

/// Montgomery's product by rows. A column takes at most two products a row, and the carry of one
/// row's lowest limb: 60 * 2^26 + 2^19, 28 * 2^56 + 2^36 or 18 * 2^58 + 2^35 at most.
fn mul(form: &Form, suffix: &str, p: &[u32], code: &mut Code) {
    let (f, ty, n) = (form.field.name, form.ty(), form.count);
    let column = Column::of(form);
    code.open(format!("fn {f}_mul{suffix}(a: {ty}, b: {ty}) -> {ty}"));
    for i in 0..n {
        code.line(format!("let a{i} = {};", column.widen(&format!("a.l{i}"))));
        code.line(format!("let b{i} = {};", column.widen(&format!("b.l{i}"))));
    }
    reduce(form, p, |row, i| Some(format!("a{i} * b{row}")), suffix.is_empty(), code);
    code.close();
}

/// The square: row i has only the products with limbs from i on, doubled but for a limb's own
/// square. Every product of column i is there when row i reduces it, for one of its factors comes
/// from a limb of at most i / 2.
fn sqr(form: &Form, p: &[u32], code: &mut Code) {
    let (f, ty, n) = (form.field.name, form.ty(), form.count);
    let column = Column::of(form);
    code.open(format!("fn {f}_sqr(a: {ty}) -> {ty}"));
    for i in 0..n {
        code.line(format!("let a{i} = {};", column.widen(&format!("a.l{i}"))));
        code.line(format!("let twice{i} = {};", column.widen(&format!("a.l{i} << 1u"))));
    }
    let product = |row: usize, i: usize| match i.cmp(&row) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(format!("a{i} * a{i}")),
        std::cmp::Ordering::Greater => Some(format!("a{row} * twice{i}")),
    };
    reduce(form, p, product, true, code);
    code.close();
}

/// Adds up `product(row, limb)` in column `row + limb` and reduces column by column; returns the
/// result, below the modulus if `tight`.
fn reduce(
    form: &Form,
    p: &[u32],
    product: impl Fn(usize, usize) -> Option<String>,
    tight: bool,
    code: &mut Code,
) {
    let (n, width, mask, column) = (form.count, form.width, form.mask(), Column::of(form));
    let factor = form.field.reduction_factor(width);
    let sum =
        |terms: [Option<String>; 4]| terms.into_iter().flatten().collect::<Vec<_>>().join(" + ");
    for row in 0..n {
        // A row frees the lowest column, so the last one of each row is new.
        let previous = |limb: usize| {
            let last = row.checked_sub(1).filter(|_| limb + 1 < n)?;
            Some(format!("t{last}_{limb}"))
        };
        let x = sum([product(row, 0), previous(0), None, None]);
        code.line(format!("let x{row} = {x};"));
        let m = format!("({} * {factor}u) & {mask}u", column.low(&format!("x{row}")));
        code.line(format!("let m{row} = {};", column.widen(&m)));
        let p0 = column.literal(p[0]);
        code.line(format!("let c{row} = (x{row} + m{row} * {p0}) >> {width}u;"));
        for (i, p) in p.iter().enumerate().skip(1) {
            let reduction = format!("m{row} * {}", column.literal(*p));
            let carry = (i == 1).then(|| format!("c{row}"));
            let t = sum([product(row, i), Some(reduction), previous(i), carry]);
            code.line(format!("let t{row}_{} = {t};", i - 1));
        }
    }
    for i in 0..n - 1 {
        code.line(format!("let t{i} = t{}_{i};", n - 1));
    }
    code.line(format!("let t{} = {};", n - 1, column.literal(0)));
    if tight {
        return carry_and_subtract(form, p, column, code);
    }
    for i in 0..n {
        let carry = if i == 0 { String::new() } else { format!(" + (s{} >> {width}u)", i - 1) };
        code.line(format!("let s{i} = t{i}{carry};"));
    }
    let limb = |i| column.low(&format!("s{i}")) + &format!(" & {mask}u");
    code.line(format!("return {};", form.value(limb)));
}

/// Returns the columns `t`, carried, less `p` if the value is not below it. The value is below
/// twice `p`.
fn carry_and_subtract(form: &Form, p: &[u32], column: Column, code: &mut Code) {
    let (width, mask) = (form.width, form.mask());
    for (i, p) in p.iter().enumerate() {
        let (carry, borrow) = match i.checked_sub(1) {
            None => (String::new(), String::new()),
            Some(i) => (format!(" + (s{i} >> {width}u)"), format!(" + (d{i} >> {width}u)")),
        };
        code.line(format!("let s{i} = t{i}{carry};"));
        code.line(format!("let r{i} = {} & {mask}u;", column.low(&format!("s{i}"))));
        code.line(format!("let d{i} = i32(r{i}) - {p}{borrow};"));
    }
    code.line(format!("let below = d{} < 0;", p.len() - 1));
    let limb = |i| format!("select(u32(d{i}) & {mask}u, r{i}, below)");
    code.line(format!("return {};", form.value(limb)));
}

/// Repacks between limbs and words.
fn words(form: &Form, code: &mut Code) {
    let (f, ty) = (form.field.name, form.ty());
    let (width, mask) = (form.width, form.mask());
    code.open(format!("fn {f}_from_words(words: {ty}Words) -> {ty}"));
    let word = |i: usize| format!("words.w{}[{}]", i / 4, i % 4);
    let limb = |i: usize| {
        let (at, shift) = (i * width as usize / 32, i as u32 * width % 32);
        let mut bits = format!("({} >> {shift}u)", word(at));
        if shift + width > 32 && at + 1 < form.field.limbs {
            bits = format!("({bits} | ({} << {}u))", word(at + 1), 32 - shift);
        }
        format!("{bits} & {mask}u")
    };
    code.line(format!("return {};", form.value(limb)));
    code.close();

    code.open(format!("fn {f}_to_words(a: {ty}) -> {ty}Words"));
    let word = |word: usize| {
        let start = word as u32 * 32;
        let parts: Vec<_> = (0..form.count as u32)
            .filter(|i| i * width < start + 32 && (i + 1) * width > start)
            .map(|i| match (i * width).checked_sub(start) {
                Some(shift) => format!("(a.l{i} << {shift}u)"),
                None => format!("(a.l{i} >> {}u)", start - i * width),
            })
            .collect();
        parts.join(" | ")
    };
    let quad = |i: usize| {
        let words: Vec<_> = (4 * i..4 * i + 4).map(word).collect();
        format!("vec4<u32>({})", words.join(", "))
    };
    let quads: Vec<_> = (0..form.quads()).map(quad).collect();
    code.line(format!("return {ty}Words({});", quads.join(", ")));
    code.close();
}

/// `a * 2^k mod p`. The quotient of `a * 2^k` by the modulus is estimated from the top 16 bits of
/// `a`; the estimate is right or one too small, which only a tight value has to know.
fn raw_to_kernel(form: &Form, p: &[u32], tight: bool, code: &mut Code) {
    let (f, ty, n, k) = (form.field.name, form.ty(), form.count, form.radix_excess());
    let (width, mask) = (form.width, form.mask());
    let column = Column::of(form);
    let (signed, suffix) = (column.signed(), if column == Column::U64 { "li" } else { "i" });
    // q = a 2^k / p is about h * scale / 2^s with h = a / 2^low and scale = 2^(k + s + low) / p,
    // both rounded down. For s = 31 - k, h and scale have 16 bits each, so that their product fits,
    // and the rounding costs q less than 2^(k - 14).
    let (low, s) = (form.field.bits - 16, 31 - k);
    let scale = scale(form, k + s + low);
    let name = if tight { "kernel" } else { "loose" };
    code.open(format!("fn {f}_raw_to_{name}(a: {ty}) -> {ty}"));
    let (at, shift) = (low / width, low % width);
    let parts: Vec<_> = (at..n as u32)
        .map(|i| match (i * width).checked_sub(low) {
            Some(up) => format!("(a.l{i} << {up}u)"),
            None => format!("(a.l{i} >> {shift}u)"),
        })
        .collect();
    code.line(format!("let q = {signed}((({}) * {scale}u) >> {s}u);", parts.join(" | ")));
    for (i, p) in p.iter().enumerate() {
        let (below, carry) = match i.checked_sub(1) {
            None => (String::new(), String::new()),
            Some(i) => (format!(" | (a.l{i} >> {}u)", width - k), format!(" + (x{i} >> {width}u)")),
        };
        let shifted = format!("((a.l{i} << {k}u) & {mask}u){below}");
        code.line(format!("let x{i} = {signed}({shifted}) - q * {p}{suffix}{carry};"));
        code.line(format!("let t{i} = u32(x{i}) & {mask}u;"));
    }
    if tight {
        carry_and_subtract(form, p, Column::U32, code);
    } else {
        code.line(format!("return {};", form.value(|i| format!("t{i}"))));
    }
    code.close();
}

/// `2^exponent / p`, which has 16 bits, rounded down from the modulus's top 95 or so.
fn scale(form: &Form, exponent: u32) -> u32 {
    let (rest, top) = form.field.modulus.split_at(form.field.limbs - 3);
    let top = top.iter().rev().fold(0u128, |value, limb| value << 32 | u128::from(*limb));
    ((1u128 << (exponent - 32 * rest.len() as u32)) / (top + 1)) as u32
}

/// `a / 2^k mod p`, as `(a + m p) / 2^k` with `m = -a / p mod 2^k`; below the modulus because `a`
/// is.
fn kernel_to_raw(form: &Form, p: &[u32], code: &mut Code) {
    let (f, ty, n, k) = (form.field.name, form.ty(), form.count, form.radix_excess());
    let (width, mask, column) = (form.width, form.mask(), Column::of(form));
    let factor = form.field.reduction_factor(k);
    code.open(format!("fn {f}_kernel_to_raw(a: {ty}) -> {ty}"));
    let m = format!("(a.l0 * {factor}u) & {}u", (1 << k) - 1);
    code.line(format!("let m = {};", column.widen(&m)));
    for (i, p) in p.iter().enumerate() {
        let carry = if i == 0 { String::new() } else { format!(" + (x{} >> {width}u)", i - 1) };
        let limb = column.widen(&format!("a.l{i}"));
        code.line(format!("let x{i} = {limb} + m * {}{carry};", column.literal(*p)));
        // The sum is below 2^k p, so nothing is carried past the last limb.
        code.line(format!("let r{i} = {} & {mask}u;", column.low(&format!("x{i}"))));
    }
    let limb = |i: usize| match i + 1 {
        next if next == n => format!("r{i} >> {k}u"),
        next => format!("(r{i} >> {k}u) | ((r{next} << {}u) & {mask}u)", width - k),
    };
    code.line(format!("return {};", form.value(limb)));
    code.close();
}
