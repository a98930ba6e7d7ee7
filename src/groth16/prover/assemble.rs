//! From the MSMs' sums to a proof.

use blstrs::{G1Projective, G2Projective, Scalar};
use group::{Curve, Group};
use zeroize::Zeroize;

use crate::groth16::params::VerifyingKey;
use crate::groth16::proof::Proof;
use crate::views::{Canonical, as_bytes_mut};

/// The proof's five MSMs, before blinding: they tell of the witness, so they are wiped when dropped.
pub(super) struct MsmSums {
    pub h: G1Projective,
    pub l: G1Projective,
    pub a: G1Projective,
    pub b_g1: G1Projective,
    pub b_g2: G2Projective,
}

impl MsmSums {
    /// What MSMs over nothing give.
    pub fn identity() -> Self {
        let (g1, g2) = (G1Projective::identity(), G2Projective::identity());
        Self { h: g1, l: g1, a: g1, b_g1: g1, b_g2: g2 }
    }
}

impl Drop for MsmSums {
    fn drop(&mut self) {
        for sum in [&mut self.h, &mut self.l, &mut self.a, &mut self.b_g1] {
            as_bytes_mut(std::slice::from_mut(sum)).zeroize();
        }
        as_bytes_mut(std::slice::from_mut(&mut self.b_g2)).zeroize();
    }
}

/// sum over i of 2^(window_bits * i) * W_i, where `bytes` holds the W_i as Jacobian points.
pub(super) fn combine_windows<G: Group + Canonical>(bytes: &[u8], window_bits: u32) -> G {
    let mut windows = vec![G::identity(); bytes.len() / size_of::<G>()];
    let target = as_bytes_mut(&mut windows);
    target.copy_from_slice(&bytes[..target.len()]);
    let sum = windows.iter().rev().fold(G::identity(), |mut sum, window| {
        for _ in 0..window_bits {
            sum = sum.double();
        }
        sum + window
    });
    as_bytes_mut(&mut windows).zeroize();
    sum
}

/// The two blinding factors; wiped when dropped.
pub(super) struct Blinding {
    pub r: Scalar,
    pub s: Scalar,
}

impl Drop for Blinding {
    fn drop(&mut self) {
        as_bytes_mut(std::slice::from_mut(&mut self.r)).zeroize();
        as_bytes_mut(std::slice::from_mut(&mut self.s)).zeroize();
    }
}

/// Blinding factors of a batch; wiped when dropped.
pub(super) struct Factors(pub Vec<Scalar>);

impl Drop for Factors {
    fn drop(&mut self) {
        as_bytes_mut(&mut self.0).zeroize();
    }
}

/// A = alpha + a + r delta, B = beta + b + s delta, C = l + h + s A + r B - r s delta
/// (Groth, <https://eprint.iacr.org/2016/260>, section 3.2), with sums over the key's queries.
pub(super) fn assemble(vk: &VerifyingKey, sums: &MsmSums, blinding: &Blinding) -> Proof {
    let Blinding { r, s } = blinding;
    let a = sums.a + vk.alpha_g1 + vk.delta_g1 * r;
    let b_g1 = sums.b_g1 + vk.beta_g1 + vk.delta_g1 * s;
    let b_g2 = sums.b_g2 + vk.beta_g2 + vk.delta_g2 * s;
    let c = sums.h + sums.l + a * s + b_g1 * r - vk.delta_g1 * (r * s);
    Proof { a: a.to_affine(), b: b_g2.to_affine(), c: c.to_affine() }
}
