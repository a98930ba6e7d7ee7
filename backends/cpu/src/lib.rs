//! twinlock's reference and fallback backend: rayon and blst.

mod error;
pub mod field;
pub mod fixed_base;
pub mod msm;
pub mod ntt;
mod prefetch;
mod scatter;
mod workspace;

pub use error::KernelError;
