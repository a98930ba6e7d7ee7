//! The slow oracle: keeps every combination and evaluates it afterwards, term by term.

use std::collections::BTreeSet;

use bellpepper_core::{
    Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable,
};
use blstrs::Scalar;
use ff::Field;
use twinlock::groth16::assignment::{Assignment, Density};

type Lc = LinearCombination<Scalar>;

#[derive(Default)]
pub struct Oracle {
    pub instance: Vec<Scalar>,
    pub witness: Vec<Scalar>,
    pub rows: Vec<[Lc; 3]>,
}

impl Oracle {
    pub fn synthesize(circuit: impl Circuit<Scalar>) -> Self {
        let mut oracle = Self { instance: vec![Scalar::ONE], ..Self::default() };
        circuit.synthesize(&mut oracle).unwrap();
        for input in 0..oracle.instance.len() {
            let lc = Lc::from_variable(Variable(Index::Input(input)));
            oracle.rows.push([lc, Lc::zero(), Lc::zero()]);
        }
        oracle
    }

    fn value(&self, variable: Variable) -> Scalar {
        match variable.0 {
            Index::Input(at) => self.instance[at],
            Index::Aux(at) => self.witness[at],
        }
    }

    fn column(&self, side: usize) -> Vec<Scalar> {
        let eval = |lc: &Lc| lc.iter().map(|(var, coeff)| self.value(var) * coeff).sum();
        self.rows.iter().map(|row| eval(&row[side])).collect()
    }

    /// The variables with a non-zero coefficient somewhere on `side`, as inputs and witness.
    fn densities(&self, side: usize) -> [Density; 2] {
        let mut found = [BTreeSet::new(), BTreeSet::new()];
        for (variable, coefficient) in self.rows.iter().flat_map(|row| row[side].iter()) {
            if *coefficient != Scalar::ZERO {
                match variable.0 {
                    Index::Input(at) => found[0].insert(at),
                    Index::Aux(at) => found[1].insert(at),
                };
            }
        }
        let len = [self.instance.len(), self.witness.len()];
        [0, 1].map(|kind| (0..len[kind]).map(|at| found[kind].contains(&at)).collect())
    }

    pub fn assert_equals(&self, assignment: &Assignment) {
        assert_eq!(assignment.instance, self.instance);
        assert_eq!(assignment.witness, self.witness);
        assert_eq!(assignment.a, self.column(0));
        assert_eq!(assignment.b, self.column(1));
        assert_eq!(assignment.c, self.column(2));
        let [a_inputs, a_witness] = self.densities(0);
        let [b_inputs, b_witness] = self.densities(1);
        assert_eq!(a_inputs.count(), self.instance.len());
        assert_eq!(assignment.a_witness_density, a_witness);
        assert_eq!(assignment.b_input_density, b_inputs);
        assert_eq!(assignment.b_witness_density, b_witness);
        assert_eq!(assignment.num_constraints(), self.rows.len());
        assert_eq!(assignment.own_constraints(), self.rows.len() - self.instance.len());
    }
}

impl ConstraintSystem<Scalar> for Oracle {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.witness.push(value()?);
        Ok(Variable(Index::Aux(self.witness.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.instance.push(value()?);
        Ok(Variable(Index::Input(self.instance.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(Lc) -> Lc,
        LB: FnOnce(Lc) -> Lc,
        LC: FnOnce(Lc) -> Lc,
    {
        self.rows.push([a(Lc::zero()), b(Lc::zero()), c(Lc::zero())]);
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}
