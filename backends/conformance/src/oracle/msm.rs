//! Multi-scalar multiplication by doubling and adding, and by known logarithms.

use blstrs::Scalar;
use ff::Field;
use group::Group as _;
use group::prime::PrimeCurveAffine;
use rand::RngCore;
use rayon::prelude::*;

use super::curve::CurveOracle;

/// Sum of `scalars[i]` * `bases[i]`: all bits of all scalars from the top, with shared doublings.
pub fn msm_naive<C: CurveOracle>(scalars: &[Scalar], bases: &[C::Affine]) -> C::Point {
    combine::<C>(&window_sums::<C>(scalars, bases, 1), 1)
}

/// For every window i of `window_bits` bits the sum over j of digit i of `scalars[j]` times
/// `bases[j]`, unsigned digits.
pub fn window_sums<C: CurveOracle>(
    scalars: &[Scalar],
    bases: &[C::Affine],
    window_bits: u32,
) -> Vec<C::Point> {
    let scalars: Vec<_> = scalars.iter().map(Scalar::to_bytes_le).collect();
    let num_bits = 255;
    let window = |low: u32| {
        let bits = (low..num_bits.min(low + window_bits)).rev();
        bits.fold(C::Point::identity(), |sum, bit| {
            let (byte, mask) = (bit as usize / 8, 1 << (bit % 8));
            let set = scalars.iter().zip(bases).filter(|(scalar, _)| scalar[byte] & mask != 0);
            set.fold(sum.double(), |sum, (_, base)| sum + base)
        })
    };
    (0..num_bits).step_by(window_bits as usize).map(window).collect()
}

/// Sum of 2^(`window_bits` * i) * `windows[i]`.
pub fn combine<C: CurveOracle>(windows: &[C::Point], window_bits: u32) -> C::Point {
    windows.iter().rev().fold(C::Point::identity(), |sum, window| {
        (0..window_bits).fold(sum, |sum, _| sum.double()) + window
    })
}

/// Different points and their logarithms to the base of the generator.
pub struct KnownBases<C: CurveOracle> {
    /// The points.
    pub points: Vec<C::Affine>,
    /// Their logarithms.
    pub logs: Vec<Scalar>,
}

/// `len` points in an arithmetic progression with random start and step.
pub fn known_bases<C: CurveOracle>(len: usize, rng: &mut impl RngCore) -> KnownBases<C> {
    // Of those between, each is the one before plus a step.
    const BLOCK: usize = 1 << 10;
    let (start, step) = (Scalar::random(&mut *rng), Scalar::random(&mut *rng));
    let generator = C::Affine::generator();
    let step_point: C::Affine = group::Curve::to_affine(&(generator * step));
    let mut points = vec![C::Affine::identity(); len];
    let mut logs = vec![Scalar::ZERO; len];
    points.par_chunks_mut(BLOCK).zip(logs.par_chunks_mut(BLOCK)).enumerate().for_each(
        |(block, (points, logs))| {
            let mut log = start + step * Scalar::from((block * BLOCK) as u64);
            let mut point = generator * log;
            let mut sums = Vec::with_capacity(points.len());
            for known in logs {
                *known = log;
                sums.push(point);
                log += step;
                point += step_point;
            }
            group::Curve::batch_normalize(&sums, points);
        },
    );
    KnownBases { points, logs }
}

/// (Sum of `scalars[i]` * `logs[i]`) times the generator.
pub fn msm_by_logs<C: CurveOracle>(scalars: &[Scalar], logs: &[Scalar]) -> C::Point {
    let sum = scalars.par_iter().zip(logs).map(|(scalar, log)| scalar * log).sum::<Scalar>();
    C::Affine::generator() * sum
}

#[cfg(test)]
mod tests {
    use super::super::curve::{G1, G2};
    use super::*;
    use rand::SeedableRng;

    fn oracles_agree<C: CurveOracle>() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
        let bases = known_bases::<C>(7, &mut rng);
        let mut scalars: Vec<_> = (0..7).map(|_| Scalar::random(&mut rng)).collect();
        scalars[0] = Scalar::ZERO;
        scalars[1] = Scalar::ONE;
        scalars[2] = -Scalar::ONE;
        let expected: C::Point =
            bases.points.iter().zip(&scalars).map(|(base, scalar)| *base * scalar).sum();
        assert_eq!(msm_naive::<C>(&scalars, &bases.points), expected);
        assert_eq!(msm_by_logs::<C>(&scalars, &bases.logs), expected);
        for window_bits in [2, 5, 13, 16] {
            let windows = window_sums::<C>(&scalars, &bases.points, window_bits);
            assert_eq!(combine::<C>(&windows, window_bits), expected, "{window_bits} bits");
        }
    }

    #[test]
    fn oracles_agree_in_both_groups() {
        oracles_agree::<G1>();
        oracles_agree::<G2>();
    }
}
