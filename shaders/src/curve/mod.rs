//! Points: the curves' formulas.
//!
//! Kernels hold points as X, Y, ZZ, ZZZ with x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2; ZZ = 0 is the
//! identity. Formulas: Explicit-Formulas Database, short Weierstrass curves with a = 0, XYZZ
//! coordinates: `madd-2008-s`, `add-2008-s`, `dbl-2008-s-1`, `mdbl-2008-s-1`.

mod wgsl;

pub(crate) use wgsl::list;
pub use wgsl::{FP_UNITS, add, add_affine, decode, point_accessors, point_types, to_jacobian};

use crate::formula::{Algebra, OverFp, OverFp2, Recorder, Reg, Routine};

/// One of the two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Curve {
    /// Over Fp.
    G1,
    /// Over Fp2.
    G2,
}

impl Curve {
    /// Both.
    pub const ALL: [Self; 2] = [Self::G1, Self::G2];

    /// Elements of Fp in one coordinate.
    pub const fn degree(self) -> usize {
        match self {
            Self::G1 => OverFp::DEGREE,
            Self::G2 => OverFp2::DEGREE,
        }
    }

    /// `g1` or `g2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1 => "g1",
            Self::G2 => "g2",
        }
    }

    /// Elements of Fp in an XYZZ point.
    pub const fn xyzz_len(self) -> usize {
        4 * self.degree()
    }

    /// Elements of Fp in an affine point.
    pub const fn affine_len(self) -> usize {
        2 * self.degree()
    }

    /// XYZZ P, then affine Q: P + Q. Neither may be the identity. P = Q is the rare branch;
    /// P = -Q gives ZZ = 0 by itself.
    pub fn add_affine(self) -> Routine {
        match self {
            Self::G1 => add_affine_over::<OverFp>(),
            Self::G2 => add_affine_over::<OverFp2>(),
        }
    }

    /// XYZZ P, then XYZZ Q: P + Q. Neither may be the identity. P = Q is the rare branch.
    pub fn add(self) -> Routine {
        match self {
            Self::G1 => add_over::<OverFp>(),
            Self::G2 => add_over::<OverFp2>(),
        }
    }

    /// XYZZ to Jacobian X, Y, Z with x = X/Z^2, y = Y/Z^3.
    pub fn to_jacobian(self) -> Routine {
        match self {
            Self::G1 => to_jacobian_over::<OverFp>(),
            Self::G2 => to_jacobian_over::<OverFp2>(),
        }
    }

    /// Integers x, y taken for Montgomery forms, then one and 2^384: x and y as elements, and
    /// y^2 - x^3 - b.
    pub fn decode(self) -> Routine {
        match self {
            Self::G1 => decode_over::<OverFp>(),
            Self::G2 => decode_over::<OverFp2>(),
        }
    }
}

/// Element number `i` of the inputs.
fn input<A: Algebra>(i: usize) -> A::Element {
    A::element((i * A::DEGREE) as Reg)
}

fn outputs<A: Algebra>(elements: &[A::Element]) -> Vec<Reg> {
    elements.iter().flat_map(|element| A::registers(*element)).collect()
}

/// From P and R on, both additions are one: `x1` and `y1` are U1 and S1.
struct Chord<A: Algebra> {
    x1: A::Element,
    y1: A::Element,
    p: A::Element,
    r: A::Element,
}

impl<A: Algebra> Chord<A> {
    /// X3, Y3, and ZZ3 and ZZZ3 from what is to be multiplied by PP and PPP.
    fn finish(&self, f: &mut Recorder, zz: A::Element, zzz: A::Element) -> Vec<Reg> {
        let pp = A::sqr(f, self.p);
        let ppp = A::mul(f, self.p, pp);
        let zz3 = A::mul(f, zz, pp);
        let zzz3 = A::mul(f, zzz, ppp);
        let q = A::mul(f, self.x1, pp);
        let y1_ppp = A::mul(f, self.y1, ppp);
        let rr = A::sqr(f, self.r);
        let x3 = A::sub(f, rr, ppp);
        let x3 = A::sub(f, x3, q);
        let x3 = A::sub(f, x3, q);
        let down = A::sub(f, q, x3);
        let y3 = A::mul(f, self.r, down);
        let y3 = A::sub(f, y3, y1_ppp);
        outputs::<A>(&[x3, y3, zz3, zzz3])
    }
}

/// 2 (x, y), with ZZ and ZZZ of the point, or none for an affine one.
fn double_over<A: Algebra>(
    f: &mut Recorder,
    x: A::Element,
    y: A::Element,
    zs: Option<(A::Element, A::Element)>,
) -> Vec<Reg> {
    let u = A::add(f, y, y);
    let v = A::sqr(f, u);
    let w = A::mul(f, u, v);
    let s = A::mul(f, x, v);
    let xx = A::sqr(f, x);
    let m = A::add(f, xx, xx);
    let m = A::add(f, m, xx);
    let mm = A::sqr(f, m);
    let x3 = A::sub(f, mm, s);
    let x3 = A::sub(f, x3, s);
    let down = A::sub(f, s, x3);
    let wy = A::mul(f, w, y);
    let y3 = A::mul(f, m, down);
    let y3 = A::sub(f, y3, wy);
    let (zz3, zzz3) = match zs {
        Some((zz, zzz)) => (A::mul(f, v, zz), A::mul(f, w, zzz)),
        None => (v, w),
    };
    outputs::<A>(&[x3, y3, zz3, zzz3])
}

fn add_affine_over<A: Algebra>() -> Routine {
    let [x1, y1, zz, zzz, x2, y2] = [0, 1, 2, 3, 4, 5].map(input::<A>);
    let mut f = Recorder::new((6 * A::DEGREE) as Reg);
    let u2 = A::mul(&mut f, x2, zz);
    let p = A::sub(&mut f, u2, x1);
    let s2 = A::mul(&mut f, y2, zzz);
    let r = A::sub(&mut f, s2, y1);
    let chord = Chord::<A> { x1, y1, p, r };
    f.fork(
        outputs::<A>(&[p, r]),
        |f| double_over::<A>(f, x2, y2, None),
        |f| chord.finish(f, zz, zzz),
    )
}

fn add_over<A: Algebra>() -> Routine {
    let [x1, y1, zz1, zzz1, x2, y2, zz2, zzz2] = [0, 1, 2, 3, 4, 5, 6, 7].map(input::<A>);
    let mut f = Recorder::new((8 * A::DEGREE) as Reg);
    let u1 = A::mul(&mut f, x1, zz2);
    let u2 = A::mul(&mut f, x2, zz1);
    let p = A::sub(&mut f, u2, u1);
    let s1 = A::mul(&mut f, y1, zzz2);
    let s2 = A::mul(&mut f, y2, zzz1);
    let r = A::sub(&mut f, s2, s1);
    let chord = Chord::<A> { x1: u1, y1: s1, p, r };
    f.fork(
        outputs::<A>(&[p, r]),
        |f| double_over::<A>(f, x1, y1, Some((zz1, zzz1))),
        |f| {
            let zz = A::mul(f, zz1, zz2);
            let zzz = A::mul(f, zzz1, zzz2);
            chord.finish(f, zz, zzz)
        },
    )
}

/// With Z = ZZ: X ZZ / ZZ^2 = x, and Y ZZZ / ZZ^3 = Y ZZZ / ZZZ^2 = y.
fn to_jacobian_over<A: Algebra>() -> Routine {
    let [x, y, zz, zzz] = [0, 1, 2, 3].map(input::<A>);
    let mut f = Recorder::new((4 * A::DEGREE) as Reg);
    let x = A::mul(&mut f, x, zz);
    let y = A::mul(&mut f, y, zzz);
    f.finish(outputs::<A>(&[x, y, zz]))
}

/// `radix` takes an integer v, read as a Montgomery form that stands for v / 2^384, to v.
fn decode_over<A: Algebra>() -> Routine {
    let [x, y] = [0, 1].map(input::<A>);
    let one = (2 * A::DEGREE) as Reg;
    let radix = one + 1;
    let mut f = Recorder::new(one + 2);
    let b = A::curve_b(&mut f, one);
    let x = A::scale(&mut f, x, radix);
    let y = A::scale(&mut f, y, radix);
    let xx = A::sqr(&mut f, x);
    let xxx = A::mul(&mut f, xx, x);
    let right = A::add(&mut f, xxx, b);
    let left = A::sqr(&mut f, y);
    let off = A::sub(&mut f, left, right);
    f.finish(outputs::<A>(&[x, y, off]))
}

#[cfg(test)]
mod tests;
