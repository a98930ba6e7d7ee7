//! Straight-line programs over field registers.
//!
//! A formula is written once, in Rust, against [`Algebra`]; a [`Recorder`] turns it into steps over
//! Fp. From the steps come WGSL written out in full, the table that a small loop in WGSL
//! interprets ([`Encoded`]), and a twin in plain Rust ([`Routine::interpret`]).

mod algebra;
mod encode;
mod interpret;
mod record;

pub use algebra::{Algebra, OverFp, OverFp2};
pub use encode::{Encoded, Opcode};
pub use interpret::Number;
pub use record::Recorder;

/// A value: an input, or what a step made.
pub type Reg = u16;

/// One operation in Fp. Its result is the next register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// a * b
    Mul(Reg, Reg),
    /// a^2
    Sqr(Reg),
    /// a + b
    Add(Reg, Reg),
    /// a - b
    Sub(Reg, Reg),
    /// -a
    Neg(Reg),
}

impl Step {
    /// What it reads; the same register twice for one operand.
    pub const fn operands(self) -> (Reg, Reg) {
        match self {
            Self::Mul(a, b) | Self::Add(a, b) | Self::Sub(a, b) => (a, b),
            Self::Sqr(a) | Self::Neg(a) => (a, a),
        }
    }
}

/// Steps and the registers that hold their results at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Branch {
    /// The register that the first step writes; each further step writes the next.
    pub first: Reg,
    /// In order.
    pub steps: Vec<Step>,
    /// The results.
    pub outputs: Vec<Reg>,
}

/// A formula with at most one fork: after `head`, `rare` is taken where all of `zeros` are zero,
/// `generic` everywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// Registers `0..num_inputs` are set before it runs.
    pub num_inputs: Reg,
    /// Steps before the fork; no outputs.
    pub head: Branch,
    /// What decides; empty where there is no fork.
    pub zeros: Vec<Reg>,
    /// The degenerate case.
    pub rare: Branch,
    /// Every other case.
    pub generic: Branch,
}

/// How many multiplications and squarings a path takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Products {
    /// Multiplications.
    pub mul: usize,
    /// Squarings.
    pub sqr: usize,
}

impl Routine {
    /// Products on the generic path.
    pub fn products(&self) -> Products {
        let steps = || self.head.steps.iter().chain(&self.generic.steps);
        Products {
            mul: steps().filter(|step| matches!(step, Step::Mul(..))).count(),
            sqr: steps().filter(|step| matches!(step, Step::Sqr(_))).count(),
        }
    }
}
