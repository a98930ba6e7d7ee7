//! The quadratic arithmetic program of a circuit, evaluated at one point.

use bellpepper_core::Index;
use blstrs::Scalar;
use ff::{BatchInvert, Field, PrimeField};
use rayon::prelude::*;

use super::assembly::Assembly;
use crate::groth16::assignment::secret;
use crate::{Error, Result};

/// Powers or basis values that one task computes.
const CHUNK: usize = 1 << 12;

/// `A_i(tau)`, `B_i(tau)` and `C_i(tau)` of each variable: inputs first, then the witness if it
/// was kept. Wiped when dropped.
pub(super) struct Qap {
    /// A, B and C.
    pub(super) sides: [Vec<Scalar>; 3],
}

impl Qap {
    /// Evaluates the first `variables` columns of `assembly` at `tau`.
    pub(super) fn evaluate(
        assembly: &Assembly,
        variables: usize,
        domain: Domain,
        tau: &Scalar,
    ) -> Result<Self> {
        let mut basis = domain.lagrange_basis(tau)?;
        let mut sides: [Vec<Scalar>; 3] = Default::default();
        sides.par_iter_mut().zip(&assembly.sides).for_each(|(values, rows)| {
            *values = vec![Scalar::ZERO; variables];
            for (row, basis) in basis.iter().enumerate().take(rows.len()) {
                for (index, coefficient) in rows.row(&assembly.pool, row) {
                    let at = match index {
                        Index::Input(at) => at,
                        Index::Aux(at) => assembly.inputs + at,
                    };
                    if let Some(value) = values.get_mut(at) {
                        if *coefficient == Scalar::ONE {
                            *value += basis;
                        } else {
                            *value += *basis * coefficient;
                        }
                    }
                }
            }
        });
        // The input rows: input * 0 = 0.
        let own = assembly.sides[0].len();
        for (value, basis) in sides[0].iter_mut().take(assembly.inputs).zip(basis.iter().skip(own))
        {
            *value += basis;
        }
        secret::wipe(&mut basis);
        Ok(Self { sides })
    }
}

impl Drop for Qap {
    fn drop(&mut self) {
        for side in &mut self.sides {
            secret::wipe(side);
        }
    }
}

/// The evaluation domain of 2^`lg` points.
#[derive(Clone, Copy)]
pub(super) struct Domain {
    lg: u32,
}

impl Domain {
    /// The smallest domain with a point for each row; `rows` has been checked against the field.
    pub(super) fn for_rows(rows: usize) -> Self {
        Self { lg: rows.next_power_of_two().trailing_zeros() }
    }

    pub(super) fn len(self) -> usize {
        1 << self.lg
    }

    /// `tau^n - 1`, the value of the polynomial that vanishes on the domain.
    pub(super) fn vanishing(self, tau: &Scalar) -> Scalar {
        (0..self.lg).fold(*tau, |power, _| power.square()) - Scalar::ONE
    }

    /// The Lagrange polynomials' values at `tau`: `L_j = (tau^n - 1) / n * w^j / (tau - w^j)`.
    ///
    /// # Errors
    /// [`Error::Key`] for a point of the domain.
    fn lagrange_basis(self, tau: &Scalar) -> Result<Vec<Scalar>> {
        let len = Scalar::from(self.len() as u64);
        let scale = self.vanishing(tau) * len.invert().unwrap_or(Scalar::ZERO);
        if scale == Scalar::ZERO {
            return Err(Error::Key("tau lies in the evaluation domain".into()));
        }
        let root = (self.lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
        let mut basis = vec![Scalar::ZERO; self.len()];
        basis.par_chunks_mut(CHUNK).enumerate().for_each(|(at, chunk)| {
            let first = root.pow_vartime([(at * CHUNK) as u64]);
            let mut power = first;
            for value in chunk.iter_mut() {
                *value = *tau - power;
                power *= root;
            }
            chunk.batch_invert();
            let mut power = first * scale;
            for value in chunk {
                *value *= power;
                power *= root;
            }
        });
        Ok(basis)
    }

    /// `scale * tau^i` for i from 0 to n - 2.
    pub(super) fn scaled_powers(self, tau: &Scalar, scale: &Scalar) -> Vec<Scalar> {
        let mut powers = vec![Scalar::ZERO; self.len() - 1];
        powers.par_chunks_mut(CHUNK).enumerate().for_each(|(at, chunk)| {
            let mut power = tau.pow_vartime([(at * CHUNK) as u64]) * scale;
            for value in chunk {
                *value = power;
                power *= tau;
            }
        });
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::OsRng;

    /// Random values on the domain, interpolated: the basis must give the polynomial's value.
    #[test]
    fn the_basis_interpolates() {
        for lg in [0, 1, 3, 13] {
            let domain = Domain { lg };
            let root = (lg..Scalar::S).fold(Scalar::ROOT_OF_UNITY, |root, _| root.square());
            let coefficients: Vec<_> =
                (0..domain.len().min(5)).map(|_| Scalar::random(OsRng)).collect();
            let polynomial = |x: Scalar| {
                coefficients
                    .iter()
                    .rev()
                    .fold(Scalar::ZERO, |sum, coefficient| sum * x + coefficient)
            };
            let tau = Scalar::random(OsRng);
            let basis = domain.lagrange_basis(&tau).unwrap();
            let value: Scalar = (basis.iter().enumerate())
                .map(|(j, basis)| *basis * polynomial(root.pow_vartime([j as u64])))
                .sum();
            assert_eq!(value, polynomial(tau), "lg {lg}");
            assert!(domain.lagrange_basis(&root).is_err());
        }
    }
}
