//! 32-bit limbs, products through `u64`.

use super::Form;
use super::code::Code;

pub(super) fn write(form: &Form, code: &mut Code) {
    let (f, ty, n) = (form.field.name, form.ty(), form.count);
    let p = form.modulus();
    let signature = |name: &str| format!("fn {f}_{name}(a: {ty}, b: {ty}) -> {ty}");

    code.open(signature("add"));
    // Twice the modulus fits the limbs: no carry leaves the last.
    for i in 0..n {
        let carry = if i == 0 { String::new() } else { format!(" + (x{} >> 32u)", i - 1) };
        code.line(format!("let x{i} = u64(a.l{i}) + u64(b.l{i}){carry};"));
        code.line(format!("let t{i} = u32(x{i});"));
    }
    subtract_modulus(form, &p, code);
    code.close();

    code.open(signature("sub"));
    for i in 0..n {
        let borrow = if i == 0 { String::new() } else { format!(" - (x{} >> 63u)", i - 1) };
        code.line(format!("let x{i} = u64(a.l{i}) - u64(b.l{i}){borrow};"));
    }
    code.line(format!("let mask = u32(x{} >> 32u);", n - 1));
    for (i, p) in p.iter().enumerate() {
        let carry = if i == 0 { String::new() } else { format!(" + (y{} >> 32u)", i - 1) };
        code.line(format!("let y{i} = u64(u32(x{i})) + u64({p}u & mask){carry};"));
    }
    code.line(format!("return {};", form.value(|i| format!("u32(y{i})"))));
    code.close();

    // Montgomery's product by rows (CIOS). The modulus leaves the top limb's highest bit free, so
    // a row's two carries fit one limb and the result is below twice the modulus.
    code.open(signature("mul"));
    let factor = form.field.reduction_factor(32);
    for row in 0..n {
        let previous = |limb: usize| match (row, limb) {
            (0, _) => String::new(),
            (_, limb) => format!(" + u64(t{}_{limb})", row - 1),
        };
        let (x, y) = (format!("x{row}"), format!("y{row}"));
        code.line(format!("let b{row} = u64(b.l{row});"));
        code.line(format!("let {x}_0 = u64(a.l0) * b{row}{};", previous(0)));
        code.line(format!("let m{row} = u64(u32({x}_0) * {factor}u);"));
        code.line(format!("let {y}_0 = m{row} * {}lu + u64(u32({x}_0));", p[0]));
        for (i, p) in p.iter().enumerate().skip(1) {
            let before = i - 1;
            code.line(format!(
                "let {x}_{i} = u64(a.l{i}) * b{row}{} + ({x}_{before} >> 32u);",
                previous(i)
            ));
            code.line(format!(
                "let {y}_{i} = m{row} * {}lu + u64(u32({x}_{i})) + ({y}_{before} >> 32u);",
                p
            ));
            code.line(format!("let t{row}_{before} = u32({y}_{i});"));
        }
        let last = n - 1;
        code.line(format!("let t{row}_{last} = u32({x}_{last} >> 32u) + u32({y}_{last} >> 32u);"));
    }
    for i in 0..n {
        code.line(format!("let t{i} = t{}_{i};", n - 1));
    }
    subtract_modulus(form, &p, code);
    code.close();

    code.open(format!("fn {f}_sqr(a: {ty}) -> {ty}"));
    code.line(format!("return {f}_mul(a, a);"));
    code.close();

    code.open(format!("fn {f}_from_words(words: {ty}Words) -> {ty}"));
    let words = form.value(|i| format!("words.w{}[{}]", i / 4, i % 4));
    code.line(format!("return {words};"));
    code.close();
    code.open(format!("fn {f}_to_words(a: {ty}) -> {ty}Words"));
    let quad = |i: usize| {
        let limbs: Vec<_> = (4 * i..4 * i + 4).map(|i| format!("a.l{i}")).collect();
        format!("vec4<u32>({})", limbs.join(", "))
    };
    let quads: Vec<_> = (0..form.quads()).map(quad).collect();
    code.line(format!("return {ty}Words({});", quads.join(", ")));
    code.close();
    for name in ["raw_to_kernel", "kernel_to_raw"] {
        code.open(format!("fn {f}_{name}(a: {ty}) -> {ty}"));
        code.line("return a;");
        code.close();
    }
}

/// Returns `t`, less the modulus if it is not below it.
fn subtract_modulus(form: &Form, p: &[u32], code: &mut Code) {
    for (i, p) in p.iter().enumerate() {
        let borrow = if i == 0 { String::new() } else { format!(" - (d{} >> 63u)", i - 1) };
        code.line(format!("let d{i} = u64(t{i}) - {p}lu{borrow};"));
    }
    code.line(format!("let below = (d{} >> 63u) != 0lu;", p.len() - 1));
    code.line(format!("return {};", form.value(|i| format!("select(u32(d{i}), t{i}, below)"))));
}
