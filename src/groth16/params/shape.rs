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
