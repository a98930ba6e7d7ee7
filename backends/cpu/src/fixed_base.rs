//! Many multiples of one point: the making of proving keys.
//!
//! For windows of w bits a table holds `d * 2^(w * j) * P` for each window j and each digit
//! d = 1..2^(w-1); with digits of either sign a multiple is then one table entry a window, and no
//! doublings. The multiples of a block are summed side by side, window after window, so that all
//! additions of a window share one inversion: 5M + 1S each, in affine coordinates throughout.
//!
//! Running time and memory accesses depend on the scalars.

use rayon::prelude::*;

use crate::error::{KernelError, expect_len};
use crate::field::{Affine, Coordinate, Fr, Jacobian};

/// One bit more than a scalar has, so that the top digit needs no carry.
const BITS: u32 = 256;
/// The largest table has 2^15 entries a window.
const MAX_WINDOW_BITS: u32 = 16;

/// The multiples of one point that make up all others.
#[derive(Clone, Debug)]
pub struct FixedBase<F> {
    window_bits: u32,
    /// 2^(window_bits - 1) entries a window, those of digit 1 first.
    table: Vec<Affine<F>>,
}

impl<F: Coordinate> FixedBase<F> {
    /// A table for about `count` multiples of `base`, which must be on its curve.
    pub fn new(base: &Affine<F>, count: usize) -> Self {
        Self::with_window_bits(base, best_window_bits(count))
    }

    /// A table of windows of `window_bits`, brought into 1..=16.
    pub fn with_window_bits(base: &Affine<F>, window_bits: u32) -> Self {
        let window_bits = window_bits.clamp(1, MAX_WINDOW_BITS);
        let row = 1usize << (window_bits - 1);
        let mut first = Jacobian::from(*base);
        let firsts: Vec<Affine<F>> = (0..BITS.div_ceil(window_bits))
            .map(|_| {
                let affine = first.to_affine();
                for _ in 0..window_bits {
                    first = F::jacobian_double(&first);
                }
                affine
            })
            .collect();
        let mut table = vec![Affine::IDENTITY; firsts.len() * row];
        table.par_chunks_mut(row).zip(&firsts).for_each_init(Batch::new, |batch, (row, first)| {
            row[0] = *first;
            let mut filled = 1;
            // d + filled for d = 1..=filled, from d and filled; d = filled is a doubling.
            while filled < row.len() {
                let (known, next) = row.split_at_mut(filled);
                let step = known[filled - 1];
                for (next, known) in
                    next[..filled].chunks_mut(F::BATCH_LEN).zip(known.chunks(F::BATCH_LEN))
                {
                    next.copy_from_slice(known);
                    batch.add(next, |_| step);
                }
                filled *= 2;
            }
        });
        Self { window_bits, table }
    }

    /// The width of the table's windows.
    pub fn window_bits(&self) -> u32 {
        self.window_bits
    }

    /// Writes `scalars[i]` times the base to `out[i]`. Scalars are in Montgomery form.
    ///
    /// # Errors
    /// [`KernelError::Length`] unless there are as many outputs as scalars.
    pub fn multiples(&self, scalars: &[Fr], out: &mut [Affine<F>]) -> Result<(), KernelError> {
        multiples(&self.table, self.window_bits, scalars, out)
    }

    /// The table: 2^(window_bits - 1) entries a window, those of digit 1 first.
    pub fn table(&self) -> &[Affine<F>] {
        &self.table
    }
}

/// Writes `scalars[i]` times the base to `out[i]`, by the base's [`FixedBase::table`]. Scalars are
/// in Montgomery form.
///
/// # Errors
/// [`KernelError::Length`] unless there are as many outputs as scalars and the table is whole.
pub fn multiples<F: Coordinate>(
    table: &[Affine<F>],
    window_bits: u32,
    scalars: &[Fr],
    out: &mut [Affine<F>],
) -> Result<(), KernelError> {
    let window_bits = window_bits.clamp(1, MAX_WINDOW_BITS);
    let row = 1usize << (window_bits - 1);
    let windows = BITS.div_ceil(window_bits) as usize;
    expect_len("multiples of a fixed base", out.len(), scalars.len())?;
    expect_len("table of a fixed base", table.len(), windows * row)?;
    let scratch = || (Batch::new(), vec![0i32; windows * F::BATCH_LEN]);
    (out.par_chunks_mut(F::BATCH_LEN).zip(scalars.par_chunks(F::BATCH_LEN))).for_each_init(
        scratch,
        |(batch, digits), (out, scalars)| {
            for (at, scalar) in scalars.iter().enumerate() {
                let digits = digits.iter_mut().skip(at).step_by(F::BATCH_LEN);
                write_digits(scalar.from_montgomery().0, window_bits, digits);
            }
            out.fill(Affine::IDENTITY);
            for (row, digits) in table.chunks(row).zip(digits.chunks(F::BATCH_LEN)) {
                batch.add(out, |at| match digits[at] {
                    0 => Affine::IDENTITY,
                    digit => {
                        let Affine { x, y } = row[digit.unsigned_abs() as usize - 1];
                        Affine { x, y: if digit < 0 { y.negate() } else { y } }
                    }
                });
            }
            // The scalars of a key are its trapdoor.
            digits.fill(0);
            std::hint::black_box(digits);
        },
    );
    Ok(())
}

/// The width of least work: an addition for each entry, and for each window of each multiple.
fn best_window_bits(count: usize) -> u32 {
    let work = |bits: u32| {
        u64::from(BITS.div_ceil(bits))
            .saturating_mul((count as u64).saturating_add(1 << (bits - 1)))
    };
    (2..=MAX_WINDOW_BITS).min_by_key(|bits| work(*bits)).unwrap_or(MAX_WINDOW_BITS)
}

/// Cuts `scalar` into digits within -2^(bits-1)..=2^(bits-1), lowest first.
fn write_digits<'a>(mut scalar: [u64; 4], bits: u32, digits: impl Iterator<Item = &'a mut i32>) {
    let mut carry = 0;
    for digit in digits {
        let mut value = (scalar[0] & ((1 << bits) - 1)) as i32 + carry;
        carry = i32::from(value > 1 << (bits - 1));
        value -= carry << bits;
        *digit = value;
        for i in 0..4 {
            let above = scalar.get(i + 1).map_or(0, |limb| limb << (64 - bits));
            scalar[i] = scalar[i] >> bits | above;
        }
    }
}

/// Scratch for additions that share an inversion.
struct Batch<F> {
    addends: Vec<Affine<F>>,
    denominators: Vec<F>,
    /// The product of the denominators before this one.
    products: Vec<F>,
    tangents: Vec<bool>,
}

impl<F: Coordinate> Batch<F> {
    fn new() -> Self {
        Self {
            addends: vec![Affine::IDENTITY; F::BATCH_LEN],
            denominators: vec![F::ZERO; F::BATCH_LEN],
            products: vec![F::ZERO; F::BATCH_LEN],
            tangents: vec![false; F::BATCH_LEN],
        }
    }

    /// Adds `addend(i)` to `sums[i]`, for at most `BATCH_LEN` sums. A denominator of zero marks a
    /// sum that is known without a division.
    #[inline(always)]
    fn add(&mut self, sums: &mut [Affine<F>], addend: impl Fn(usize) -> Affine<F>) {
        let mut product = F::ONE;
        for (i, sum) in sums.iter_mut().enumerate() {
            let addend = addend(i);
            let (denominator, tangent) = if addend.x.is_zero() && addend.is_identity() {
                (F::ZERO, false)
            } else if sum.x.is_zero() && sum.is_identity() {
                *sum = addend;
                (F::ZERO, false)
            } else {
                let difference = addend.x.sub(&sum.x);
                if !difference.is_zero() {
                    (difference, false)
                } else if addend.y == sum.y {
                    (sum.y.add(&sum.y), true)
                } else {
                    *sum = Affine::IDENTITY;
                    (F::ZERO, false)
                }
            };
            self.addends[i] = addend;
            self.denominators[i] = denominator;
            self.tangents[i] = tangent;
            self.products[i] = product;
            if !denominator.is_zero() {
                product = product.mul(&denominator);
            }
        }
        let mut inverse = product.invert();
        for (i, sum) in sums.iter_mut().enumerate().rev() {
            let denominator = self.denominators[i];
            if denominator.is_zero() {
                continue;
            }
            let own = inverse.mul(&self.products[i]);
            inverse = inverse.mul(&denominator);
            let addend = &self.addends[i];
            let numerator = if self.tangents[i] {
                let square = sum.x.square();
                square.add(&square).add(&square)
            } else {
                addend.y.sub(&sum.y)
            };
            let slope = numerator.mul(&own);
            let x = slope.square().sub(&sum.x).sub(&addend.x);
            *sum = Affine { x, y: slope.mul(&sum.x.sub(&x)).sub(&sum.y) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FR_MODULUS, Fp, Fp2};
    use ff::Field;
    use group::{Curve, Group};
    use rand::rngs::OsRng;

    /// A group element's affine form in this crate's types.
    fn affine<F: Coordinate>(bytes: &[u64]) -> Affine<F> {
        *bytemuck::from_bytes(bytemuck::cast_slice(bytes))
    }

    fn g1(point: blstrs::G1Projective) -> Affine<Fp> {
        let raw: &blst::blst_p1_affine = &point.to_affine().as_ref().to_owned();
        affine(&[raw.x.l, raw.y.l].concat())
    }

    fn g2(point: blstrs::G2Projective) -> Affine<Fp2> {
        let raw: &blst::blst_p2_affine = &point.to_affine().as_ref().to_owned();
        affine(&[raw.x.fp[0].l, raw.x.fp[1].l, raw.y.fp[0].l, raw.y.fp[1].l].concat())
    }

    fn fr(scalar: blstrs::Scalar) -> Fr {
        Fr(blst::blst_fr::from(scalar).l)
    }

    /// 0, 1, -1 and their neighbours, powers of two and their sums with neighbours, halves of
    /// windows, random ones.
    fn scalars(count: usize) -> Vec<blstrs::Scalar> {
        let one = blstrs::Scalar::ONE;
        let mut scalars = vec![blstrs::Scalar::ZERO, one, -one, one.double(), -one.double()];
        let mut power = one;
        for _ in 0..255 {
            scalars.extend([power, -power, power - one, power + one, power + power.square()]);
            power = power.double();
        }
        scalars.resize_with(scalars.len().max(count), || blstrs::Scalar::random(OsRng));
        scalars.truncate(count);
        scalars
    }

    #[test]
    fn g1_multiples_equal_blst_at_every_width() {
        let base = blstrs::G1Projective::random(OsRng);
        let scalars = scalars(1400);
        let expected: Vec<_> = scalars.iter().map(|scalar| g1(base * scalar)).collect();
        let scalars: Vec<_> = scalars.into_iter().map(fr).collect();
        for window_bits in 1..=16 {
            let table = FixedBase::with_window_bits(&g1(base), window_bits);
            assert_eq!(table.window_bits(), window_bits);
            let mut out = vec![Affine::default(); scalars.len()];
            table.multiples(&scalars, &mut out).unwrap();
            assert!(out == expected, "window of {window_bits} bits");
        }
    }

    #[test]
    fn g2_multiples_equal_blst() {
        let base = blstrs::G2Projective::random(OsRng);
        let scalars = scalars(1400);
        let expected: Vec<_> = scalars.iter().map(|scalar| g2(base * scalar)).collect();
        let scalars: Vec<_> = scalars.into_iter().map(fr).collect();
        for window_bits in [1, 4, 11] {
            let mut out = vec![Affine::default(); scalars.len()];
            let table = FixedBase::with_window_bits(&g2(base), window_bits);
            table.multiples(&scalars, &mut out).unwrap();
            assert!(out == expected, "window of {window_bits} bits");
        }
    }

    #[test]
    fn lengths_around_a_block() {
        let base = blstrs::G1Projective::generator();
        let table = FixedBase::new(&g1(base), 100);
        for count in [0, 1, 2, Fp::BATCH_LEN - 1, Fp::BATCH_LEN, Fp::BATCH_LEN + 1] {
            let scalars: Vec<_> = (0..count as u64).map(Fr::from_u64).collect();
            let mut out = vec![g1(base); count];
            table.multiples(&scalars, &mut out).unwrap();
            let mut expected = blstrs::G1Projective::identity();
            for point in out {
                assert_eq!(point, g1(expected));
                expected += base;
            }
        }
        let error = table.multiples(&[Fr::ONE], &mut []).unwrap_err().to_string();
        assert_eq!(error, "multiples of a fixed base: length 0, but 1 needed");
    }

    #[test]
    fn multiples_of_the_identity_are_the_identity() {
        let table = FixedBase::<Fp>::new(&Affine::IDENTITY, 10);
        let mut out = vec![Affine { x: Fp::ONE, y: Fp::ONE }; 3];
        table.multiples(&[Fr::ZERO, Fr::ONE, fr(-blstrs::Scalar::ONE)], &mut out).unwrap();
        assert!(out.iter().all(Affine::is_identity));
    }

    #[test]
    fn digits_recompose() {
        let mut top = FR_MODULUS;
        top[0] -= 1;
        for bits in 1..=16 {
            let mut digits = vec![0; BITS.div_ceil(bits) as usize];
            write_digits(top, bits, digits.iter_mut());
            let base = blstrs::Scalar::from(1 << bits);
            let sum = digits.iter().rev().fold(blstrs::Scalar::ZERO, |sum, digit| {
                let size = blstrs::Scalar::from(u64::from(digit.unsigned_abs()));
                assert!(digit.unsigned_abs() <= 1 << (bits - 1));
                sum * base + if *digit < 0 { -size } else { size }
            });
            assert_eq!(sum, -blstrs::Scalar::ONE, "{bits} bits");
        }
    }

    #[test]
    fn wider_windows_for_more_multiples() {
        let widths: Vec<_> = [0, 100, 10_000, 1 << 20].map(best_window_bits).into();
        assert!(widths.is_sorted() && widths[0] < widths[3], "{widths:?}");
    }
}
