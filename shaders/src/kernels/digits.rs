//! Kernels of the `digits` operations.
