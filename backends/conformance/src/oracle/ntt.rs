//! Transforms by their definition.

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;
use twinlock_api::op::{Direction, Order};

/// Which transform, of which layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// Forward or inverse.
    pub direction: Direction,
    /// Whether the domain is shifted by 7.
    pub coset: bool,
    /// Order of the input.
    pub input: Order,
    /// Order of the output.
    pub output: Order,
}

impl Transform {
    /// All sixteen.
    pub fn all() -> Vec<Self> {
        let orders = [Order::Natural, Order::BitReversed];
        let mut all = Vec::with_capacity(16);
        for direction in [Direction::Forward, Direction::Inverse] {
            for coset in [false, true] {
                for input in orders {
                    all.extend(orders.map(|output| Self { direction, coset, input, output }));
                }
            }
        }
        all
    }
}

/// The lowest `bits` bits of `index`, reversed.
pub fn bit_reverse(index: usize, bits: u32) -> usize {
    if bits == 0 { index } else { index.reverse_bits() >> (usize::BITS - bits) }
}

/// The primitive 2^`lg`-th root of unity that all transforms use.
pub fn omega(lg: u32) -> Scalar {
    (lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square())
}

/// Reorders `values` between natural and bit-reversed order.
fn reorder(values: &[Scalar]) -> Vec<Scalar> {
    let bits = values.len().trailing_zeros();
    (0..values.len()).map(|i| values[bit_reverse(i, bits)]).collect()
}

/// Output `k` of the transform of `values`, both in natural order, by Horner's rule.
pub fn output_at(values: &[Scalar], direction: Direction, coset: bool, k: usize) -> Scalar {
    let lg = values.len().trailing_zeros();
    let shift = if coset { Scalar::MULTIPLICATIVE_GENERATOR } else { Scalar::ONE };
    let power = omega(lg).pow_vartime([k as u64]);
    let horner = |point: Scalar| {
        const BLOCK: usize = 1 << 12;
        let block = |(at, block): (usize, &[Scalar])| {
            let value = block.iter().rev().fold(Scalar::ZERO, |sum, value| sum * point + value);
            value * point.pow_vartime([(at * BLOCK) as u64])
        };
        values.par_chunks(BLOCK).enumerate().map(block).sum::<Scalar>()
    };
    match direction {
        Direction::Forward => horner(shift * power),
        Direction::Inverse => {
            let divisor = shift.pow_vartime([k as u64]) * Scalar::from(values.len() as u64);
            horner(power.invert().unwrap_or(Scalar::ZERO))
                * divisor.invert().unwrap_or(Scalar::ZERO)
        }
    }
}

/// The transform by O(n^2) sums.
pub fn ntt_naive(values: &[Scalar], transform: Transform) -> Vec<Scalar> {
    by(values, transform, |natural| {
        (0..natural.len())
            .map(|k| output_at(natural, transform.direction, transform.coset, k))
            .collect()
    })
}

/// The transform by halving, for sizes past the naive one's.
pub fn ntt_recursive(values: &[Scalar], transform: Transform) -> Vec<Scalar> {
    by(values, transform, |natural| {
        let root = omega(natural.len().trailing_zeros());
        let shift = Scalar::MULTIPLICATIVE_GENERATOR;
        let scaled = |values: &[Scalar], first: Scalar, ratio: Scalar| -> Vec<Scalar> {
            let powers = std::iter::successors(Some(first), |power| Some(power * ratio));
            values.iter().zip(powers).map(|(value, power)| value * power).collect()
        };
        match (transform.direction, transform.coset) {
            (Direction::Forward, false) => halve(natural, root),
            (Direction::Forward, true) => halve(&scaled(natural, Scalar::ONE, shift), root),
            (Direction::Inverse, coset) => {
                let invert = |value: Scalar| value.invert().unwrap_or(Scalar::ZERO);
                let ratio = if coset { invert(shift) } else { Scalar::ONE };
                let len = invert(Scalar::from(natural.len() as u64));
                scaled(&halve(natural, invert(root)), len, ratio)
            }
        }
    })
}

fn by(
    values: &[Scalar],
    transform: Transform,
    natural: impl FnOnce(&[Scalar]) -> Vec<Scalar>,
) -> Vec<Scalar> {
    let output = match transform.input {
        Order::Natural => natural(values),
        Order::BitReversed => natural(&reorder(values)),
    };
    match transform.output {
        Order::Natural => output,
        Order::BitReversed => reorder(&output),
    }
}

/// Evaluations at the powers of `root`: even and odd coefficients apart.
fn halve(values: &[Scalar], root: Scalar) -> Vec<Scalar> {
    if values.len() <= 1 {
        return values.to_vec();
    }
    let half = |offset| {
        let part: Vec<_> = values.iter().skip(offset).step_by(2).copied().collect();
        halve(&part, root.square())
    };
    let (even, odd) = (half(0), half(1));
    let mut twiddle = Scalar::ONE;
    let mut low = Vec::with_capacity(values.len());
    let mut high = Vec::with_capacity(values.len() / 2);
    for (even, odd) in even.iter().zip(&odd) {
        let product = twiddle * odd;
        low.push(even + product);
        high.push(even - product);
        twiddle *= root;
    }
    low.append(&mut high);
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn omega_has_its_order() {
        assert_eq!(omega(0), Scalar::ONE);
        assert_eq!(omega(1), -Scalar::ONE);
        let root = omega(7);
        assert_eq!(root.pow_vartime([64]), -Scalar::ONE);
    }

    #[test]
    fn a_product_of_polynomials_is_a_product_of_evaluations() {
        // (1 + 2x)(3 + x) = 3 + 7x + 2x^2
        let poly = |c: [u64; 4]| c.map(Scalar::from).to_vec();
        let plain = |direction| Transform {
            direction,
            coset: false,
            input: Order::Natural,
            output: Order::Natural,
        };
        let a = ntt_naive(&poly([1, 2, 0, 0]), plain(Direction::Forward));
        let b = ntt_naive(&poly([3, 1, 0, 0]), plain(Direction::Forward));
        let product: Vec<_> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        assert_eq!(ntt_naive(&product, plain(Direction::Inverse)), poly([3, 7, 2, 0]));
    }

    #[test]
    fn halving_agrees_with_the_definition() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for lg in 0..7 {
            let values: Vec<_> = (0..1 << lg).map(|_| Scalar::random(&mut rng)).collect();
            for transform in Transform::all() {
                assert_eq!(
                    ntt_naive(&values, transform),
                    ntt_recursive(&values, transform),
                    "lg {lg}, {transform:?}"
                );
            }
        }
    }
}
