//! Writes a formula's steps down.

use super::{Part, Rare, Reg, Routine, Step};

/// Collects steps into the parts of a [`Routine`].
#[derive(Debug)]
pub struct Recorder {
    num_inputs: Reg,
    next: Reg,
    head: Option<Part>,
    rare: Rare,
    current: Part,
}

impl Recorder {
    /// A recorder whose first `num_inputs` registers are inputs.
    pub fn new(num_inputs: Reg) -> Self {
        let current = Part { first: num_inputs, steps: Vec::new() };
        Self { num_inputs, next: num_inputs, head: None, rare: Rare::default(), current }
    }

    /// Appends a step; the register of its result.
    pub fn push(&mut self, step: Step) -> Reg {
        let result = self.next;
        self.next += 1;
        self.current.steps.push(step);
        result
    }

    /// Ends the current part.
    fn take(&mut self) -> Part {
        let next = Part { first: self.next, steps: Vec::new() };
        std::mem::replace(&mut self.current, next)
    }

    /// Ends the head: where all of `zeros` are zero, what `rare` records runs, and the registers
    /// that it returns, each the result of a step of its own, take their places. At most once.
    pub fn rare(&mut self, zeros: Vec<Reg>, rare: impl FnOnce(&mut Self) -> Vec<Reg>) {
        self.head = Some(self.take());
        let instead = rare(self);
        let part = self.take();
        self.rare = Rare { zeros, part, instead };
    }

    /// The routine.
    pub fn finish(mut self, outputs: Vec<Reg>) -> Routine {
        let tail = self.take();
        let head = self.head.unwrap_or(Part { first: self.num_inputs, steps: Vec::new() });
        Routine { num_inputs: self.num_inputs, head, rare: self.rare, tail, outputs }
    }
}
