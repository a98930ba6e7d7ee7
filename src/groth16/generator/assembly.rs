//! The constraint system that keeps a circuit's rows instead of evaluating them.

use bellpepper_core::{ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;

use crate::groth16::assignment::check_rows;
use crate::groth16::r1cs::{Coefficients, Rows};
use crate::{Error, Result};

/// A circuit's rows, without the input rows, which are known by their number.
pub(super) struct Assembly {
    pub(super) inputs: usize,
    pub(super) witness: usize,
    pub(super) pool: Coefficients,
    /// A, B and C.
    pub(super) sides: [Rows; 3],
    /// Whether terms of witness variables are left out, as a verifying key needs none.
    inputs_only: bool,
    /// The first thing that went wrong inside `enforce`, which cannot report it.
    failure: Option<Error>,
}

impl Assembly {
    /// Synthesises `circuit` without asking for values.
    pub(super) fn of<C: bellpepper_core::Circuit<Scalar>>(
        circuit: C,
        inputs_only: bool,
    ) -> Result<Self> {
        let mut assembly = <Self as ConstraintSystem<Scalar>>::new();
        assembly.inputs = 1;
        assembly.inputs_only = inputs_only;
        circuit.synthesize(&mut assembly)?;
        match assembly.failure.take() {
            Some(failure) => Err(failure),
            None => check_rows(assembly.rows()).map(|()| assembly),
        }
    }

    /// The number of rows, input rows included.
    pub(super) fn rows(&self) -> usize {
        self.sides[0].len() + self.inputs
    }

    fn keep(&mut self, side: usize, combination: &LinearCombination<Scalar>) -> Result<()> {
        for (Variable(index), coefficient) in combination.iter() {
            let (at, known, kind) = match index {
                Index::Input(at) => (at, self.inputs, "input"),
                Index::Aux(at) => (at, self.witness, "witness variable"),
            };
            if at >= known {
                return Err(Error::Invalid {
                    what: "circuit".into(),
                    problem: format!("a constraint names {kind} {at}, but there are {known}"),
                });
            }
            if !self.inputs_only || matches!(index, Index::Input(_)) {
                self.sides[side].push(&mut self.pool, index, coefficient)?;
            }
        }
        self.sides[side].end_row();
        Ok(())
    }
}

impl ConstraintSystem<Scalar> for Assembly {
    type Root = Self;

    fn new() -> Self {
        Self {
            inputs: 0,
            witness: 0,
            pool: Coefficients::new(),
            sides: Default::default(),
            inputs_only: false,
            failure: None,
        }
    }

    fn alloc<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.witness += 1;
        Ok(Variable(Index::Aux(self.witness - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.inputs += 1;
        Ok(Variable(Index::Input(self.inputs - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        let zero = LinearCombination::zero;
        let sides = [a(zero()), b(zero()), c(zero())];
        for (side, combination) in sides.iter().enumerate() {
            if self.failure.is_none() {
                self.failure = self.keep(side, combination).err();
            }
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

    // Not extensible, as in bellperson: a key is made from one sequential synthesis, so that a
    // circuit whose parts do not join to the same whole is found out by its proofs.
}
