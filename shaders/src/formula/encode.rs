//! Routines as tables for the interpreting loop of the compact style.
//!
//! Registers become slots of a small array, reused as soon as a value has been read for the last
//! time.

use super::{Branch, Reg, Routine, Step};

/// What a word of the table asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Opcode {
    /// slot\[dst\] = slot\[a\] * slot\[b\]
    Mul = 0,
    /// slot\[dst\] = slot\[a\] + slot\[b\]
    Add = 1,
    /// slot\[dst\] = slot\[a\] - slot\[b\]
    Sub = 2,
    /// slot\[dst\] = -slot\[a\]
    Neg = 3,
}

/// A routine as a table: inputs are in slots `0..num_inputs`, and a word is
/// `opcode | dst << 8 | a << 16 | b << 24`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Head, rare, generic, one after the other.
    pub words: Vec<u32>,
    /// The first word of `rare`.
    pub rare_at: usize,
    /// The first word of `generic`.
    pub generic_at: usize,
    /// Slots in all.
    pub num_slots: usize,
    /// Slots of what decides the fork.
    pub zeros: Vec<usize>,
    /// Slots of the outputs of `rare`.
    pub rare_outputs: Vec<usize>,
    /// Slots of the outputs of `generic`.
    pub generic_outputs: Vec<usize>,
}

/// Which register sits in which slot.
#[derive(Clone)]
struct Slots {
    held: Vec<Option<Reg>>,
}

impl Slots {
    fn of(&self, reg: Reg) -> usize {
        // Recorders only hand out registers that were written before.
        self.held.iter().position(|held| *held == Some(reg)).unwrap_or(usize::MAX)
    }

    fn put(&mut self, reg: Reg) -> usize {
        let free = self.held.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.held.len());
        if slot == self.held.len() {
            self.held.push(None);
        }
        self.held[slot] = Some(reg);
        slot
    }

    /// Frees what nobody reads any more.
    fn retain(&mut self, needed: impl Fn(Reg) -> bool) {
        for held in &mut self.held {
            if held.is_some_and(|reg| !needed(reg)) {
                *held = None;
            }
        }
    }
}

/// Whether `reg` is read by `steps` or is in `kept`.
fn is_read(reg: Reg, steps: &[Step], kept: &[Reg]) -> bool {
    let reads = |step: &Step| {
        let (a, b) = step.operands();
        a == reg || b == reg
    };
    kept.contains(&reg) || steps.iter().any(reads)
}

/// Appends a branch's words; `later` says what is read behind the branch.
fn encode_branch(
    branch: &Branch,
    slots: &mut Slots,
    words: &mut Vec<u32>,
    later: impl Fn(Reg) -> bool,
) {
    for (i, step) in branch.steps.iter().enumerate() {
        let (a, b) = step.operands();
        let (a, b) = (slots.of(a), slots.of(b));
        let rest = &branch.steps[i + 1..];
        slots.retain(|reg| is_read(reg, rest, &branch.outputs) || later(reg));
        let dst = slots.put(branch.first + i as Reg);
        let opcode = match step {
            Step::Mul(..) | Step::Sqr(_) => Opcode::Mul,
            Step::Add(..) => Opcode::Add,
            Step::Sub(..) => Opcode::Sub,
            Step::Neg(_) => Opcode::Neg,
        };
        words.push(opcode as u32 | (dst as u32) << 8 | (a as u32) << 16 | (b as u32) << 24);
    }
}

impl Routine {
    /// The routine as a table.
    pub fn encode(&self) -> Encoded {
        let mut words = Vec::new();
        let mut slots = Slots { held: (0..self.num_inputs).map(Some).collect() };
        let in_branch = |branch: &Branch, reg| is_read(reg, &branch.steps, &branch.outputs);
        encode_branch(&self.head, &mut slots, &mut words, |reg| {
            self.zeros.contains(&reg) || in_branch(&self.rare, reg) || in_branch(&self.generic, reg)
        });
        let zeros = self.zeros.iter().map(|reg| slots.of(*reg)).collect();
        let rare_at = words.len();
        let mut rare_slots = slots.clone();
        rare_slots.retain(|reg| in_branch(&self.rare, reg));
        encode_branch(&self.rare, &mut rare_slots, &mut words, |_| false);
        let generic_at = words.len();
        slots.retain(|reg| in_branch(&self.generic, reg));
        encode_branch(&self.generic, &mut slots, &mut words, |_| false);
        let of = |slots: &Slots, branch: &Branch| {
            branch.outputs.iter().map(|reg| slots.of(*reg)).collect::<Vec<_>>()
        };
        Encoded {
            rare_outputs: of(&rare_slots, &self.rare),
            generic_outputs: of(&slots, &self.generic),
            num_slots: slots.held.len().max(rare_slots.held.len()),
            words,
            rare_at,
            generic_at,
            zeros,
        }
    }
}
