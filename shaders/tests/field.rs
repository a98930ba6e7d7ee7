//! Both arithmetics of both fields against the CPU backend's.

mod gpu;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{Coordinate, Fp, Fr};
use twinlock_fields::{FP, FR, Field};
use twinlock_shaders::{Access, Arithmetic, Binding, Module, accessors, literal, prelude};

/// Results of one pair of operands.
const RESULTS: usize = 9;

/// Every function of the prelude on the pair of each thread.
fn module(field: &Field, arithmetic: Arithmetic) -> Module {
    let (f, quads) = (field.name, field.limbs / 4);
    let mut body = prelude(field, arithmetic);
    for (binding, write) in [("a", false), ("b", false), ("out", true)] {
        body += &accessors(field, binding, write, arithmetic);
    }
    let five = literal(field, arithmetic, &field.small(5));
    let main = format!(
        "    if id >= params.n {{ return; }}
    let at = id * {quads}u;
    let a = {f}_load_a(at);
    let b = {f}_load_b(at);
    let raw = {f}_load_raw_a(at);
    let o = id * {}u;
    {f}_store_out(o, {f}_add(a, b));
    {f}_store_out(o + {quads}u, {f}_sub(a, b));
    {f}_store_out(o + 2u * {quads}u, {f}_neg(a));
    {f}_store_out(o + 3u * {quads}u, {f}_mul(a, b));
    {f}_store_out(o + 4u * {quads}u, {f}_sqr(a));
    {f}_store_raw_out(o + 5u * {quads}u, {f}_mul(raw, b));
    {f}_store_out(o + 6u * {quads}u, {f}_select({f}_zero(), {f}_one(), {f}_is_zero(a)));
    {f}_store_out(o + 7u * {quads}u, {f}_select({f}_zero(), {f}_one(), {f}_eq(a, b)));
    {f}_store_out(o + 8u * {quads}u, {f}_add({five}, {f}_sub(raw_round(raw), a)));",
        RESULTS * quads
    );
    // A value keeps its limbs through words, and its value through both radices.
    let ty = if f == "fr" { "Fr" } else { "Fp" };
    body += &format!(
        "fn raw_round(a: {ty}) -> {ty} {{
    return {f}_raw_to_kernel({f}_kernel_to_raw({f}_from_words({f}_to_words({f}_raw_to_kernel(a)))));
}}
"
    );
    let binding = |name, access| Binding::elements(name, access);
    let bindings = vec![
        binding("a", Access::Read),
        binding("b", Access::Read),
        binding("out", Access::ReadWrite),
    ];
    Module::assemble("field_test", 64, bindings, vec!["n"], &body, &main)
}

/// A field of the CPU backend on words of memory.
struct Oracle {
    field: Field,
    results: fn(&[u32], &[u32]) -> Vec<u32>,
}

macro_rules! oracle {
    ($field:expr, $ty:ident, $words:literal) => {
        Oracle {
            field: $field,
            results: |a, b| {
                let value = |words: &[u32]| {
                    let words: [u32; $words] = words.try_into().expect("limbs");
                    $ty(bytemuck::cast(words))
                };
                let (a, b) = (value(a), value(b));
                let zero = $ty::default();
                let five = (0..5).fold(zero, |sum, _| sum.add(&$ty::ONE));
                let flag = |set| if set { $ty::ONE } else { zero };
                let results = [
                    a.add(&b),
                    a.sub(&b),
                    zero.sub(&a),
                    a.mul(&b),
                    a.mul(&a),
                    a.mul(&b),
                    flag(a == zero),
                    flag(a == b),
                    five,
                ];
                results.iter().flat_map(|x| bytemuck::cast::<_, [u32; $words]>(x.0)).collect()
            },
        }
    };
}

/// 0, 1, p - 1, (p - 1) / 2, R, R^2, 1 in Montgomery form and its negative, limbs of ones, ...
fn edges(field: &Field) -> Vec<Vec<u32>> {
    let minus = |a: &[u32]| field.neg(a);
    let mut values = vec![field.small(0)];
    for value in [
        field.small(1),
        field.small(2),
        field.small(u32::MAX),
        field.one_montgomery(),
        field.r_squared(),
        field.power_of_two(-1),
        field.power_of_two(i32::try_from(field.bits).expect("bits") - 1),
        field.power_of_two(13 * 7),
        field.power_of_two(32 * 3),
        field.power_of_two(-13),
        field.power_of_two(-4),
        field.power_of_two(-6),
    ] {
        values.push(minus(&value));
        values.push(value);
    }
    values
}

fn random(field: &Field, rng: &mut ChaCha8Rng) -> Vec<u32> {
    loop {
        let mut value: Vec<u32> = (0..field.limbs).map(|_| rng.next_u32()).collect();
        value[field.limbs - 1] >>= field.radix_bits() - field.bits;
        // Runs of ones and zeros, now and then.
        if rng.next_u32() & 3 == 0 {
            let at = rng.next_u32() as usize % (field.limbs - 1);
            value[at] = if rng.next_u32() & 1 == 0 { 0 } else { u32::MAX };
        }
        if value.iter().rev().lt(field.modulus.iter().rev()) {
            return value;
        }
    }
}

fn check(oracle: &Oracle, arithmetic: Arithmetic) {
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let field = &oracle.field;
    let edges = edges(field);
    let mut pairs = vec![];
    for a in &edges {
        pairs.extend(edges.iter().map(|b| (a.clone(), b.clone())));
        pairs.push((a.clone(), random(field, &mut rng)));
    }
    pairs.resize_with(3000, || (random(field, &mut rng), random(field, &mut rng)));
    pairs.extend((0..20).map(|_| random(field, &mut rng)).map(|a| (a.clone(), a)));

    // Views that start past the buffers' starts.
    let skip = [0u32, 2, 5];
    let padded = |skip: u32, words: Vec<u32>| [vec![7; skip as usize * 4], words].concat();
    let a = gpu.buffer(&padded(skip[0], pairs.iter().flat_map(|pair| pair.0.clone()).collect()));
    let b = gpu.buffer(&padded(skip[1], pairs.iter().flat_map(|pair| pair.1.clone()).collect()));
    let len = pairs.len() * RESULTS * field.limbs;
    let out = gpu.buffer(&padded(skip[2], vec![0; len]));
    let pipeline = gpu.pipeline(&module(field, arithmetic));
    let n = pairs.len() as u32;
    let params = [skip[0], skip[1], skip[2], n];
    gpu.dispatch(&pipeline, &[&a, &b, &out], &params, [7, n.div_ceil(64 * 7)]);
    let found = gpu.read(&out);
    let (before, found) = found.split_at(skip[2] as usize * 4);
    assert!(before.iter().all(|word| *word == 7), "words before the view were written");
    for ((a, b), found) in pairs.iter().zip(found.chunks_exact(RESULTS * field.limbs)) {
        let expected = (oracle.results)(a, b);
        for (i, (found, expected)) in
            found.chunks(field.limbs).zip(expected.chunks(field.limbs)).enumerate()
        {
            assert_eq!(
                found, expected,
                "{} {arithmetic:?}, result {i} of {a:x?} and {b:x?}, seed {seed}",
                field.name
            );
        }
    }
}

#[test]
fn fr_wide() {
    check(&oracle!(FR, Fr, 8), Arithmetic::Wide);
}

#[test]
fn fr_narrow() {
    check(&oracle!(FR, Fr, 8), Arithmetic::Narrow);
}

#[test]
fn fp_wide() {
    check(&oracle!(FP, Fp, 12), Arithmetic::Wide);
}

#[test]
fn fp_narrow() {
    check(&oracle!(FP, Fp, 12), Arithmetic::Narrow);
}

#[test]
fn fr_sparse() {
    check(&oracle!(FR, Fr, 8), Arithmetic::Sparse);
}

#[test]
fn fp_sparse() {
    check(&oracle!(FP, Fp, 12), Arithmetic::Sparse);
}
