//! Element-wise operations over Fr, in parallel.

use crate::error::{KernelError, expect_len};
use crate::field::Fr;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements that a task takes at a time.
const CHUNK_LEN: usize = 1 << 10;

/// An input of an operation whose output may lie over it.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a, T> {
    /// The target's own content.
    Target,
    /// Another vector of the target's length.
    Slice(&'a [T]),
}

impl<T> Input<'_, T> {
    fn check(&self, target: &[T]) -> Result<(), KernelError> {
        match self {
            Self::Target => Ok(()),
            Self::Slice(slice) => expect_len("input", slice.len(), target.len()),
        }
    }

    #[inline(always)]
    fn get<'t>(&'t self, target: &'t T, i: usize) -> &'t T {
        match self {
            Self::Target => target,
            Self::Slice(slice) => &slice[i],
        }
    }
}

/// `target[i] = f(a[i])`.
fn map1(
    target: &mut [Fr],
    a: Input<'_, Fr>,
    f: impl Fn(&Fr) -> Fr + Sync,
) -> Result<(), KernelError> {
    a.check(target)?;
    target.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, target)| {
        for (i, target) in target.iter_mut().enumerate() {
            *target = f(a.get(target, chunk * CHUNK_LEN + i));
        }
    });
    Ok(())
}

/// `target[i] = f(a[i], b[i])`.
fn map2(
    target: &mut [Fr],
    a: Input<'_, Fr>,
    b: Input<'_, Fr>,
    f: impl Fn(&Fr, &Fr) -> Fr + Sync,
) -> Result<(), KernelError> {
    a.check(target)?;
    b.check(target)?;
    target.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, target)| {
        for (i, target) in target.iter_mut().enumerate() {
            let at = chunk * CHUNK_LEN + i;
            *target = f(a.get(target, at), b.get(target, at));
        }
    });
    Ok(())
}

/// `target = a + b`.
pub fn add(target: &mut [Fr], a: Input<'_, Fr>, b: Input<'_, Fr>) -> Result<(), KernelError> {
    map2(target, a, b, Fr::add)
}

/// `target = a - b`.
pub fn sub(target: &mut [Fr], a: Input<'_, Fr>, b: Input<'_, Fr>) -> Result<(), KernelError> {
    map2(target, a, b, Fr::sub)
}

/// `target = a * b`.
pub fn mul(target: &mut [Fr], a: Input<'_, Fr>, b: Input<'_, Fr>) -> Result<(), KernelError> {
    map2(target, a, b, Fr::mul)
}

/// `target = a * k`.
pub fn scale(target: &mut [Fr], a: Input<'_, Fr>, k: &Fr) -> Result<(), KernelError> {
    map1(target, a, |a| a.mul(k))
}

/// `target = (a * b - c) * k`.
pub fn mul_sub_scale(
    target: &mut [Fr],
    a: Input<'_, Fr>,
    b: Input<'_, Fr>,
    c: Input<'_, Fr>,
    k: &Fr,
) -> Result<(), KernelError> {
    for input in [a, b, c] {
        input.check(target)?;
    }
    target.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, target)| {
        for (i, target) in target.iter_mut().enumerate() {
            let at = chunk * CHUNK_LEN + i;
            let product = a.get(target, at).mul(b.get(target, at));
            *target = product.sub(c.get(target, at)).mul(k);
        }
    });
    Ok(())
}

/// Integers to Montgomery form. The index of the first that is not below r comes back; it and
/// others like it become zero.
pub fn to_montgomery(
    target: &mut [Fr],
    source: Input<'_, Fr>,
) -> Result<Option<usize>, KernelError> {
    source.check(target)?;
    let first = AtomicUsize::new(usize::MAX);
    target.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, target)| {
        for (i, target) in target.iter_mut().enumerate() {
            let at = chunk * CHUNK_LEN + i;
            let value = source.get(target, at);
            *target = if value.is_reduced() {
                value.to_montgomery()
            } else {
                first.fetch_min(at, Ordering::Relaxed);
                Fr::ZERO
            };
        }
    });
    let first = first.into_inner();
    Ok((first != usize::MAX).then_some(first))
}

/// Montgomery form to integers below r.
pub fn from_montgomery(target: &mut [Fr], source: Input<'_, Fr>) -> Result<(), KernelError> {
    map1(target, source, Fr::from_montgomery)
}

/// `target[i] = source[indices[i]]`, zero where the index is past the source.
pub fn gather(target: &mut [Fr], source: &[Fr], indices: &[u32]) -> Result<(), KernelError> {
    expect_len("indices", indices.len(), target.len())?;
    let chunks = target.par_chunks_mut(CHUNK_LEN).zip(indices.par_chunks(CHUNK_LEN));
    chunks.for_each(|(target, indices)| {
        for (target, index) in target.iter_mut().zip(indices) {
            *target = source.get(*index as usize).copied().unwrap_or_default();
        }
    });
    Ok(())
}

/// Bytes of a task of `fill` and `copy`.
const BYTES_CHUNK_LEN: usize = 1 << 18;

/// Sets every word to `word`; a part of a word at the end is left.
pub fn fill(target: &mut [u8], word: u32) {
    let pattern = word.to_ne_bytes();
    target.par_chunks_mut(BYTES_CHUNK_LEN).for_each(|chunk| {
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            chunk.fill(pattern[0]);
        } else {
            chunk.as_chunks_mut::<4>().0.fill(pattern);
        }
    });
}

/// Copies `source` over `target`, of the same length.
pub fn copy(target: &mut [u8], source: &[u8]) -> Result<(), KernelError> {
    expect_len("source", source.len(), target.len())?;
    let chunks = target.par_chunks_mut(BYTES_CHUNK_LEN).zip(source.par_chunks(BYTES_CHUNK_LEN));
    chunks.for_each(|(target, source)| target.copy_from_slice(source));
    Ok(())
}
