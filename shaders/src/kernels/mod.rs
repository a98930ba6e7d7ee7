//! The stages, one file each.

pub mod digits;
pub mod element;
pub mod measure;
pub mod msm;
pub mod ntt;
pub mod points;

use crate::Kernel;

/// Every kernel that operations are made of, by file.
pub const ALL: &[&[Kernel]] =
    &[digits::KERNELS, element::KERNELS, msm::KERNELS, ntt::KERNELS, points::KERNELS];
