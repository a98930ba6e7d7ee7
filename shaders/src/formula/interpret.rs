//! The twin of the kernels' arithmetic: runs a routine over any field in plain Rust.

use std::ops::{Add, Mul, Sub};

use super::{Part, Rare, Reg, Routine, Step};

/// What a routine can run over; its default is zero.
pub trait Number:
    Copy + Default + PartialEq + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
}

impl<T> Number for T where
    T: Copy + Default + PartialEq + Add<Output = T> + Sub<Output = T> + Mul<Output = T>
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
        run(&self.head, false, &mut registers)?;
        let Rare { zeros, part, instead } = &self.rare;
        let zero = |reg: &Reg| Some(at(&registers, *reg)? == T::default());
        let decided: Vec<bool> = zeros.iter().map(zero).collect::<Option<_>>()?;
        let is_rare = !zeros.is_empty() && decided.into_iter().all(|zero| zero);
        if is_rare {
            run(part, true, &mut registers)?;
            for (target, source) in zeros.iter().zip(instead) {
                let value = at(&registers, *source)?;
                *registers.get_mut(usize::from(*target))? = Some(value);
            }
        }
        run(&self.tail, is_rare, &mut registers)?;
        self.outputs.iter().map(|reg| at(&registers, *reg)).collect()
    }
}

fn at<T: Copy>(registers: &[Option<T>], reg: Reg) -> Option<T> {
    registers.get(usize::from(reg)).copied().flatten()
}

/// Runs a part's steps.
fn run<T: Number>(part: &Part, is_rare: bool, registers: &mut Vec<Option<T>>) -> Option<()> {
    registers.resize(registers.len().max(usize::from(part.first)), None);
    for step in &part.steps {
        let (a, b) = step.operands();
        let (a, b) = (at(registers, a)?, at(registers, b)?);
        registers.push(Some(match step {
            Step::Mul(..) | Step::Sqr(_) => a * b,
            Step::Add(..) => a + b,
            Step::Sub(..) => a - b,
            Step::UnlessRare(_) if is_rare => T::default(),
            Step::UnlessRare(_) => a,
        }));
    }
    Some(())
}
