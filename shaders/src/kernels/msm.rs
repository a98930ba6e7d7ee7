//! Kernels of the `msm` operations.
