//! The numbers that a proof's memory and work follow from.

use twinlock_api::layout::{MAX_LG_DOMAIN, NO_BASE};

use crate::groth16::assignment::Assignment;
use crate::groth16::params::Query;
use crate::{Error, Result};

/// Sizes of one circuit's proof, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProofShape {
    /// The domain as its base-2 logarithm.
    pub lg_domain: u32,
    /// Inputs, ONE included.
    pub inputs: usize,
    /// Witness variables.
    pub witness: usize,
    /// Points of the A query: inputs and the witness variables that occur in A.
    pub a: usize,
    /// Points of each B query: inputs and witness variables that occur in B.
    pub b: usize,
}

impl ProofShape {
    /// The shape of `assignment`.
    ///
    /// # Errors
    /// `Shape` when its lengths contradict each other; `Limit` past 2^32 rows or as many variables
    /// as an index can name.
    pub fn of(assignment: &Assignment) -> Result<Self> {
        assignment.check()?;
        let variables = assignment.instance.len() + assignment.witness.len();
        if variables >= NO_BASE as usize {
            return Err(Error::Limit {
                what: "variables".into(),
                value: variables as u64,
                limit: u64::from(NO_BASE) - 1,
            });
        }
        let shape = Self {
            lg_domain: assignment.lg_domain(),
            inputs: assignment.instance.len(),
            witness: assignment.witness.len(),
            a: assignment.instance.len() + assignment.a_witness_density.count(),
            b: assignment.b_input_density.count() + assignment.b_witness_density.count(),
        };
        debug_assert!(shape.lg_domain <= MAX_LG_DOMAIN);
        Ok(shape)
    }

    /// Rows of the domain.
    pub const fn domain(&self) -> usize {
        1 << self.lg_domain
    }

    /// All variables, inputs first.
    pub const fn variables(&self) -> usize {
        self.inputs + self.witness
    }

    /// Points that the proof takes of a query.
    pub const fn query_len(&self, query: Query) -> usize {
        match query {
            Query::H => self.domain() - 1,
            Query::L => self.witness,
            Query::A => self.a,
            Query::BG1 | Query::BG2 => self.b,
        }
    }

    /// Whether every variable occurs in A, so that base i belongs to variable i.
    pub const fn a_is_dense(&self) -> bool {
        self.a == self.variables()
    }
}
