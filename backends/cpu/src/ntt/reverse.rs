//! Bit reversal.

use crate::field::Fr;
use crate::scatter::Scatter;
use rayon::prelude::*;

/// The lowest `bits` bits of `i`, reversed; `i` has no others.
#[inline(always)]
pub(super) fn reverse_bits(i: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

/// Reverses the order of bits in place; the length is a power of two.
///
/// An index is cut in three, (a, middle, b), a and b of the same width. Elements of one middle
/// change places with those of the reversed middle; taken together they are a square tile, whose
/// rows are whole cache lines.
pub(crate) fn reverse_order(values: &mut [Fr]) {
    let lg = values.len().trailing_zeros();
    let tile_bits = (lg / 2).min(4);
    let middle_bits = lg - 2 * tile_bits;
    let cells = Scatter::new(values);
    let swap_tiles = |middle: usize| {
        let other = reverse_bits(middle, middle_bits);
        if other < middle {
            return;
        }
        for a in 0..1usize << tile_bits {
            for b in 0..1usize << tile_bits {
                let i = (((a << middle_bits) | middle) << tile_bits) | b;
                let j = reverse_bits(i, lg);
                if middle == other && j <= i {
                    continue;
                }
                // SAFETY: i and j have the middles `middle` and `other`; the pair is handled by
                // the call with the lower of the two alone, each i in it once.
                #[allow(unsafe_code)]
                unsafe {
                    if let (Some(x), Some(y)) = (cells.read(i), cells.read(j)) {
                        cells.write(i, y);
                        cells.write(j, x);
                    }
                }
            }
        }
    };
    (0..1usize << middle_bits).into_par_iter().with_min_len(16).for_each(swap_tiles);
}
