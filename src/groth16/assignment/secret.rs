//! Wiping of vectors that hold a witness.

use blstrs::Scalar;
use rayon::prelude::*;
use zeroize::Zeroize;

use crate::{host_threads, views};

/// Scalars that one task wipes.
const WIPE_CHUNK: usize = 1 << 16;

/// Overwrites `scalars` with zeros in a way that the compiler keeps.
pub(crate) fn wipe(scalars: &mut [Scalar]) {
    let wipe = |chunk: &mut [Scalar]| match bytemuck::try_cast_slice_mut::<u8, u64>(
        views::as_bytes_mut(chunk),
    ) {
        Ok(limbs) => limbs.zeroize(),
        Err(_) => views::as_bytes_mut(chunk).zeroize(),
    };
    match scalars.len() > WIPE_CHUNK {
        true => host_threads::WORK.install(|| scalars.par_chunks_mut(WIPE_CHUNK).for_each(wipe)),
        false => wipe(scalars),
    }
}

/// Pushes `value`; where the vector has to move, the old memory is wiped.
#[inline]
pub(crate) fn push(vec: &mut Vec<Scalar>, value: Scalar) {
    if vec.len() == vec.capacity() {
        reserve(vec, 1);
    }
    vec.push(value);
}

/// Appends `values`; where the vector has to move, the old memory is wiped.
pub(crate) fn extend(vec: &mut Vec<Scalar>, values: &[Scalar]) {
    reserve(vec, values.len());
    vec.extend_from_slice(values);
}

#[cold]
fn reserve(vec: &mut Vec<Scalar>, additional: usize) {
    if vec.capacity() - vec.len() >= additional {
        return;
    }
    let wanted = vec.len().saturating_add(additional);
    let mut larger = Vec::with_capacity(wanted.max(vec.capacity().saturating_mul(2)).max(1 << 10));
    larger.extend_from_slice(vec);
    wipe(vec);
    *vec = larger;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_in_order_and_wipes() {
        let mut vec = Vec::new();
        for i in 0..5000 {
            push(&mut vec, Scalar::from(i));
        }
        extend(&mut vec, &[Scalar::from(5000), Scalar::from(5001)]);
        assert!(vec.iter().copied().eq((0..5002).map(Scalar::from)));
        wipe(&mut vec);
        assert!(vec.iter().all(|scalar| *scalar == Scalar::from(0)));
    }
}
