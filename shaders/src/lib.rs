//! WGSL kernels for BLS12-381, assembled from one description of each field.
//!
//! `field` writes the arithmetic, `formula` and `curve` the points' formulas, `kernels` the stages.

pub mod curve;
pub mod field;
pub mod formula;
pub mod kernels;
