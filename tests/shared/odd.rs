//! Small circuits that are odd in one way or another, each with a witness.

use bellpepper_core::{Circuit, ConstraintSystem, LinearCombination, SynthesisError};
use blstrs::Scalar;
use ff::Field;

type Lc = LinearCombination<Scalar>;

/// What the public input of those that have one is.
const X: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub enum Odd {
    /// One input, nothing else: the domain is the input rows.
    OnlyInputs,
    /// A single constraint between inputs.
    NoWitness,
    /// A witness variable in A only, another in B only, another in C only.
    OneSided,
    /// A zero coefficient in B.
    ZeroInB,
    /// Constraints with an empty side.
    EmptySide,
    /// So many own constraints that rows are exactly 2^k, or one more.
    Rows(usize),
    /// No variable and no constraint: a domain of one row.
    Nothing,
    /// No input and no witness: one row of constants.
    Constants,
    /// A single variable, in A.
    InAOnly,
    /// A single variable, in B.
    InBOnly,
    /// Twenty variables, and products of zero.
    ZeroRows,
    /// Twenty inputs, and a row of nothing.
    InputsOnly,
}

impl Odd {
    /// Those with one public input.
    pub const WITH_X: [Self; 5] =
        [Self::OnlyInputs, Self::NoWitness, Self::OneSided, Self::ZeroInB, Self::EmptySide];

    /// Those whose queries are empty, or nearly.
    pub const BARE: [Self; 6] = [
        Self::Nothing,
        Self::Constants,
        Self::InAOnly,
        Self::InBOnly,
        Self::ZeroRows,
        Self::InputsOnly,
    ];

    fn with_x<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let x = Scalar::from(X);
        let input = cs.alloc_input(|| "x", || Ok(x))?;
        match self {
            Self::NoWitness => {
                cs.enforce(|| "x * 1 = x", |lc| lc + input, |lc| lc + CS::one(), |lc| lc + input);
            }
            Self::OneSided => {
                let a = cs.alloc(|| "a", || Ok(x))?;
                let b = cs.alloc(|| "b", || Ok(x.double()))?;
                let c = cs.alloc(|| "c", || Ok(x * x.double()))?;
                cs.enforce(|| "a * b = c", |lc| lc + a, |lc| lc + b, |lc| lc + c);
            }
            Self::ZeroInB => {
                let a = cs.alloc(|| "a", || Ok(x))?;
                let b = cs.alloc(|| "b", || Ok(Scalar::from(7)))?;
                cs.enforce(
                    || "a * (1 + 0 b) = x",
                    |lc| lc + a,
                    |lc| lc + CS::one() + (Scalar::ZERO, b),
                    |lc| lc + input,
                );
                cs.enforce(|| "b * 1 = b", |lc| lc + b, |lc| lc + CS::one(), |lc| lc + b);
            }
            Self::EmptySide => {
                let a = cs.alloc(|| "a", || Ok(x))?;
                cs.enforce(|| "a * 0 = 0", |lc| lc + a, |lc| lc, |lc| lc);
                cs.enforce(|| "0 * a = 0", |lc| lc, |lc| lc + a, |lc| lc);
                cs.enforce(|| "a * 1 = x", |lc| lc + a, |lc| lc + CS::one(), |lc| lc + input);
            }
            Self::Rows(rows) => {
                // Two input rows come on top: ONE and x.
                let mut value = x;
                let mut last = input;
                for i in 0..rows - 2 {
                    value = value.square();
                    let next = cs.alloc(|| format!("square {i}"), || Ok(value))?;
                    cs.enforce(|| "square", |lc| lc + last, |lc| lc + last, |lc| lc + next);
                    last = next;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn bare<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let value = |n: u64| move || Ok(Scalar::from(n));
        let one = |lc: Lc| lc + CS::one();
        let none = |lc: Lc| lc;
        match self {
            Self::Constants => cs.enforce(|| "c", one, one, one),
            Self::InAOnly => {
                let x = cs.alloc(|| "x", value(1))?;
                cs.enforce(|| "c", |lc| lc + x, one, one);
            }
            Self::InBOnly => {
                let x = cs.alloc(|| "x", value(1))?;
                cs.enforce(|| "c", one, |lc| lc + x, one);
            }
            Self::ZeroRows => {
                for n in 0..20 {
                    let x = cs.alloc(|| "x", value(n))?;
                    cs.enforce(|| "c", |lc| lc + x, none, none);
                }
            }
            Self::InputsOnly => {
                for n in 0..20 {
                    cs.alloc_input(|| "x", value(n))?;
                }
                cs.enforce(|| "c", none, none, none);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Circuit<Scalar> for Odd {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Constants | Self::InAOnly | Self::InBOnly | Self::ZeroRows | Self::InputsOnly => {
                self.bare(cs)
            }
            _ => self.with_x(cs),
        }
    }
}
