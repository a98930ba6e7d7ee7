//! Kernels of the `points` operations.
