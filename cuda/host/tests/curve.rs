//! Sums of points against blstrs, degenerate cases first.

use group::prime::PrimeCurveAffine;
use group::{Curve, Group};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{self, CurveOracle};
use twinlock_cuda_host::curve::{G1, G2, Step, Sum};
use twinlock_cuda_host::field::Limbs;

/// A group in both worlds.
trait Case: Sum + Copy {
    type Oracle: CurveOracle;
    const IDENTITY: Self;
    /// The identity with coordinates that are not zero.
    fn other_identity(from: &Self) -> Self;
    fn affine(limbs: &[u32]) -> Self::Affine;
    fn jacobian(limbs: &Self::Jacobian) -> &[u32];
}

fn array<const N: usize>(limbs: &[u32]) -> Limbs<N> {
    Limbs(limbs.try_into().expect("as many limbs as the point has"))
}

macro_rules! case {
    ($sum:ty, $oracle:ty) => {
        impl Case for $sum {
            type Oracle = $oracle;
            const IDENTITY: Self = Limbs([0; size_of::<Self>() / 4]);
            fn other_identity(from: &Self) -> Self {
                let mut out = *from;
                let half = out.0.len() / 2;
                out.0[half..].fill(0);
                out
            }
            fn affine(limbs: &[u32]) -> Self::Affine {
                array(limbs)
            }
            fn jacobian(limbs: &Self::Jacobian) -> &[u32] {
                &limbs.0
            }
        }
    };
}

case!(G1, oracle::G1);
case!(G2, oracle::G2);

type Point<S> = <<S as Case>::Oracle as CurveOracle>::Point;
type AffinePoint<S> = <<S as Case>::Oracle as CurveOracle>::Affine;

fn encode<S: Case>(point: &AffinePoint<S>) -> S::Affine {
    let bytes = S::Oracle::encode(point);
    let words: Vec<u32> =
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    S::affine(&words)
}

fn decode<S: Case>(sum: &S) -> Point<S> {
    let jacobian = sum.to_jacobian();
    let bytes: Vec<u8> =
        S::jacobian(&jacobian).iter().flat_map(|word| word.to_le_bytes()).collect();
    S::Oracle::decode_jacobian(&bytes).expect("a point of the curve")[0]
}

/// The point as a sum with a denominator other than one: P + Q - Q.
fn spread<S: Case>(point: &Point<S>, rng: &mut ChaCha8Rng) -> S {
    let other = Point::<S>::random(rng).to_affine();
    let mut sum = S::IDENTITY;
    sum.step(Step::AddAffine(&encode::<S>(&(*point + other).to_affine())));
    sum.step(Step::AddAffine(&encode::<S>(&-other)));
    sum
}

fn every_case<S: Case>() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let generator = Point::<S>::generator();
    let point = Point::<S>::random(&mut rng);
    let identity = Point::<S>::identity();
    let known = [identity, generator, -generator, point, -point, point.double(), point + generator];
    for a in &known {
        // In several forms: as one affine point, and over another denominator.
        let mut forms = vec![spread::<S>(a, &mut rng)];
        let mut plain = S::IDENTITY;
        plain.step(Step::AddAffine(&encode::<S>(&a.to_affine())));
        forms.push(plain);
        if bool::from(a.is_identity()) {
            forms.push(S::other_identity(&spread::<S>(&point, &mut rng)));
        } else {
            let mut half = S::IDENTITY;
            half.step(Step::TwiceAffine(&encode::<S>(&a.to_affine())));
            assert_eq!(decode(&half), a.double(), "twice, seed {seed}");
        }
        for form in &forms {
            assert_eq!(decode(form), *a, "seed {seed}");
            let changed = |step: Step<'_, S::Affine, S>| {
                let mut sum = *form;
                sum.step(step);
                decode(&sum)
            };
            assert_eq!(changed(Step::Double), a.double(), "dbl, seed {seed}");
            assert_eq!(changed(Step::Negate), -*a, "neg, seed {seed}");
            for b in &known {
                let affine = encode::<S>(&b.to_affine());
                for step in [Step::AddAffine(&affine), Step::AddAffineKept(&affine)] {
                    assert_eq!(changed(step), *a + b, "{a:?} + {b:?}, seed {seed}");
                }
                let mut others = vec![spread::<S>(b, &mut rng), S::IDENTITY];
                others[1].step(Step::AddAffine(&affine));
                if bool::from(b.is_identity()) {
                    others.push(S::other_identity(&forms[0]));
                }
                for other in &others {
                    for step in [Step::Add(other), Step::AddKept(other)] {
                        assert_eq!(changed(step), *a + b, "{a:?} + {b:?}, seed {seed}");
                    }
                }
            }
        }
    }
}

/// Long sums: results of one step are operands of the next.
fn random_walk<S: Case>() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut known = [Point::<S>::generator(), Point::<S>::random(&mut rng)];
    let mut sums = known.map(|point| spread::<S>(&point, &mut rng));
    for round in 0..300 {
        let (to, from) = (rng.gen_range(0..2), rng.gen_range(0..2));
        let other = sums[from];
        match rng.gen_range(0..6) {
            0 => {
                sums[to].step(Step::Add(&other));
                known[to] += known[from];
            }
            1 => {
                sums[to].step(Step::AddKept(&other));
                known[to] += known[from];
            }
            2 => {
                sums[to].step(Step::Double);
                known[to] = known[to].double();
            }
            3 => {
                sums[to].step(Step::Negate);
                known[to] = -known[to];
            }
            kind => {
                let point = (Point::<S>::generator() * known_scalar(&mut rng)).to_affine();
                let affine = encode::<S>(&point);
                sums[to].step(match kind {
                    4 => Step::AddAffineKept(&affine),
                    _ => Step::AddAffine(&affine),
                });
                known[to] += AffinePoint::<S>::to_curve(&point);
            }
        }
        assert_eq!(decode(&sums[to]), known[to], "round {round}, seed {seed}");
    }
}

fn known_scalar(rng: &mut ChaCha8Rng) -> blstrs::Scalar {
    blstrs::Scalar::from(rng.gen_range(0..4u64))
}

#[test]
fn every_case_in_g1() {
    every_case::<G1>();
}

#[test]
fn every_case_in_g2() {
    every_case::<G2>();
}

#[test]
fn random_walk_in_g1() {
    random_walk::<G1>();
}

#[test]
fn random_walk_in_g2() {
    random_walk::<G2>();
}
