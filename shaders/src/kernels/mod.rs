//! The stages, one file each.

pub mod digits;
pub mod element;
pub mod msm;
pub mod ntt;
pub mod points;
