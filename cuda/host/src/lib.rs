//! The arithmetic of the CUDA kernels, compiled as plain C++: the same headers, with the device's
//! carry flag as a variable. It exists to be tested; nothing at run time uses it.

pub mod curve;
pub mod field;
pub mod fixed_base;
pub mod msm;
pub mod ntt;
pub mod points;
