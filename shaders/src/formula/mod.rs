//! Straight-line programs over field registers.
//!
//! A formula is written once, in Rust, against [`Algebra`]; a [`Recorder`] turns it into steps over
//! Fp. From the steps come the table that a small loop in WGSL interprets ([`Encoded`]), and a twin
//! in plain Rust ([`Routine::interpret`]).

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
    /// a; in the rare case zero
    UnlessRare(Reg),
}

impl Step {
    /// What it reads; the same register twice for one operand.
    pub const fn operands(self) -> (Reg, Reg) {
        match self {
            Self::Mul(a, b) | Self::Add(a, b) | Self::Sub(a, b) => (a, b),
            Self::Sqr(a) | Self::UnlessRare(a) => (a, a),
        }
    }
}

/// Steps in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The register that the first step writes; each further step writes the next.
    pub first: Reg,
    /// In order.
    pub steps: Vec<Step>,
}

/// Values that the rare case replaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rare {
    /// The rare case is where all of these, made by the head, are zero. Empty where there is none.
    pub zeros: Vec<Reg>,
    /// What is done in the rare case only.
    pub part: Part,
    /// Results of `part` that take the places of `zeros`, in their order.
    pub instead: Vec<Reg>,
}

/// A formula: `head`, in the rare case `rare`, then `tail`.
///
/// The rare case is kept short so that a kernel has one copy of the long part. What decides it is
/// also what it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// Registers `0..num_inputs` are set before it runs.
    pub num_inputs: Reg,
    /// What decides.
    pub head: Part,
    /// The rare case.
    pub rare: Rare,
    /// The rest.
    pub tail: Part,
    /// Results, in order.
    pub outputs: Vec<Reg>,
}

/// How many multiplications and squarings it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Products {
    /// Multiplications.
    pub mul: usize,
    /// Squarings.
    pub sqr: usize,
}

impl Routine {
    /// Products but for the rare case.
    pub fn products(&self) -> Products {
        let steps = || self.head.steps.iter().chain(&self.tail.steps);
        Products {
            mul: steps().filter(|step| matches!(step, Step::Mul(..))).count(),
            sqr: steps().filter(|step| matches!(step, Step::Sqr(_))).count(),
        }
    }
}
