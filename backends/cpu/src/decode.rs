//! Points as parameter files hold them: big-endian, uncompressed, with Zcash's flag bits.

use crate::error::{KernelError, expect_len};
use crate::field::{Affine, Coordinate};
use crate::workspace::cast_mut;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first byte's flag of a compressed point.
const COMPRESSED: u8 = 0x80;
/// The first byte's flag of the identity.
const INFINITY: u8 = 0x40;
/// The first byte's flag of a compressed point's greater y.
const SIGN: u8 = 0x20;

/// Points that a task takes at a time.
const CHUNK_LEN: usize = 256;

/// A point from its encoding, x then y; `None` unless it is the one encoding of what it stands
/// for and, with `on_curve`, satisfies the curve's equation. Subgroups are not checked.
fn decode_point<F: Coordinate>(bytes: &[u8], on_curve: bool) -> Option<Affine<F>> {
    let (first, rest) = bytes.split_first()?;
    let all_zero = rest.iter().all(|byte| *byte == 0);
    if first & (COMPRESSED | SIGN) != 0 {
        return None;
    }
    if first & INFINITY != 0 {
        return (*first == INFINITY && all_zero).then_some(Affine::IDENTITY);
    }
    // Without the flag (0, 0) is a point off the curve, and may not pass for the identity.
    if *first == 0 && all_zero {
        return None;
    }
    let (x, y) = bytes.split_at_checked(bytes.len() / 2)?;
    let point = Affine { x: F::from_be_bytes(x)?, y: F::from_be_bytes(y)? };
    (!on_curve || F::on_curve(&point)).then_some(point)
}

/// Decodes points from `source`, or from `target`'s own bytes, to canonical layout in `target`.
/// The index of the first bad one comes back; bad ones become the identity.
pub fn decode_points<F: Coordinate>(
    target: &mut [u8],
    source: Option<&[u8]>,
    on_curve: bool,
) -> Result<Option<usize>, KernelError> {
    if let Some(source) = source {
        expect_len("source bytes", source.len(), target.len())?;
    }
    let size = size_of::<Affine<F>>();
    let first_bad = AtomicUsize::new(usize::MAX);
    let points: &mut [Affine<F>] = cast_mut("target", target)?;
    points.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, points)| {
        for (i, point) in points.iter_mut().enumerate() {
            let at = chunk * CHUNK_LEN + i;
            let encoded = match source {
                Some(source) => &source[at * size..(at + 1) * size],
                None => bytemuck::bytes_of(point),
            };
            let decoded = decode_point(encoded, on_curve);
            if decoded.is_none() {
                first_bad.fetch_min(at, Ordering::Relaxed);
            }
            *point = decoded.unwrap_or(Affine::IDENTITY);
        }
    });
    let first_bad = first_bad.into_inner();
    Ok((first_bad != usize::MAX).then_some(first_bad))
}
