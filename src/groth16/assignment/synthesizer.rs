//! The constraint system that evaluates a circuit on its witness.

use bellpepper_core::{ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;
use ff::Field;

use super::{Assignment, Density, SizeHint, secret};
use crate::{Error, Result};

/// Evaluates each constraint as it comes, and keeps track of the variables in A and B.
///
/// Which terms count follows bellperson 0.27, so that keys and proofs are interchangeable: a term
/// whose coefficient is zero (after equal variables of one combination were merged) does not put
/// its variable into the query.
pub(super) struct Synthesizer {
    assignment: Assignment,
    minus_one: Scalar,
    /// The first variable that a combination named and nobody allocated.
    stray: Option<Index>,
}

impl Synthesizer {
    /// Room for a circuit of size `hint`, with ONE allocated.
    pub(super) fn with_one(hint: SizeHint) -> Self {
        let rows = hint.constraints.saturating_add(hint.inputs);
        let mut synthesizer = Self::empty(Assignment {
            instance: Vec::with_capacity(hint.inputs),
            witness: Vec::with_capacity(hint.witness),
            a: Vec::with_capacity(rows),
            b: Vec::with_capacity(rows),
            c: Vec::with_capacity(rows),
            a_witness_density: Density::with_capacity(hint.witness),
            b_input_density: Density::with_capacity(hint.inputs),
            b_witness_density: Density::with_capacity(hint.witness),
        });
        synthesizer.assignment.instance.push(Scalar::ONE);
        synthesizer.assignment.b_input_density.push();
        synthesizer
    }

    fn empty(assignment: Assignment) -> Self {
        Self { assignment, minus_one: -Scalar::ONE, stray: None }
    }

    /// Adds the row `input * 0 = 0` for each input and hands the assignment over.
    pub(super) fn finish(mut self) -> Result<Assignment> {
        if let Some(index) = self.stray {
            let (kind, at, len) = match index {
                Index::Input(at) => ("input", at, self.assignment.instance.len()),
                Index::Aux(at) => ("witness variable", at, self.assignment.witness.len()),
            };
            return Err(Error::Invalid {
                what: "circuit".into(),
                problem: format!("a constraint names {kind} {at}, but there are {len}"),
            });
        }
        for input in 0..self.assignment.instance.len() {
            let value = self.assignment.instance[input];
            secret::push(&mut self.assignment.a, value);
            secret::push(&mut self.assignment.b, Scalar::ZERO);
            secret::push(&mut self.assignment.c, Scalar::ZERO);
        }
        self.assignment.check()?;
        Ok(self.assignment)
    }

    /// The value of `combination`; the variables of its non-zero terms go to `inputs`, `witness`.
    #[inline]
    fn evaluate(
        &mut self,
        combination: &LinearCombination<Scalar>,
        mut inputs: impl FnMut(&mut Assignment, usize),
        mut witness: impl FnMut(&mut Assignment, usize),
    ) -> Scalar {
        let mut sum = Scalar::ZERO;
        for (&index, coefficient) in combination.iter_inputs() {
            if *coefficient != Scalar::ZERO {
                match self.assignment.instance.get(index) {
                    Some(value) => self.accumulate(&mut sum, value, coefficient),
                    None => self.note_stray(Index::Input(index)),
                }
                inputs(&mut self.assignment, index);
            }
        }
        for (&index, coefficient) in combination.iter_aux() {
            if *coefficient != Scalar::ZERO {
                match self.assignment.witness.get(index) {
                    Some(value) => self.accumulate(&mut sum, value, coefficient),
                    None => self.note_stray(Index::Aux(index)),
                }
                witness(&mut self.assignment, index);
            }
        }
        sum
    }

    /// Most coefficients are 1 or -1, and an addition costs a tenth of a product.
    #[inline]
    fn accumulate(&self, sum: &mut Scalar, value: &Scalar, coefficient: &Scalar) {
        if *coefficient == Scalar::ONE {
            *sum += value;
        } else if *coefficient == self.minus_one {
            *sum -= value;
        } else {
            *sum += *value * coefficient;
        }
    }

    #[cold]
    fn note_stray(&mut self, index: Index) {
        self.stray.get_or_insert(index);
    }
}

impl ConstraintSystem<Scalar> for Synthesizer {
    type Root = Self;

    fn new() -> Self {
        Self::empty(Assignment::empty())
    }

    fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        let this = &mut self.assignment;
        secret::push(&mut this.witness, value()?);
        this.a_witness_density.push();
        this.b_witness_density.push();
        Ok(Variable(Index::Aux(this.witness.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        let this = &mut self.assignment;
        this.instance.push(value()?);
        this.b_input_density.push();
        Ok(Variable(Index::Input(this.instance.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        // The input rows put every input into A, so only B tracks inputs; C has no query.
        let a = self.evaluate(
            &a(LinearCombination::zero()),
            |_, _| {},
            |this, index| this.a_witness_density.insert(index),
        );
        let b = self.evaluate(
            &b(LinearCombination::zero()),
            |this, index| this.b_input_density.insert(index),
            |this, index| this.b_witness_density.insert(index),
        );
        let c = self.evaluate(&c(LinearCombination::zero()), |_, _| {}, |_, _| {});
        secret::push(&mut self.assignment.a, a);
        secret::push(&mut self.assignment.b, b);
        secret::push(&mut self.assignment.c, c);
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

    fn is_extensible() -> bool {
        true
    }

    /// Appends `other`, which was synthesised on its own: its variables and constraints follow
    /// ours, and its first input is the same ONE as ours.
    fn extend(&mut self, other: &Self) {
        let (this, that) = (&mut self.assignment, &other.assignment);
        this.a_witness_density.append(&that.a_witness_density, 0);
        this.b_witness_density.append(&that.b_witness_density, 0);
        if that.b_input_density.contains(0) {
            this.b_input_density.insert(0);
        }
        this.b_input_density.append(&that.b_input_density, 1);
        this.instance.extend_from_slice(that.instance.get(1..).unwrap_or_default());
        secret::extend(&mut this.witness, &that.witness);
        secret::extend(&mut this.a, &that.a);
        secret::extend(&mut this.b, &that.b);
        secret::extend(&mut this.c, &that.c);
        if let Some(index) = other.stray {
            self.note_stray(index);
        }
    }
}
