//! twinlock's reference and fallback backend: rayon and blst.
//!
//! The kernels are functions on slices, for use by themselves too: [`msm`], [`ntt`](mod@ntt),
//! [`vector`], [`decode`]. [`CpuBackend`] puts them behind the traits of `twinlock_api`.

pub mod decode;
mod device;
mod error;
pub mod field;
pub mod fixed_base;
pub mod msm;
pub mod ntt;
mod prefetch;
mod scatter;
pub mod vector;
mod workspace;

pub use device::{CpuBackend, system_memory_bytes};
pub use error::KernelError;
