//! Kernels of the `element` operations.
