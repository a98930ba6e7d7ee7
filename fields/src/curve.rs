//! Constants of the curve and of the prover's coset.

/// The evaluation coset of the quotient is this times the domain.
pub const FR_COSET_GENERATOR: u32 = 7;

/// G1 is y^2 = x^3 + 4.
pub const G1_B: u32 = 4;

/// G2 is y^2 = x^3 + 4 + 4i: c0, c1.
pub const G2_B: [u32; 2] = [4, 4];
