//! A bellman circuit, recorded once, for use by everything that speaks bellpepper.
//!
//! bellman and bellpepper have the same interface over different types. The first instance of a
//! circuit records its rows; later ones give their values only, since a circuit has the same rows
//! whatever its witness, and are evaluated on the recorded rows.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bellman::Index as BellmanIndex;
use bellpepper_core::{
    Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable,
};
use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use crate::groth16::assignment::{Assignment, Density, secret};
use crate::groth16::r1cs::{Coefficients, Rows};
use crate::{Error, Result};

/// The rows of a circuit, and the densities of its queries.
pub(super) struct Structure {
    inputs: usize,
    witness: usize,
    pool: Coefficients,
    /// A, B and C, without the input rows.
    sides: [Rows; 3],
    a_witness_density: Density,
    b_input_density: Density,
    b_witness_density: Density,
}

/// A bellman circuit on its witness, as a bellpepper circuit. The witness is wiped when this is
/// dropped, and `Debug` prints counts only.
#[derive(Clone)]
pub struct Recorded {
    structure: Arc<Structure>,
    instance: Vec<Scalar>,
    witness: Vec<Scalar>,
}

impl Recorded {
    /// Runs `circuit`, called `name`; the first run of all fills `structure`.
    pub(super) fn new(
        name: &str,
        structure: &OnceLock<Arc<Structure>>,
        circuit: impl bellman::Circuit<bls12_381::Scalar>,
    ) -> Result<Self> {
        let mut recorder = Recorder {
            instance: vec![Scalar::ONE],
            witness: Vec::new(),
            rows: structure.get().is_none().then(|| (Coefficients::new(), Default::default())),
            failure: None,
        };
        circuit
            .synthesize(&mut recorder)
            .map_err(|error| Error::Invalid { what: name.into(), problem: error.to_string() })?;
        if let Some(failure) = recorder.failure.take() {
            return Err(failure);
        }
        let (instance, witness) =
            (std::mem::take(&mut recorder.instance), std::mem::take(&mut recorder.witness));
        let (inputs, variables) = (instance.len(), witness.len());
        let structure = match recorder.rows.take() {
            Some((pool, sides)) => structure
                .get_or_init(|| Arc::new(Structure::new(inputs, variables, pool, sides)))
                .clone(),
            None => structure.get().cloned().ok_or_else(|| Error::Invalid {
                what: name.into(),
                problem: "its rows were not recorded".into(),
            })?,
        };
        let recorded = Self { structure, instance, witness };
        for (what, expected, found) in [
            ("inputs", recorded.structure.inputs, inputs),
            ("witness variables", recorded.structure.witness, variables),
        ] {
            if expected != found {
                return Err(Error::shape(format!("{what} of {name}"), expected, found));
            }
        }
        Ok(recorded)
    }

    /// Evaluates the rows; the same as synthesising this as a circuit, and faster.
    ///
    /// # Errors
    /// As [`crate::groth16::assignment::synthesize`].
    pub fn assignment(&self) -> Result<Assignment> {
        let rows = self.structure.sides[0].len();
        let mut columns = [0, 1, 2].map(|_| vec![Scalar::ZERO; rows + self.instance.len()]);
        for (column, side) in columns.iter_mut().zip(&self.structure.sides) {
            column[..rows].par_iter_mut().with_min_len(256).enumerate().for_each(|(row, value)| {
                *value = self.evaluate(side, row);
            });
        }
        let [mut a, b, c] = columns;
        a[rows..].copy_from_slice(&self.instance);
        let assignment = Assignment {
            instance: self.instance.clone(),
            witness: self.witness.clone(),
            a,
            b,
            c,
            a_witness_density: self.structure.a_witness_density.clone(),
            b_input_density: self.structure.b_input_density.clone(),
            b_witness_density: self.structure.b_witness_density.clone(),
        };
        assignment.check()?;
        Ok(assignment)
    }

    fn evaluate(&self, side: &Rows, row: usize) -> Scalar {
        let mut sum = Scalar::ZERO;
        for (index, coefficient) in side.row(&self.structure.pool, row) {
            let value = match index {
                Index::Input(at) => self.instance.get(at),
                Index::Aux(at) => self.witness.get(at),
            };
            // Recording has checked that there is one.
            let value = value.unwrap_or(&Scalar::ZERO);
            if *coefficient == Scalar::ONE {
                sum += value;
            } else {
                sum += *value * coefficient;
            }
        }
        sum
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("own_constraints", &self.structure.sides[0].len())
            .field("inputs", &self.structure.inputs)
            .field("witness", &self.structure.witness)
            .finish_non_exhaustive()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        secret::wipe(&mut self.witness);
    }
}

impl Circuit<Scalar> for Recorded {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut inputs = vec![CS::one()];
        for value in self.instance.iter().skip(1) {
            inputs.push(cs.alloc_input(|| "input", || Ok(*value))?);
        }
        let mut witness = Vec::with_capacity(self.witness.len());
        for value in &self.witness {
            witness.push(cs.alloc(|| "witness", || Ok(*value))?);
        }
        let combination = |side: &Rows, row| {
            side.row(&self.structure.pool, row).fold(
                LinearCombination::zero(),
                |lc, (index, coefficient)| {
                    let variable = match index {
                        Index::Input(at) => inputs.get(at),
                        Index::Aux(at) => witness.get(at),
                    };
                    lc + (*coefficient, *variable.unwrap_or(&Variable(index)))
                },
            )
        };
        let [a, b, c] = &self.structure.sides;
        for row in 0..a.len() {
            cs.enforce(
                || "row",
                |_| combination(a, row),
                |_| combination(b, row),
                |_| combination(c, row),
            );
        }
        Ok(())
    }
}

impl Structure {
    fn new(inputs: usize, witness: usize, pool: Coefficients, sides: [Rows; 3]) -> Self {
        let densities = |side: &Rows| {
            let mut found = [vec![false; inputs], vec![false; witness]];
            for row in 0..side.len() {
                for (index, _) in side.row(&pool, row) {
                    let (kind, at) = match index {
                        Index::Input(at) => (0, at),
                        Index::Aux(at) => (1, at),
                    };
                    if let Some(bit) = found[kind].get_mut(at) {
                        *bit = true;
                    }
                }
            }
            found.map(|bits| bits.into_iter().collect::<Density>())
        };
        let [_, a_witness_density] = densities(&sides[0]);
        let [b_input_density, b_witness_density] = densities(&sides[1]);
        Self { inputs, witness, pool, sides, a_witness_density, b_input_density, b_witness_density }
    }
}

/// bellman's constraint system, keeping values, and rows if they are wanted.
struct Recorder {
    instance: Vec<Scalar>,
    witness: Vec<Scalar>,
    rows: Option<(Coefficients, [Rows; 3])>,
    /// The first thing that went wrong inside `enforce`, which cannot report it.
    failure: Option<Error>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        secret::wipe(&mut self.witness);
    }
}

type BellmanLc = bellman::LinearCombination<bls12_381::Scalar>;

/// The same number in the other crate's field.
fn convert(scalar: &bls12_381::Scalar) -> Scalar {
    // Both are below the modulus, so there always is one.
    Option::from(Scalar::from_bytes_le(&scalar.to_bytes())).unwrap_or(Scalar::ZERO)
}

impl Recorder {
    fn keep(
        (pool, sides): &mut (Coefficients, [Rows; 3]),
        known: [usize; 2],
        combinations: [BellmanLc; 3],
    ) -> Result<()> {
        for (side, combination) in sides.iter_mut().zip(combinations) {
            // bellpepper merges equal variables of a combination where bellman does not.
            let mut terms: Vec<(usize, usize, Scalar)> = (combination.as_ref().iter())
                .map(|(variable, coefficient)| match variable.get_unchecked() {
                    BellmanIndex::Input(at) => (0, at, convert(coefficient)),
                    BellmanIndex::Aux(at) => (1, at, convert(coefficient)),
                })
                .collect();
            terms.sort_by_key(|(kind, at, _)| (*kind, *at));
            let equal =
                |x: &(usize, usize, Scalar), y: &(usize, usize, Scalar)| (x.0, x.1) == (y.0, y.1);
            for group in terms.chunk_by(equal) {
                let (kind, at, _) = group[0];
                if at >= known[kind] {
                    return Err(Error::Invalid {
                        what: "circuit".into(),
                        problem: format!(
                            "a constraint names variable {at}, but there are {}",
                            known[kind]
                        ),
                    });
                }
                let index = if kind == 0 { Index::Input(at) } else { Index::Aux(at) };
                let coefficient = group.iter().map(|(_, _, coefficient)| coefficient).sum();
                side.push(pool, index, &coefficient)?;
            }
            side.end_row();
        }
        Ok(())
    }
}

impl bellman::ConstraintSystem<bls12_381::Scalar> for Recorder {
    type Root = Self;

    fn alloc<F, A, AR>(
        &mut self,
        _: A,
        value: F,
    ) -> Result<bellman::Variable, bellman::SynthesisError>
    where
        F: FnOnce() -> Result<bls12_381::Scalar, bellman::SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        secret::push(&mut self.witness, convert(&value()?));
        Ok(bellman::Variable::new_unchecked(BellmanIndex::Aux(self.witness.len() - 1)))
    }

    fn alloc_input<F, A, AR>(
        &mut self,
        _: A,
        value: F,
    ) -> Result<bellman::Variable, bellman::SynthesisError>
    where
        F: FnOnce() -> Result<bls12_381::Scalar, bellman::SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.instance.push(convert(&value()?));
        Ok(bellman::Variable::new_unchecked(BellmanIndex::Input(self.instance.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(BellmanLc) -> BellmanLc,
        LB: FnOnce(BellmanLc) -> BellmanLc,
        LC: FnOnce(BellmanLc) -> BellmanLc,
    {
        if self.failure.is_some() {
            return;
        }
        let known = [self.instance.len(), self.witness.len()];
        if let Some(rows) = &mut self.rows {
            let zero = BellmanLc::zero;
            self.failure = Self::keep(rows, known, [a(zero()), b(zero()), c(zero())]).err();
        }
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self::Root {
        self
    }
}
