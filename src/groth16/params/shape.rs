//! Whether a key belongs to a circuit, as far as lengths tell.

use super::{ParameterSource, Query};
use crate::{Error, Result};

/// The counts of a synthesised circuit that a key's lengths follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitShape {
    /// Public inputs, the constant ONE included.
    pub num_inputs: usize,
    /// Witness variables.
    pub num_witness: usize,
    /// Witness variables that occur in A.
    pub a_density: usize,
    /// Inputs that occur in B.
    pub b_input_density: usize,
    /// Witness variables that occur in B.
    pub b_witness_density: usize,
    /// The evaluation domain's size, a power of two: the number of constraints, input rows
    /// included, rounded up.
    pub domain: usize,
}

/// Compares every length of a key with a circuit. `h` may hold domain - 1 points, which is what a
/// proof needs, or domain points.
///
/// # Errors
/// [`Error::Shape`] naming the key, the first list that does not fit, what the circuit asks for
/// and what the key holds.
pub fn check_shape(source: &dyn ParameterSource, circuit: &CircuitShape) -> Result<()> {
    let compare = |list: &str, expected: usize, found: usize| {
        if expected == found {
            return Ok(());
        }
        Err(Error::shape(format!("points in {list} of {}", source.name()), expected, found))
    };
    if !circuit.domain.is_power_of_two() {
        let next = circuit.domain.checked_next_power_of_two().unwrap_or(usize::MAX);
        return Err(Error::shape("evaluation domain, a power of two", next, circuit.domain));
    }
    let b = circuit.b_input_density + circuit.b_witness_density;
    compare("ic", circuit.num_inputs, source.verifying_key().ic.len())?;
    compare("l", circuit.num_witness, source.query_len(Query::L))?;
    compare("a", circuit.num_inputs + circuit.a_density, source.query_len(Query::A))?;
    compare("b_g1", b, source.query_len(Query::BG1))?;
    compare("b_g2", b, source.query_len(Query::BG2))?;
    let h = source.query_len(Query::H);
    if h == circuit.domain { Ok(()) } else { compare("h", circuit.domain - 1, h) }
}

#[cfg(test)]
mod tests {
    use blstrs::{G1Affine, G2Affine};

    use super::*;
    use crate::groth16::params::{Parameters, VerifyingKey};

    const CIRCUIT: CircuitShape = CircuitShape {
        num_inputs: 3,
        num_witness: 9,
        a_density: 8,
        b_input_density: 1,
        b_witness_density: 5,
        domain: 16,
    };

    fn key() -> Parameters {
        let g1 = |count| vec![G1Affine::default(); count];
        let vk = VerifyingKey { ic: g1(3), ..VerifyingKey::default() };
        let b_g2 = vec![G2Affine::default(); 6];
        Parameters { vk, h: g1(15), l: g1(9), a: g1(11), b_g1: g1(6), b_g2 }
    }

    #[test]
    fn h_of_domain_and_of_one_less_fit() {
        let mut key = key();
        assert!(check_shape(&key, &CIRCUIT).is_ok());
        key.h.push(G1Affine::default());
        assert!(check_shape(&key, &CIRCUIT).is_ok());
        // The smallest domain: one row, no power of tau needed.
        let one_row = CircuitShape { domain: 1, ..CIRCUIT };
        key.h.truncate(1);
        assert!(check_shape(&key, &one_row).is_ok());
        key.h.clear();
        assert!(check_shape(&key, &one_row).is_ok());
        assert!(check_shape(&key, &CIRCUIT).is_err());
    }

    #[test]
    fn other_lengths_are_errors_with_both_numbers() {
        type Change = fn(&mut Parameters);
        let changes: [(&str, u64, u64, Change); 8] = [
            ("ic", 3, 2, |key| key.vk.ic.truncate(2)),
            ("h", 15, 14, |key| key.h.truncate(14)),
            ("h", 15, 17, |key| key.h.resize(17, G1Affine::default())),
            ("l", 9, 8, |key| key.l.truncate(8)),
            ("a", 11, 12, |key| key.a.resize(12, G1Affine::default())),
            ("b_g1", 6, 0, |key| key.b_g1.clear()),
            ("b_g2", 6, 5, |key| key.b_g2.truncate(5)),
            ("b_g2", 6, 7, |key| key.b_g2.resize(7, G2Affine::default())),
        ];
        for (list, expected, found, change) in changes {
            let mut key = key();
            change(&mut key);
            let error = check_shape(&key, &CIRCUIT).expect_err(list);
            let message = format!("points in {list} of parameters in memory: ");
            let message = format!("{message}expected {expected}, found {found}");
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn domain_that_is_no_power_of_two_is_an_error() {
        for (domain, next) in [(0, 1), (15, 16), (usize::MAX, usize::MAX)] {
            let error =
                check_shape(&key(), &CircuitShape { domain, ..CIRCUIT }).expect_err("domain");
            let numbers = format!("expected {next}, found {domain}");
            assert!(error.to_string().contains(&numbers), "{error}");
        }
    }
}
