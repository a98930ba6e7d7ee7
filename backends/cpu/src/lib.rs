//! twinlock's reference and fallback backend: rayon and blst.

mod error;
pub mod field;
pub mod msm;
mod prefetch;
mod workspace;

pub use error::KernelError;
