//! Carving a caller's bytes into typed slices, and running units of work over shares of them.

use crate::error::KernelError;
use bytemuck::Pod;
use std::sync::{Mutex, PoisonError};

/// The alignment of every slice carved, in bytes; it keeps threads' shares off each other's cache
/// lines.
const ALIGN: usize = 64;

/// The bytes that `carve` takes for `len` elements of `T`.
pub(crate) const fn carved_bytes<T>(len: usize) -> usize {
    (len * size_of::<T>()).next_multiple_of(ALIGN)
}

/// Takes `len` elements of `T` off the front of `bytes`.
pub(crate) fn carve<'a, T: Pod>(
    what: &'static str,
    bytes: &mut &'a mut [u8],
    len: usize,
) -> Result<&'a mut [T], KernelError> {
    let size_bytes = carved_bytes::<T>(len);
    let whole = std::mem::take(bytes);
    let got = whole.len();
    let Some((front, rest)) = whole.split_at_mut_checked(size_bytes) else {
        return Err(KernelError::Length { what, got, expected: size_bytes });
    };
    *bytes = rest;
    cast_mut(what, &mut front[..len * size_of::<T>()])
}

/// The bytes as elements of `T`.
pub(crate) fn cast_mut<'a, T: Pod>(
    what: &'static str,
    bytes: &'a mut [u8],
) -> Result<&'a mut [T], KernelError> {
    // An empty slice may lie anywhere.
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| KernelError::Layout { what })
}

/// The bytes as elements of `T`.
pub(crate) fn cast<'a, T: Pod>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [T], KernelError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| KernelError::Layout { what })
}

/// Hands `units` out to one task for each of `scratch`, until none is left.
///
/// Tasks take the next unit when they are done with the last, so units may be uneven; the larger
/// ones should come first.
pub(crate) fn run_units<S: Send, U: Send>(
    scratch: impl Iterator<Item = S> + Send,
    units: impl Iterator<Item = U> + Send,
    work: impl Fn(&mut S, U) + Sync,
) {
    let units = Mutex::new(units);
    let next = || units.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (work, next) = (&work, &next);
    rayon::scope(|scope| {
        for mut scratch in scratch {
            scope.spawn(move |_| {
                while let Some(unit) = next() {
                    work(&mut scratch, unit);
                }
            });
        }
    });
}
