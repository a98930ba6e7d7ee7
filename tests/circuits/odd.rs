//! Small circuits that are odd in one way or another.

use bellpepper_core::{
    Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable,
};
use blstrs::Scalar;
use ff::Field;
use rand::{Rng, RngCore};

type Lc = LinearCombination<Scalar>;

/// Random sparse combinations over a random assignment, each made true by a variable of its own.
/// Some coefficients are 0, 1 and -1, some variables appear twice in a combination and cancel,
/// some are in A only, in B only, in C only; some sides are empty.
#[derive(Clone)]
pub struct Random {
    inputs: Vec<Scalar>,
    witness: Vec<Scalar>,
    /// Terms of A and B; variables below `inputs.len()` are inputs.
    rows: Vec<[Vec<(Scalar, usize)>; 2]>,
}

impl Random {
    pub fn new(rng: &mut impl RngCore, inputs: usize, witness: usize, rows: usize) -> Self {
        let scalar = |rng: &mut dyn RngCore| match rng.r#gen::<u8>() % 6 {
            0 => Scalar::ZERO,
            1 | 2 => Scalar::ONE,
            3 => -Scalar::ONE,
            _ => Scalar::random(rng),
        };
        let variables = inputs + witness;
        let terms = |rng: &mut dyn RngCore, parity: usize| {
            let mut terms = Vec::new();
            for _ in 0..rng.r#gen::<usize>() % 5 {
                if variables == 0 {
                    break;
                }
                let mut variable = rng.r#gen::<usize>() % variables;
                // A third of the variables in A only, a third in B only.
                if variable % 3 != 2 {
                    variable -= variable % 3;
                    variable = (variable + parity).min(variables - 1);
                }
                let coefficient = scalar(rng);
                terms.push((coefficient, variable));
                if rng.r#gen::<u8>().is_multiple_of(8) {
                    terms.push((-coefficient, variable));
                }
            }
            terms
        };
        Self {
            inputs: (0..inputs).map(|_| scalar(rng)).collect(),
            witness: (0..witness).map(|_| scalar(rng)).collect(),
            rows: (0..rows).map(|_| [terms(rng, 0), terms(rng, 1)]).collect(),
        }
    }
}

impl Circuit<Scalar> for Random {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut variables = Vec::new();
        for value in &self.inputs {
            variables.push(cs.alloc_input(|| "input", || Ok(*value))?);
        }
        for value in &self.witness {
            variables.push(cs.alloc(|| "witness", || Ok(*value))?);
        }
        let values: Vec<Scalar> = self.inputs.iter().chain(&self.witness).copied().collect();
        let eval = |terms: &[(Scalar, usize)]| -> Scalar {
            terms.iter().map(|(coefficient, at)| values[*at] * coefficient).sum()
        };
        let lc = |terms: &[(Scalar, usize)]| {
            terms.iter().fold(Lc::zero(), |lc, (coeff, at)| lc + (*coeff, variables[*at]))
        };
        for [a, b] in &self.rows {
            let product = eval(a) * eval(b);
            let c = cs.alloc(|| "product", || Ok(product))?;
            cs.enforce(|| "row", |_| lc(a), |_| lc(b), |empty| empty + c);
        }
        // Every witness variable in C, so that the key has no unconstrained one.
        let total = self.witness.iter().sum::<Scalar>();
        let total = cs.alloc(|| "total", || Ok(total))?;
        cs.enforce(
            || "all",
            |lc| lc + total,
            |lc| lc + CS::one(),
            |lc| variables[self.inputs.len()..].iter().fold(lc, |lc, variable| lc + *variable),
        );
        Ok(())
    }
}

/// No variable and no constraint of its own.
#[derive(Clone)]
pub struct Empty;

impl Circuit<Scalar> for Empty {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, _: &mut CS) -> Result<(), SynthesisError> {
        Ok(())
    }
}

/// One input of the given value.
#[derive(Clone)]
pub struct Marked(pub u64);

impl Circuit<Scalar> for Marked {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        cs.alloc_input(|| "mark", || Ok(Scalar::from(self.0)))?;
        Ok(())
    }
}

/// `rows` constraints `x * x = y` over one witness pair, wrong from row `wrong` on.
#[derive(Clone)]
pub struct Squares {
    pub rows: usize,
    pub wrong: Option<usize>,
}

impl Circuit<Scalar> for Squares {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let x = cs.alloc(|| "x", || Ok(Scalar::from(5)))?;
        let y = cs.alloc(|| "y", || Ok(Scalar::from(25)))?;
        for row in 0..self.rows {
            let c = if self.wrong.is_some_and(|wrong| row >= wrong) { x } else { y };
            cs.enforce(|| "square", |lc| lc + x, |lc| lc + x, |lc| lc + c);
        }
        Ok(())
    }
}

/// A constraint over a variable that nobody allocated.
#[derive(Clone)]
pub struct Stray(pub Index);

impl Circuit<Scalar> for Stray {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let stray = Variable(self.0);
        let x = cs.alloc(|| "x", || Ok(Scalar::ONE))?;
        cs.enforce(|| "stray", |lc| lc + x, |lc| lc + stray, |lc| lc + x);
        Ok(())
    }
}

/// One witness variable in no constraint.
#[derive(Clone)]
pub struct Unconstrained;

impl Circuit<Scalar> for Unconstrained {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        cs.alloc(|| "nowhere", || Ok(Scalar::from(3)))?;
        Squares { rows: 3, wrong: None }.synthesize(cs)
    }
}

/// Parts with an input and a few witness variables each, synthesised apart where the constraint
/// system can be extended, and one after the other where it cannot.
#[derive(Clone)]
pub struct Parts {
    pub parts: u64,
    pub apart: bool,
}

impl Parts {
    fn part<CS: ConstraintSystem<Scalar>>(cs: &mut CS, at: u64) -> Result<(), SynthesisError> {
        let value = Scalar::from(at + 7);
        let input = cs.alloc_input(|| "input", || Ok(value))?;
        let square = cs.alloc(|| "square", || Ok(value.square()))?;
        cs.enforce(|| "square", |lc| lc + input, |lc| lc + input, |lc| lc + square);
        if at.is_multiple_of(2) {
            cs.enforce(|| "one", |lc| lc + square, |lc| lc + CS::one(), |lc| lc + square);
        }
        Ok(())
    }
}

impl Circuit<Scalar> for Parts {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        for at in 0..self.parts {
            if self.apart && CS::is_extensible() {
                let mut part = CS::new();
                part.alloc_input(|| "one", || Ok(Scalar::ONE))?;
                Self::part(&mut part, at)?;
                cs.extend(&part);
            } else {
                Self::part(cs, at)?;
            }
        }
        Ok(())
    }
}
