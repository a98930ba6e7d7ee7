//! The twin of the kernels' arithmetic: runs a routine over any field in plain Rust.

use std::ops::{Add, Mul, Neg, Sub};

use super::{Branch, Routine, Step};

/// What a routine can run over; its default is zero.
pub trait Number:
    Copy
    + Default
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
}

impl<T> Number for T where
    T: Copy
        + Default
        + PartialEq
        + Add<Output = T>
        + Sub<Output = T>
        + Mul<Output = T>
        + Neg<Output = T>
{
}

impl Routine {
    /// The outputs for `inputs`, in the order of the registers; `None` unless there are as many
    /// inputs as the routine has.
    pub fn interpret<T: Number>(&self, inputs: &[T]) -> Option<Vec<T>> {
        if inputs.len() != usize::from(self.num_inputs) {
            return None;
        }
        let mut registers: Vec<Option<T>> = inputs.iter().copied().map(Some).collect();
        run(&self.head, &mut registers)?;
        let is_zero = |reg: &u16| {
            let value = registers.get(usize::from(*reg)).copied().flatten()?;
            Some(value == T::default())
        };
        let zeros: Option<Vec<bool>> = self.zeros.iter().map(is_zero).collect();
        let rare = !self.zeros.is_empty() && zeros?.into_iter().all(|zero| zero);
        let branch = if rare { &self.rare } else { &self.generic };
        run(branch, &mut registers)?;
        branch
            .outputs
            .iter()
            .map(|reg| registers.get(usize::from(*reg)).copied().flatten())
            .collect()
    }
}

/// Runs a branch's steps.
fn run<T: Number>(branch: &Branch, registers: &mut Vec<Option<T>>) -> Option<()> {
    registers.resize(registers.len().max(usize::from(branch.first)), None);
    for step in &branch.steps {
        let (a, b) = step.operands();
        let at = |reg: u16| registers.get(usize::from(reg)).copied().flatten();
        let (a, b) = (at(a)?, at(b)?);
        registers.push(Some(match step {
            Step::Mul(..) | Step::Sqr(_) => a * b,
            Step::Add(..) => a + b,
            Step::Sub(..) => a - b,
            Step::Neg(_) => -a,
        }));
    }
    Some(())
}
