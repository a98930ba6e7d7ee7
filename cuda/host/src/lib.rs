//! The arithmetic of the CUDA kernels, compiled as plain C++.
