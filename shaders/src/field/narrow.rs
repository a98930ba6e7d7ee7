//! 13-bit limbs: 60 products of 26 bits add up in 32 bits without a carry.

use super::Form;
use super::code::Code;

/// Bits of a limb.
pub(super) const WIDTH: u32 = 13;
const MASK: u32 = (1 << WIDTH) - 1;

pub(super) fn write(form: &Form, code: &mut Code) {
    let (f, ty, n) = (form.field.name, form.ty(), form.count);
    let p = form.modulus();
    let signature = |name: &str| format!("fn {f}_{name}(a: {ty}, b: {ty}) -> {ty}");

    code.open(signature("add"));
    for i in 0..n {
        code.line(format!("let t{i} = a.l{i} + b.l{i};"));
    }
    carry_and_subtract_modulus(form, &p, code);
    code.close();

    code.open(signature("sub"));
    for i in 0..n {
        let borrow = if i == 0 { String::new() } else { format!(" + (x{} >> {WIDTH}u)", i - 1) };
        code.line(format!("let x{i} = i32(a.l{i}) - i32(b.l{i}){borrow};"));
    }
    code.line(format!("let mask = u32(x{} >> {WIDTH}u) & {MASK}u;", n - 1));
    for (i, p) in p.iter().enumerate() {
        let carry = if i == 0 { String::new() } else { format!(" + (y{} >> {WIDTH}u)", i - 1) };
        code.line(format!("let y{i} = (u32(x{i}) & {MASK}u) + ({p}u & mask){carry};"));
    }
    code.line(format!("return {};", form.value(|i| format!("y{i} & {MASK}u"))));
    code.close();

    // Montgomery's product by rows. A column takes at most 2 * 30 products of less than 2^26 and
    // the carry of one row's lowest limb, below 2^19: less than 2^32.
    code.open(signature("mul"));
    let factor = form.field.reduction_factor(WIDTH);
    for row in 0..n {
        let previous = |limb: usize| match (row, limb) {
            (0, _) => String::new(),
            // The column that the last row freed.
            (_, limb) if limb == n - 1 => String::new(),
            (_, limb) => format!(" + t{}_{limb}", row - 1),
        };
        code.line(format!("let x{row} = a.l0 * b.l{row}{};", previous(0)));
        code.line(format!("let m{row} = (x{row} * {factor}u) & {MASK}u;"));
        code.line(format!("let c{row} = (x{row} + m{row} * {}u) >> {WIDTH}u;", p[0]));
        for (i, p) in p.iter().enumerate().skip(1) {
            let carry = if i == 1 { format!(" + c{row}") } else { String::new() };
            code.line(format!(
                "let t{row}_{} = a.l{i} * b.l{row} + m{row} * {}u{}{carry};",
                i - 1,
                p,
                previous(i)
            ));
        }
    }
    for i in 0..n - 1 {
        code.line(format!("let t{i} = t{}_{i};", n - 1));
    }
    code.line(format!("let t{} = 0u;", n - 1));
    carry_and_subtract_modulus(form, &p, code);
    code.close();

    words(form, code);
    raw_to_kernel(form, &p, code);
    kernel_to_raw(form, &p, code);
}

/// Returns the columns `t`, carried, less the modulus if the value is not below it. The value is
/// below twice the modulus.
fn carry_and_subtract_modulus(form: &Form, p: &[u32], code: &mut Code) {
    for (i, p) in p.iter().enumerate() {
        if i == 0 {
            code.line("let s0 = t0;");
            code.line(format!("let d0 = i32(s0 & {MASK}u) - {p};"));
        } else {
            let before = i - 1;
            code.line(format!("let s{i} = t{i} + (s{before} >> {WIDTH}u);"));
            code.line(format!("let d{i} = i32(s{i} & {MASK}u) - {p} + (d{before} >> {WIDTH}u);"));
        }
    }
    code.line(format!("let below = d{} < 0;", p.len() - 1));
    let limb = |i| format!("select(u32(d{i}), s{i}, below) & {MASK}u");
    code.line(format!("return {};", form.value(limb)));
}

/// Repacks between 13-bit limbs and words.
fn words(form: &Form, code: &mut Code) {
    let (f, ty) = (form.field.name, form.ty());
    code.open(format!("fn {f}_from_words(words: {ty}Words) -> {ty}"));
    let word = |i: usize| format!("words.w{}[{}]", i / 4, i % 4);
    let limb = |i: usize| {
        let (at, shift) = (i * WIDTH as usize / 32, i as u32 * WIDTH % 32);
        let mut bits = format!("({} >> {shift}u)", word(at));
        if shift + WIDTH > 32 && at + 1 < form.field.limbs {
            bits = format!("({bits} | ({} << {}u))", word(at + 1), 32 - shift);
        }
        format!("{bits} & {MASK}u")
    };
    code.line(format!("return {};", form.value(limb)));
    code.close();

    code.open(format!("fn {f}_to_words(a: {ty}) -> {ty}Words"));
    let word = |word: usize| {
        let start = word as u32 * 32;
        let parts: Vec<_> = (0..form.count as u32)
            .filter(|i| i * WIDTH < start + 32 && (i + 1) * WIDTH > start)
            .map(|i| match (i * WIDTH).checked_sub(start) {
                Some(shift) => format!("(a.l{i} << {shift}u)"),
                None => format!("(a.l{i} >> {}u)", start - i * WIDTH),
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
/// `a`; the estimate is right or one too small.
fn raw_to_kernel(form: &Form, p: &[u32], code: &mut Code) {
    let (f, ty, n, k) = (form.field.name, form.ty(), form.count, form.radix_excess());
    // q = a 2^k / p is about h * scale / 2^s with h = a / 2^low and scale = 2^(k + s + low) / p,
    // both rounded down. For s = 31 - k, h and scale have 16 bits each, so that their product fits,
    // and the rounding costs q less than 2^(k - 14).
    let (low, s) = (form.field.bits - 16, 31 - k);
    let scale = scale(form, k + s + low);
    code.open(format!("fn {f}_raw_to_kernel(a: {ty}) -> {ty}"));
    let (at, shift) = (low / WIDTH, low % WIDTH);
    let parts: Vec<_> = (at..n as u32)
        .map(|i| match (i * WIDTH).checked_sub(low) {
            Some(up) => format!("(a.l{i} << {up}u)"),
            None => format!("(a.l{i} >> {shift}u)"),
        })
        .collect();
    code.line(format!("let q = i32((({}) * {scale}u) >> {s}u);", parts.join(" | ")));
    for (i, p) in p.iter().enumerate() {
        let below =
            if i == 0 { String::new() } else { format!(" | (a.l{} >> {}u)", i - 1, WIDTH - k) };
        let carry = if i == 0 { String::new() } else { format!(" + (x{} >> {WIDTH}u)", i - 1) };
        code.line(format!("let x{i} = i32(((a.l{i} << {k}u) & {MASK}u){below}) - q * {p}{carry};"));
        code.line(format!("let t{i} = u32(x{i}) & {MASK}u;"));
    }
    carry_and_subtract_modulus(form, p, code);
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
    let factor = form.field.reduction_factor(k);
    code.open(format!("fn {f}_kernel_to_raw(a: {ty}) -> {ty}"));
    code.line(format!("let m = (a.l0 * {factor}u) & {}u;", (1 << k) - 1));
    for (i, p) in p.iter().enumerate() {
        let carry = if i == 0 { String::new() } else { format!(" + (x{} >> {WIDTH}u)", i - 1) };
        code.line(format!("let x{i} = a.l{i} + m * {p}u{carry};"));
    }
    let limb = |i: usize| {
        let low = format!("((x{i} & {MASK}u) >> {k}u)");
        if i + 1 == n {
            // The sum is below 2^k p, so nothing is carried past the last limb.
            return format!("x{i} >> {k}u");
        }
        format!("{low} | ((x{} << {}u) & {MASK}u)", i + 1, WIDTH - k)
    };
    code.line(format!("return {};", form.value(limb)));
    code.close();
}
