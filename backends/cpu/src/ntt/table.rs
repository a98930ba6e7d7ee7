//! Tables of twiddles: those of the stage with 2^s different twiddles lie at 2^s..2^(s + 1).

use super::reverse::reverse_bits;
use crate::field::Fr;

/// Fills a table whose length is a power of two: stage s has the powers of `root(s + 1)`, of order
/// 2^(s + 1), to the exponents 0..2^s; with exponents of reversed bits if `by_block`.
pub(super) fn fill(table: &mut [Fr], root: impl Fn(u32) -> Fr, by_block: bool) {
    let lg = table.len().trailing_zeros();
    table[0] = Fr::ONE;
    if lg == 0 {
        return;
    }
    let half = table.len() / 2;
    let (lower, top) = table.split_at_mut(half);
    if by_block {
        let root = root(lg);
        let mut power = Fr::ONE;
        for exponent in 0..half {
            top[reverse_bits(exponent, lg - 1)] = power;
            power = power.mul(&root);
        }
        // Reversed exponents of a stage begin with those of the stage before.
        for s in 0..lg - 1 {
            lower[1 << s..2 << s].copy_from_slice(&top[..1 << s]);
        }
    } else {
        powers(top, &Fr::ONE, &root(lg));
        for s in 0..lg - 1 {
            for j in 0..1 << s {
                lower[(1 << s) + j] = top[j << (lg - 1 - s)];
            }
        }
    }
}

/// The table of a line of length 2^lg: stage lg - 1 times `factor`, the one below times its square,
/// and so on.
pub(super) fn scale(table: &[Fr], lg: u32, factor: &Fr, out: &mut [Fr]) {
    let mut factor = *factor;
    out[0] = Fr::ONE;
    for s in (0..lg).rev() {
        for i in 1 << s..2 << s {
            out[i] = table[i].mul(&factor);
        }
        factor = factor.square();
    }
}

/// `start`, `start * step`, `start * step^2`, ...
pub(super) fn powers(out: &mut [Fr], start: &Fr, step: &Fr) {
    let mut power = *start;
    for out in out {
        *out = power;
        power = power.mul(step);
    }
}
