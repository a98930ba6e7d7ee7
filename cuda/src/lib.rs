//! twinlock's CUDA kernels as one fatbin.
