//! The constants of `twinlock-fields` and of `sizes.rs` as a header that device code and its host
//! build share.

#[path = "../src/sizes.rs"]
mod sizes;

use std::fmt::Write as _;

use twinlock_fields::{FP, FR, FR_COSET_GENERATOR, Field, G1_B, G2_B};

/// The text of `constants.cuh`.
pub(crate) fn header() -> String {
    let mut out = String::from(
        "// Written by the build script from twinlock-fields and sizes.rs.\n#pragma once\n#include \"device.cuh\"\n\n",
    );
    for field in [&FR, &FP] {
        params(&mut out, field);
    }
    curve(&mut out);
    roots(&mut out);
    for (part, numbers) in sizes::ALL {
        let _ = writeln!(out, "\nnamespace {part} {{");
        for (name, number) in *numbers {
            let _ = writeln!(out, "constexpr uint32_t {name} = {number};");
        }
        out.push_str("}\n");
    }
    out
}

fn list(limbs: &[u32]) -> String {
    limbs.iter().map(|limb| format!("{limb:#010x}u")).collect::<Vec<_>>().join(", ")
}

/// One array; its elements are operands from constant memory, never immediates.
fn array(out: &mut String, name: &str, limbs: &[u32]) {
    let _ = writeln!(out, "TL_CONSTANT uint32_t {name}[{}] = {{{}}};", limbs.len(), list(limbs));
}

fn accessor(out: &mut String, what: &str, array: &str) {
    let _ = writeln!(out, "    static TL_HD uint32_t {what}(int i) {{ return {array}[i]; }}");
}

fn params(out: &mut String, field: &Field) {
    let name = match field.name {
        "fr" => "Fr",
        _ => "Fp",
    };
    let upper = field.name.to_uppercase();
    let one = field.one_montgomery();
    let arrays = [
        ("modulus", "MODULUS", field.modulus.to_vec()),
        ("negative", "NEGATIVE", negative(field)),
        ("one", "ONE", one),
        ("r_squared", "R_SQUARED", field.r_squared()),
        // Of Fr it is -1: were the compiler to know, it would break up wide products to negate.
        ("factor", "FACTOR", vec![field.reduction_factor(32)]),
    ];
    for (_, suffix, limbs) in &arrays {
        array(out, &format!("{upper}_{suffix}"), limbs);
    }
    let _ = writeln!(out, "struct {name}Params {{");
    let _ = writeln!(out, "    static constexpr int N = {};", field.limbs);
    // Whether the lowest limbs are those of 1 - 2^32 + 2^64.
    let shifts = field.modulus[..2] == [1, u32::MAX];
    let _ = writeln!(out, "    static constexpr bool LOW_PAIR_IS_SHIFTS = {shifts};");
    for (what, suffix, _) in &arrays {
        accessor(out, what, &format!("{upper}_{suffix}"));
    }
    out.push_str("};\n\n");
}

/// 2^(32 limbs) less the modulus, which is odd.
fn negative(field: &Field) -> Vec<u32> {
    let mut limbs: Vec<u32> = field.modulus.iter().map(|limb| !limb).collect();
    limbs[0] += 1;
    limbs
}

/// The curves' constants in Montgomery form.
fn curve(out: &mut String) {
    let montgomery = |value: u32| FP.to_montgomery(&FP.small(value));
    array(out, "G1_B", &montgomery(G1_B));
    array(out, "G2_B", &G2_B.map(montgomery).concat());
    out.push('\n');
}

/// Roots of unity of order 2^lg, by lg, and the coset's generator and its inverse, in Montgomery
/// form.
fn roots(out: &mut String) {
    let root = FR.root_of_unity(FR.two_adicity).unwrap_or_else(|| FR.small(1));
    let mut roots: Vec<_> = std::iter::successors(Some(root), |root| Some(FR.mul(root, root)))
        .take(FR.two_adicity as usize + 1)
        .map(|root| FR.to_montgomery(&root))
        .collect();
    roots.reverse();
    array(out, "FR_ROOTS", &roots.concat());
    let shift = FR.small(FR_COSET_GENERATOR);
    let shifts = [shift.clone(), FR.invert(&shift)].map(|shift| FR.to_montgomery(&shift));
    array(out, "FR_SHIFTS", &shifts.concat());
}
