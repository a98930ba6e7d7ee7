//! Writes of several tasks to unlike places of one slice.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// A slice that tasks write to at positions which they keep apart by other means.
pub(crate) struct Scatter<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: `write` is the only use; its contract rules out two accesses of one place.
unsafe impl<T: Send> Sync for Scatter<'_, T> {}
// SAFETY: it stands for a `&mut [T]`.
unsafe impl<T: Send> Send for Scatter<'_, T> {}

impl<'a, T: Copy> Scatter<'a, T> {
    /// Borrows the slice for writing.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// Writes `value` at `index`, or nothing if that is past the end.
    ///
    /// # Safety
    /// No other task accesses the element at `index` while this `Scatter` lives.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, index: usize, value: T) {
        if index < self.len {
            // SAFETY: within the slice; not accessed elsewhere, by this function's contract.
            unsafe { self.start.add(index).write(value) }
        }
    }

    /// The element at `index`, or `None` past the end.
    ///
    /// # Safety
    /// No other task writes the element at `index` at the same time.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, index: usize) -> Option<T> {
        // SAFETY: within the slice; not written elsewhere, by this function's contract.
        (index < self.len).then(|| unsafe { self.start.add(index).read() })
    }
}
