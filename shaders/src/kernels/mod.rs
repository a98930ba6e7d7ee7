//! The stages, one file each.

pub mod digits;
pub mod element;
pub mod msm;
pub mod ntt;
pub mod points;

use crate::Kernel;

/// Every kernel, by file.
pub const ALL: &[&[Kernel]] =
    &[digits::KERNELS, element::KERNELS, msm::KERNELS, ntt::KERNELS, points::KERNELS];
