//! Slow and obviously right: what every backend is measured against.
//!
//! Nothing here knows how any field is represented in memory: Montgomery form is a product with
//! R taken modulo the prime, over blstrs' arithmetic.

mod curve;
mod encoding;
mod fp;
mod msm;
mod ntt;

pub use curve::{CurveOracle, G1, G2};
pub use encoding::{
    fr_from_bytes, fr_modulus_bytes, fr_to_bytes, fr_words, frs_from_bytes, frs_to_bytes,
};
pub use fp::fp_modulus_be;
pub use msm::{KnownBases, combine, known_bases, msm_by_logs, msm_naive, window_sums};
pub use ntt::{Transform, bit_reverse, ntt_naive, ntt_recursive, omega, output_at};
