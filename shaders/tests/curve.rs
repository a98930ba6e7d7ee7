//! The points' formulas in WGSL against the same programs in plain Rust.

mod gpu;

use std::ops::{Add, Mul, Sub};

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{Coordinate, Fp as CpuFp};
use twinlock_fields::FP;
use twinlock_shaders::curve::{self, Curve, Formula};
use twinlock_shaders::{Access, Arithmetic, Binding, Module, accessors, prelude};

/// An element of Fp with operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fp(CpuFp);

impl Add for Fp {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.add(&other.0))
    }
}

impl Sub for Fp {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.sub(&other.0))
    }
}

impl Mul for Fp {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0.mul(&other.0))
    }
}

impl Fp {
    const ONE: Self = Self(CpuFp::ONE);

    fn random(rng: &mut ChaCha8Rng) -> Self {
        let mut limbs = [0; 6].map(|_: u64| rng.next_u64());
        limbs[5] >>= 4;
        Self(CpuFp(limbs))
    }
}

/// Which addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addition {
    Affine,
    Xyzz,
}

/// `p += q` for each thread's pair.
fn module(curve: Curve, addition: Addition, arithmetic: Arithmetic) -> Module {
    let mut body = prelude(&FP, arithmetic);
    let (formula, call) = match addition {
        Addition::Affine => (Formula::AddAffine, "affine_load_q(id, false);\n    add_affine();"),
        Addition::Xyzz => (Formula::Add, "read_q(id);\n    add();"),
    };
    body += &curve::point_functions(curve, formula, 0, arithmetic);
    // To the kernel's form.
    let len = curve.xyzz_len();
    for (name, to) in [("p", "P"), ("q", "Q")] {
        body += &accessors(&FP, name, true, arithmetic);
        body += &format!(
            "fn read_{name}(id: u32) {{
    for (var i = 0u; i < {len}u; i += 1u) {{
        slots[{to} + i] = fp_to_words(fp_load_{name}(3u * (id * {len}u + i)));
    }}
}}
"
        );
    }
    body += &curve::affine_accessor(curve, "q");
    let main = format!(
        "    if id >= params.len {{ return; }}
    read_p(id);
    {call}
    let at = id * {}u;
{}",
        3 * len,
        curve::store_coordinates("p", len)
    );
    let bindings = ["p", "q"].map(|name| Binding::elements(name, Access::ReadWrite)).to_vec();
    Module::assemble("addition", 64, bindings, vec!["len"], &body, &main)
}

/// A coordinate's coefficients.
type Element = Vec<Fp>;

fn multiply(a: &Element, b: &Element) -> Element {
    match (a.as_slice(), b.as_slice()) {
        ([a], [b]) => vec![*a * *b],
        ([a0, a1], [b0, b1]) => vec![*a0 * *b0 - *a1 * *b1, *a0 * *b1 + *a1 * *b0],
        _ => unreachable!("coordinates of one field"),
    }
}

/// Pairs P, Q. The formulas know of no curve, so any coordinates will do.
fn pairs(curve: Curve, addition: Addition, rng: &mut ChaCha8Rng) -> Vec<[Vec<Fp>; 2]> {
    let degree = curve.degree();
    let mut element = || (0..degree).map(|_| Fp::random(rng)).collect::<Element>();
    let xyzz = |x: &Element, y: &Element, z: Element| {
        let zz = multiply(&z, &z);
        let zzz = multiply(&zz, &z);
        [multiply(x, &zz), multiply(y, &zzz), zz, zzz].concat()
    };
    let zero = vec![Fp::default(); degree];
    let negative = |y: &Element| y.iter().map(|c| Fp::default() - *c).collect::<Element>();
    let mut pairs = Vec::new();
    for i in 0..80 {
        let (x, y) = (element(), element());
        let (x2, y2) = match i % 8 {
            // Equal, opposite, and with one coordinate in common.
            0 => (x.clone(), y.clone()),
            1 => (x.clone(), negative(&y)),
            2 => (element(), y.clone()),
            _ => (element(), element()),
        };
        let p = if i % 8 == 3 {
            [(); 4].map(|()| zero.clone()).concat()
        } else {
            xyzz(&x, &y, element())
        };
        let q = match (addition, i % 8) {
            (Addition::Affine, 4) => [zero.clone(), zero.clone()].concat(),
            (Addition::Affine, _) => [x2, y2].concat(),
            (Addition::Xyzz, 4) => [x2, y2, zero.clone(), zero.clone()].concat(),
            (Addition::Xyzz, _) => xyzz(&x2, &y2, element()),
        };
        pairs.push([p, q]);
    }
    pairs
}

/// What the kernel is to make of a pair.
fn twin(curve: Curve, addition: Addition, [p, q]: &[Vec<Fp>; 2]) -> Vec<Fp> {
    let degree = curve.degree();
    let is_zero = |values: &[Fp]| values.iter().all(|value| *value == Fp::default());
    let zz = 2 * degree..3 * degree;
    match addition {
        Addition::Affine if is_zero(q) => p.clone(),
        Addition::Xyzz if is_zero(&q[zz.clone()]) => p.clone(),
        Addition::Affine if is_zero(&p[zz.clone()]) => {
            let mut one = vec![Fp::default(); degree];
            one[0] = Fp::ONE;
            [q.clone(), one.clone(), one].concat()
        }
        Addition::Xyzz if is_zero(&p[zz]) => q.clone(),
        Addition::Affine => {
            curve.add_affine().interpret(&[p.clone(), q.clone()].concat()).expect("inputs")
        }
        Addition::Xyzz => curve.add().interpret(&[p.clone(), q.clone()].concat()).expect("inputs"),
    }
}

fn words<'a>(values: impl Iterator<Item = &'a Fp>) -> Vec<u32> {
    values.flat_map(|value| bytemuck::cast::<[u64; 6], [u32; 12]>(value.0.0)).collect()
}

fn check(curve: Curve, addition: Addition, arithmetic: Arithmetic) {
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let seed = rand::rngs::OsRng.next_u64();
    let what = format!("{curve:?} {addition:?} {arithmetic:?}, seed {seed}");
    let pairs = pairs(curve, addition, &mut ChaCha8Rng::seed_from_u64(seed));
    let pipeline = gpu.pipeline(&module(curve, addition, arithmetic));
    let p = gpu.buffer(&words(pairs.iter().flat_map(|[p, _]| p)));
    let q = gpu.buffer(&words(pairs.iter().flat_map(|[_, q]| q)));
    let len = pairs.len() as u32;
    gpu.dispatch(&pipeline, &[&p, &q], &[0, 0, len], [len.div_ceil(64), 1]);
    let found = gpu.read(&p);
    let sums = found.chunks(12 * curve.xyzz_len());
    for (i, (found, pair)) in sums.zip(&pairs).enumerate() {
        let expected = words(twin(curve, addition, pair).iter());
        assert!(found == expected, "{what}: pair {i} (kind {})", i % 8);
    }
}

fn additions(arithmetic: Arithmetic) {
    for curve in Curve::ALL {
        for addition in [Addition::Affine, Addition::Xyzz] {
            check(curve, addition, arithmetic);
        }
    }
}

#[test]
fn additions_wide() {
    additions(Arithmetic::Wide);
}

#[test]
fn additions_sparse() {
    additions(Arithmetic::Sparse);
}

#[test]
fn additions_narrow() {
    additions(Arithmetic::Narrow);
}
