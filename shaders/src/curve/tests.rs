//! The formulas and their tables against blstrs.

use std::ops::{Add, AddAssign, Mul, Sub};

use blstrs::{G1Projective, G2Projective};
use group::{Curve as _, Group};
use rand::{Rng, SeedableRng, rngs::OsRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::decode::decode_points;
use twinlock_cpu::field::{Affine, Coordinate, Fp as CpuFp, Fp2};

use super::Curve;
use crate::formula::{Encoded, Number, Opcode, Products, Routine};

/// A generator whose seed is printed when a test fails.
fn rng() -> ChaCha8Rng {
    let seed = OsRng.r#gen();
    eprintln!("seed {seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

/// An element of Fp with operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fp(CpuFp);

impl Fp {
    const ZERO: Self = Self(CpuFp::ZERO);
    const ONE: Self = Self(CpuFp::ONE);

    fn random(rng: &mut ChaCha8Rng) -> Self {
        let mut limbs: [u64; 6] = rng.r#gen();
        limbs[5] >>= 4;
        Self(CpuFp(limbs))
    }
}

impl Add for Fp {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.add(&other.0))
    }
}

impl AddAssign for Fp {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
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

/// 2^384 and its inverse.
fn radix() -> (Fp, Fp) {
    let radix = (0..384).fold(Fp::ONE, |power, _| power + power);
    (radix, Fp(radix.0.invert()))
}

/// Coordinates through the encoding that both libraries have.
fn decoded<F: Coordinate>(encoded: &[u8], coefficients: impl Fn(F) -> Vec<Fp>) -> Vec<Fp> {
    let mut bytes = vec![0u64; encoded.len() / 8];
    let bad = decode_points::<F>(bytemuck::cast_slice_mut(&mut bytes), Some(encoded), true);
    assert_eq!(bad.unwrap(), None);
    let points: &[Affine<F>] = bytemuck::cast_slice(&bytes);
    [coefficients(points[0].x), coefficients(points[0].y)].concat()
}

/// A group with its points as coefficients.
trait Points {
    type Point: Group + group::Curve;
    const CURVE: Curve;
    /// Affine coordinates; zeros for the identity.
    fn affine(point: &Self::Point) -> Vec<Fp>;
    /// a * b of coordinates.
    fn mul(a: &[Fp], b: &[Fp]) -> Vec<Fp>;
    fn invert(a: &[Fp]) -> Vec<Fp>;
    /// A coordinate other than zero.
    fn random(rng: &mut ChaCha8Rng) -> Vec<Fp>;
}

struct G1;
struct G2;

impl Points for G1 {
    type Point = G1Projective;
    const CURVE: Curve = Curve::G1;

    fn affine(point: &G1Projective) -> Vec<Fp> {
        decoded::<CpuFp>(&point.to_affine().to_uncompressed(), |x| vec![Fp(x)])
    }

    fn mul(a: &[Fp], b: &[Fp]) -> Vec<Fp> {
        vec![a[0] * b[0]]
    }

    fn invert(a: &[Fp]) -> Vec<Fp> {
        vec![Fp(a[0].0.invert())]
    }

    fn random(rng: &mut ChaCha8Rng) -> Vec<Fp> {
        vec![Fp::random(rng)]
    }
}

impl Points for G2 {
    type Point = G2Projective;
    const CURVE: Curve = Curve::G2;

    fn affine(point: &G2Projective) -> Vec<Fp> {
        decoded::<Fp2>(&point.to_affine().to_uncompressed(), |x| vec![Fp(x.c0), Fp(x.c1)])
    }

    fn mul(a: &[Fp], b: &[Fp]) -> Vec<Fp> {
        let element = |x: &[Fp]| Fp2 { c0: x[0].0, c1: x[1].0 };
        let product = element(a).mul(&element(b));
        vec![Fp(product.c0), Fp(product.c1)]
    }

    fn invert(a: &[Fp]) -> Vec<Fp> {
        let inverse = Fp2 { c0: a[0].0, c1: a[1].0 }.invert();
        vec![Fp(inverse.c0), Fp(inverse.c1)]
    }

    fn random(rng: &mut ChaCha8Rng) -> Vec<Fp> {
        vec![Fp::random(&mut *rng), Fp::random(rng)]
    }
}

/// The point with a random ZZ.
fn xyzz<P: Points>(point: &P::Point, rng: &mut ChaCha8Rng) -> Vec<Fp> {
    let (affine, z) = (P::affine(point), P::random(rng));
    let (x, y) = affine.split_at(P::CURVE.degree());
    let zz = P::mul(&z, &z);
    let zzz = P::mul(&zz, &z);
    [P::mul(x, &zz), P::mul(y, &zzz), zz, zzz].concat()
}

/// The affine coordinates of X, Y, ZZ, ZZZ.
fn affine_of<P: Points>(xyzz: &[Fp]) -> Vec<Fp> {
    let parts: Vec<_> = xyzz.chunks(P::CURVE.degree()).collect();
    if parts[2].iter().all(|c| *c == Fp::ZERO) {
        return vec![Fp::ZERO; P::CURVE.affine_len()];
    }
    let z = P::mul(parts[3], &P::invert(parts[2]));
    assert_eq!(P::mul(&z, &z), parts[2], "ZZ^3 = ZZZ^2");
    let x = P::mul(parts[0], &P::invert(parts[2]));
    let y = P::mul(parts[1], &P::invert(parts[3]));
    [x, y].concat()
}

/// The kernels' loop over a table, in Rust.
fn run_table<T: Number>(table: &Encoded, inputs: &[T], outputs: usize) -> Vec<T> {
    let zero = T::default();
    let mut slots = vec![zero; table.num_slots];
    slots[..inputs.len()].copy_from_slice(inputs);
    let (mut at, mut rare) = (0, false);
    loop {
        if at == table.rare_at && !table.zeros.is_empty() {
            rare = table.zeros.iter().all(|slot| slots[*slot] == zero);
            at = if rare { at } else { table.tail_at };
        }
        let Some(word) = table.words.get(at) else { break };
        let slot = |shift: u32| (word >> shift & 255) as usize;
        let (a, b) = (slots[slot(16)], slots[slot(24)]);
        slots[slot(8)] = match word & 255 {
            x if x == Opcode::Mul as u32 => a * b,
            x if x == Opcode::Sqr as u32 => a * a,
            x if x == Opcode::Add as u32 => a + b,
            x if x == Opcode::Sub as u32 => a - b,
            x if x == Opcode::UnlessRare as u32 && rare => zero,
            x if x == Opcode::UnlessRare as u32 => a,
            x if x == Opcode::Copy as u32 => a,
            x => panic!("opcode {x}"),
        };
        at += 1;
    }
    slots.truncate(outputs);
    slots
}

/// What the routine gives, which its table must give too.
fn run(routine: &Routine, inputs: &[Fp]) -> Vec<Fp> {
    let outputs = routine.interpret(inputs).unwrap();
    assert_eq!(run_table(&routine.encode(), inputs, outputs.len()), outputs);
    outputs
}

fn additions<P: Points>() {
    let rng = &mut rng();
    for _ in 0..20 {
        let (p, q) = (P::Point::random(&mut *rng), P::Point::random(&mut *rng));
        for (p, q) in [(p, q), (p, p), (p, -p), (p + q, -q), (p.double(), p)] {
            let sum = P::affine(&(p + q));
            let inputs = [xyzz::<P>(&p, rng), P::affine(&q)].concat();
            assert_eq!(affine_of::<P>(&run(&P::CURVE.add_affine(), &inputs)), sum);
            let inputs = [xyzz::<P>(&p, rng), xyzz::<P>(&q, rng)].concat();
            assert_eq!(affine_of::<P>(&run(&P::CURVE.add(), &inputs)), sum);
        }
    }
}

#[test]
fn additions_are_those_of_blstrs() {
    additions::<G1>();
    additions::<G2>();
}

fn jacobian<P: Points>() {
    let rng = &mut rng();
    let p = P::Point::random(&mut *rng);
    let out = run(&P::CURVE.to_jacobian(), &xyzz::<P>(&p, rng));
    let parts: Vec<_> = out.chunks(P::CURVE.degree()).collect();
    let zz = P::mul(parts[2], parts[2]);
    let zzz = P::mul(&zz, parts[2]);
    let (x, y) = (P::mul(parts[0], &P::invert(&zz)), P::mul(parts[1], &P::invert(&zzz)));
    assert_eq!([x, y].concat(), P::affine(&p));
    let zeros = run(&P::CURVE.to_jacobian(), &vec![Fp::ZERO; P::CURVE.xyzz_len()]);
    assert!(zeros.iter().all(|c| *c == Fp::ZERO));
}

#[test]
fn jacobian_points_are_the_same_points() {
    jacobian::<G1>();
    jacobian::<G2>();
}

fn decoding<P: Points>() {
    let rng = &mut rng();
    let (radix, inverse) = radix();
    let p = P::affine(&P::Point::random(&mut *rng));
    // What a kernel reads an integer as.
    let mut inputs: Vec<_> = p.iter().map(|c| *c * inverse).collect();
    inputs.extend([Fp::ONE, radix]);
    let degree = P::CURVE.degree();
    let out = run(&P::CURVE.decode(), &inputs);
    let (found, off) = out.split_at(2 * degree);
    assert_eq!(found, p);
    assert!(off.iter().all(|c| *c == Fp::ZERO));
    inputs[rng.gen_range(0..2 * degree)] += Fp::ONE;
    let out = run(&P::CURVE.decode(), &inputs);
    assert!(out[2 * degree..].iter().any(|c| *c != Fp::ZERO));
}

#[test]
fn decoding_finds_the_curve() {
    decoding::<G1>();
    decoding::<G2>();
}

#[test]
fn formulas_cost_what_the_literature_says() {
    assert_eq!(Curve::G1.add_affine().products(), Products { mul: 8, sqr: 2 });
    assert_eq!(Curve::G1.add().products(), Products { mul: 12, sqr: 2 });
    // Three products for each in Fp2, two for a square.
    assert_eq!(Curve::G2.add_affine().products(), Products { mul: 8 * 3 + 2 * 2, sqr: 0 });
    assert_eq!(Curve::G2.add().products(), Products { mul: 12 * 3 + 2 * 2, sqr: 0 });
}

#[test]
fn tables_need_few_slots() {
    for (curve, most) in [(Curve::G1, 12), (Curve::G2, 24)] {
        for routine in [curve.add_affine(), curve.add()] {
            let slots = routine.encode().num_slots;
            assert!(slots <= most, "{curve:?}: {slots} slots");
        }
    }
}

#[test]
fn a_wrong_number_of_inputs_is_refused() {
    assert_eq!(Curve::G1.add().interpret(&[Fp::ONE; 7]), None);
}
