//! A hint that memory will be read soon.
#![allow(unsafe_code)]

/// Asks for all cache lines of `value`; does nothing where there is no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = (&raw const *value).cast::<i8>();
        let last = size_of::<T>().saturating_sub(1);
        for at in (0..size_of::<T>()).step_by(64).chain([last]) {
            // SAFETY: a prefetch reads nothing that the program can see; the address is within
            // `value` all the same.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
