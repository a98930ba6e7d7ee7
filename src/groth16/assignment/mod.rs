//! A circuit evaluated on its witness: what a prover starts from.

mod density;
pub(crate) mod secret;
mod synthesizer;

use std::fmt;

use bellpepper_core::Circuit;
use blstrs::Scalar;
use ff::PrimeField;
use rayon::prelude::*;

pub use density::Density;
pub(crate) use density::Ranks;
use synthesizer::Synthesizer;

use crate::{Error, Result, host_threads};

/// The values of a circuit's variables, the evaluations of its constraints, and which variables
/// occur in the A and B queries.
///
/// The rows are the circuit's own constraints, in order, and then one for each input,
/// `input * 0 = 0`, which makes every input occur in A. Vectors are not padded to the domain.
/// The same circuit gives the same rows and densities as in bellperson 0.27.
///
/// `witness`, `a`, `b` and `c` are secret: they are wiped when the assignment is dropped, and
/// `Debug` prints counts only.
#[derive(Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The values of the inputs, ONE first.
    pub instance: Vec<Scalar>,
    /// The values of the witness variables.
    pub witness: Vec<Scalar>,
    /// The left side of each row.
    pub a: Vec<Scalar>,
    /// The right side of each row.
    pub b: Vec<Scalar>,
    /// The product that each row asks for.
    pub c: Vec<Scalar>,
    /// The witness variables in the A query; every input is in it.
    pub a_witness_density: Density,
    /// The inputs in the B query.
    pub b_input_density: Density,
    /// The witness variables in the B query.
    pub b_witness_density: Density,
}

/// How large a circuit is expected to be. It saves moving vectors while they grow; a wrong hint
/// costs time or memory, nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeHint {
    /// The circuit's own constraints, without the input rows.
    pub constraints: usize,
    /// Inputs, ONE included.
    pub inputs: usize,
    /// Witness variables.
    pub witness: usize,
}

impl Assignment {
    pub(crate) fn empty() -> Self {
        Self {
            instance: Vec::new(),
            witness: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            c: Vec::new(),
            a_witness_density: Density::new(),
            b_input_density: Density::new(),
            b_witness_density: Density::new(),
        }
    }

    /// The number of rows, input rows included.
    pub fn num_constraints(&self) -> usize {
        self.a.len()
    }

    /// The circuit's own constraints, without the input rows.
    pub fn own_constraints(&self) -> usize {
        self.a.len().saturating_sub(self.instance.len())
    }

    /// The size of the evaluation domain: the rows rounded up to a power of two.
    pub fn domain(&self) -> usize {
        self.a.len().next_power_of_two()
    }

    /// The logarithm of the domain's size to base 2.
    pub fn lg_domain(&self) -> u32 {
        self.domain().trailing_zeros()
    }

    /// The inputs that a verifier is given: the instance without ONE.
    pub fn public_inputs(&self) -> &[Scalar] {
        self.instance.get(1..).unwrap_or_default()
    }

    /// The first row whose product is wrong, if there is one.
    pub fn first_unsatisfied(&self) -> Option<usize> {
        host_threads::WORK.install(|| {
            (self.a.par_iter().zip(&self.b).zip(&self.c)).position_first(|((a, b), c)| *a * b != *c)
        })
    }

    /// Whether every row's product is right.
    pub fn is_satisfied(&self) -> bool {
        self.first_unsatisfied().is_none()
    }

    /// Refuses lengths that contradict each other, and domains past the field's roots of unity.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::Limit`] with the numbers.
    pub fn check(&self) -> Result<()> {
        let agree = |what: &str, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(Error::shape(what, expected, found)) }
        };
        agree("evaluations of b", self.a.len(), self.b.len())?;
        agree("evaluations of c", self.a.len(), self.c.len())?;
        agree("density of A", self.witness.len(), self.a_witness_density.len())?;
        agree("density of B", self.witness.len(), self.b_witness_density.len())?;
        agree("density of B's inputs", self.instance.len(), self.b_input_density.len())?;
        check_rows(self.a.len())
    }

    /// Refuses `other` when one key cannot serve both.
    fn check_like(&self, other: &Self, at: usize) -> Result<()> {
        for (what, expected, found) in [
            ("inputs", self.instance.len(), other.instance.len()),
            ("witness variables", self.witness.len(), other.witness.len()),
            ("constraints", self.a.len(), other.a.len()),
            ("witness in A", self.a_witness_density.count(), other.a_witness_density.count()),
            ("inputs in B", self.b_input_density.count(), other.b_input_density.count()),
            ("witness in B", self.b_witness_density.count(), other.b_witness_density.count()),
        ] {
            if expected != found {
                return Err(Error::shape(format!("{what} of circuit {at}"), expected, found));
            }
        }
        Ok(())
    }
}

/// Refuses more rows than the largest domain has: the field's roots of unity end at order 2^32.
pub(crate) fn check_rows(rows: usize) -> Result<()> {
    let limit = 1u64 << Scalar::S;
    if rows as u64 > limit {
        return Err(Error::Limit {
            what: "constraints, input rows included".into(),
            value: rows as u64,
            limit,
        });
    }
    Ok(())
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment")
            .field("constraints", &self.num_constraints())
            .field("inputs", &self.instance.len())
            .field("witness", &self.witness.len())
            .field("a_witness_density", &self.a_witness_density.count())
            .field("b_input_density", &self.b_input_density.count())
            .field("b_witness_density", &self.b_witness_density.count())
            .finish_non_exhaustive()
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        // Side by side, for giving the pages back takes longer than wiping them.
        let secrets = [&mut self.witness, &mut self.a, &mut self.b, &mut self.c];
        host_threads::WORK.install(|| {
            secrets.into_par_iter().for_each(|secret| {
                secret::wipe(secret);
                drop(std::mem::take(secret));
            });
        });
    }
}

/// Synthesises `circuit` on its witness.
///
/// # Errors
/// What the circuit reports, [`Error::Limit`] for more rows than the field has roots of unity,
/// [`Error::Invalid`] for a constraint over variables that were never allocated. An unsatisfied
/// constraint is no error here: see [`Assignment::first_unsatisfied`].
pub fn synthesize<C: Circuit<Scalar>>(circuit: C) -> Result<Assignment> {
    synthesize_sized(circuit, SizeHint::default())
}

/// [`synthesize`] for a circuit whose size is known beforehand.
///
/// # Errors
/// As [`synthesize`].
pub fn synthesize_sized<C: Circuit<Scalar>>(circuit: C, hint: SizeHint) -> Result<Assignment> {
    let mut synthesizer = Synthesizer::with_one(hint);
    circuit.synthesize(&mut synthesizer)?;
    synthesizer.finish()
}

/// Synthesises `circuits`, which share one key, in parallel. The order is kept; no circuits give
/// no assignments.
///
/// # Errors
/// As [`synthesize`], and [`Error::Shape`] when one circuit's size differs from the first's.
pub fn synthesize_batch<C: Circuit<Scalar> + Send>(circuits: Vec<C>) -> Result<Vec<Assignment>> {
    let assignments: Vec<Assignment> =
        circuits.into_par_iter().map(synthesize).collect::<Result<_>>()?;
    if let Some((first, others)) = assignments.split_first() {
        for (at, other) in others.iter().enumerate() {
            first.check_like(other, at + 1)?;
        }
    }
    Ok(assignments)
}
