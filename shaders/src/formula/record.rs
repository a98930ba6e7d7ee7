//! Writes a formula's steps down.

use super::{Branch, Reg, Routine, Step};

/// Collects steps into the parts of a [`Routine`].
#[derive(Debug)]
pub struct Recorder {
    num_inputs: Reg,
    next: Reg,
    current: Branch,
}

impl Recorder {
    /// A recorder whose first `num_inputs` registers are inputs.
    pub fn new(num_inputs: Reg) -> Self {
        let current = Branch { first: num_inputs, ..Branch::default() };
        Self { num_inputs, next: num_inputs, current }
    }

    /// Appends a step; the register of its result.
    pub fn push(&mut self, step: Step) -> Reg {
        let result = self.next;
        self.next += 1;
        self.current.steps.push(step);
        result
    }

    /// Ends the current part.
    fn take(&mut self, outputs: Vec<Reg>) -> Branch {
        let next = Branch { first: self.next, ..Branch::default() };
        Branch { outputs, ..std::mem::replace(&mut self.current, next) }
    }

    /// The routine without a fork.
    pub fn finish(mut self, outputs: Vec<Reg>) -> Routine {
        let head = Branch { first: self.num_inputs, ..Branch::default() };
        let generic = self.take(outputs);
        Routine {
            num_inputs: self.num_inputs,
            head: head.clone(),
            zeros: Vec::new(),
            rare: head,
            generic,
        }
    }

    /// What was recorded is the head; `rare` and `generic` record the two ways on from it.
    pub fn fork(
        mut self,
        zeros: Vec<Reg>,
        rare: impl FnOnce(&mut Self) -> Vec<Reg>,
        generic: impl FnOnce(&mut Self) -> Vec<Reg>,
    ) -> Routine {
        let head = self.take(Vec::new());
        let outputs = rare(&mut self);
        let rare = self.take(outputs);
        let outputs = generic(&mut self);
        let generic = self.take(outputs);
        Routine { num_inputs: self.num_inputs, head, zeros, rare, generic }
    }
}
