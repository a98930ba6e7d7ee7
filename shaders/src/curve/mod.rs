//! Points: the curves' formulas.
//!
//! Kernels hold points as X, Y, ZZ, ZZZ with x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2; ZZ = 0 is the
//! identity. Formulas: Explicit-Formulas Database, short Weierstrass curves with a = 0, XYZZ
//! coordinates: `madd-2008-s`, `add-2008-s`, `dbl-2008-s-1`.

mod wgsl;

pub(crate) use wgsl::list;
pub use wgsl::{
    FP_UNITS, Formula, affine_accessor, point_accessors, point_functions, store_coordinates,
};

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

    /// XYZZ P, then affine Q: P + Q. Neither may be the identity. P = Q is the rare case;
    /// P = -Q gives ZZ = 0 by itself.
    pub fn add_affine(self) -> Routine {
        match self {
            Self::G1 => add_affine_over::<OverFp>(),
            Self::G2 => add_affine_over::<OverFp2>(),
        }
    }

    /// XYZZ P, then XYZZ Q: P + Q. Neither may be the identity. P = Q is the rare case.
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

/// Adds from P = U2 - U1 and R = S2 - S1 on, with U1, S1 and the product of both points' ZZ and ZZZ.
///
/// Where P and R are zero the points are equal, and (U1, S1, ZZ, ZZZ) is one of them. Doubling it is
/// the same formula with 2 S1 and 3 U1^2 in place of P and R, but for one term:
/// `dbl-2008-s-1`'s V, W, S and M are PP, PPP, Q and R.
fn add_differences<A: Algebra>(
    mut f: Recorder,
    [u1, s1]: [A::Element; 2],
    [p, r]: [A::Element; 2],
    zs: impl FnOnce(&mut Recorder) -> [A::Element; 2],
) -> Routine {
    f.rare(outputs::<A>(&[p, r]), |f| {
        let p = A::add(f, s1, s1);
        let uu = A::sqr(f, u1);
        let r = A::add(f, uu, uu);
        let r = A::add(f, r, uu);
        outputs::<A>(&[p, r])
    });
    let pp = A::sqr(&mut f, p);
    let ppp = A::mul(&mut f, p, pp);
    let [zz, zzz] = zs(&mut f);
    let zz3 = A::mul(&mut f, zz, pp);
    let zzz3 = A::mul(&mut f, zzz, ppp);
    let q = A::mul(&mut f, u1, pp);
    let s1_ppp = A::mul(&mut f, s1, ppp);
    let rr = A::sqr(&mut f, r);
    let term = A::unless_rare(&mut f, ppp);
    let x3 = A::sub(&mut f, rr, term);
    let x3 = A::sub(&mut f, x3, q);
    let x3 = A::sub(&mut f, x3, q);
    let down = A::sub(&mut f, q, x3);
    let y3 = A::mul(&mut f, r, down);
    let y3 = A::sub(&mut f, y3, s1_ppp);
    let outputs = outputs::<A>(&[x3, y3, zz3, zzz3]);
    std::mem::replace(&mut f, Recorder::new(0)).finish(outputs)
}

fn add_affine_over<A: Algebra>() -> Routine {
    let [x1, y1, zz, zzz, x2, y2] = [0, 1, 2, 3, 4, 5].map(input::<A>);
    let mut f = Recorder::new((6 * A::DEGREE) as Reg);
    let u2 = A::mul(&mut f, x2, zz);
    let p = A::sub(&mut f, u2, x1);
    let s2 = A::mul(&mut f, y2, zzz);
    let r = A::sub(&mut f, s2, y1);
    add_differences::<A>(f, [x1, y1], [p, r], |_| [zz, zzz])
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
    add_differences::<A>(f, [u1, s1], [p, r], |f| [A::mul(f, zz1, zz2), A::mul(f, zzz1, zzz2)])
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
