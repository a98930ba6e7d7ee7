//! Kernels of the `ntt` operations.
