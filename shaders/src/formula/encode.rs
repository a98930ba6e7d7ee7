//! Routines as tables for the interpreting loop of the compact style.
//!
//! Registers become slots of a small array, reused as soon as a value has been read for the last
//! time.

use super::{Part, Rare, Reg, Routine, Step};

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
    /// slot\[dst\] = slot\[a\], in the rare case zero
    UnlessRare = 3,
    /// slot\[dst\] = slot\[a\]^2
    Sqr = 4,
}

/// A routine as a table: inputs are in slots `0..num_inputs`, and a word is
/// `opcode | dst << 8 | a << 16 | b << 24`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Head, rare, tail, one after the other.
    pub words: Vec<u32>,
    /// The first word of the rare case.
    pub rare_at: usize,
    /// The first word of the tail.
    pub tail_at: usize,
    /// Slots in all.
    pub num_slots: usize,
    /// Slots of what decides.
    pub zeros: Vec<usize>,
    /// Slots of the outputs.
    pub outputs: Vec<usize>,
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

/// Whether `steps` read `reg`.
fn is_read(reg: Reg, steps: &[Step]) -> bool {
    steps.iter().any(|step| {
        let (a, b) = step.operands();
        a == reg || b == reg
    })
}

/// Appends a part's words. `later` says what is read behind it, `place` where a result has to go.
fn encode_part(
    part: &Part,
    slots: &mut Slots,
    words: &mut Vec<u32>,
    later: impl Fn(Reg) -> bool,
    place: impl Fn(Reg) -> Option<Reg>,
) {
    for (i, step) in part.steps.iter().enumerate() {
        let (a, b) = step.operands();
        let (a, b) = (slots.of(a), slots.of(b));
        slots.retain(|reg| is_read(reg, &part.steps[i + 1..]) || later(reg));
        let result = part.first + i as Reg;
        let dst = match place(result) {
            Some(reg) => slots.of(reg),
            None => slots.put(result),
        };
        let opcode = match step {
            Step::Mul(..) => Opcode::Mul,
            Step::Sqr(_) => Opcode::Sqr,
            Step::Add(..) => Opcode::Add,
            Step::Sub(..) => Opcode::Sub,
            Step::UnlessRare(_) => Opcode::UnlessRare,
        };
        words.push(opcode as u32 | (dst as u32) << 8 | (a as u32) << 16 | (b as u32) << 24);
    }
}

impl Routine {
    /// The routine as a table.
    pub fn encode(&self) -> Encoded {
        let mut words = Vec::new();
        let mut slots = Slots { held: (0..self.num_inputs).map(Some).collect() };
        let Rare { zeros, part, instead } = &self.rare;
        let at_end = |reg: Reg| self.outputs.contains(&reg);
        let in_tail = |reg: Reg| is_read(reg, &self.tail.steps) || at_end(reg);
        let behind_head =
            |reg: Reg| zeros.contains(&reg) || is_read(reg, &part.steps) || in_tail(reg);
        encode_part(&self.head, &mut slots, &mut words, behind_head, |_| None);
        let zero_slots = zeros.iter().map(|reg| slots.of(*reg)).collect();
        let rare_at = words.len();
        // What the rare case makes goes where the head's values are; the rest is forgotten.
        let replaced = |reg: Reg| {
            let k = instead.iter().position(|result| *result == reg)?;
            zeros.get(k).copied()
        };
        let mut rare_slots = slots.clone();
        let behind_rare = |reg: Reg| zeros.contains(&reg) || in_tail(reg);
        encode_part(part, &mut rare_slots, &mut words, behind_rare, replaced);
        let tail_at = words.len();
        let rare_len = rare_slots.held.len();
        slots.retain(in_tail);
        encode_part(&self.tail, &mut slots, &mut words, at_end, |_| None);
        Encoded {
            outputs: self.outputs.iter().map(|reg| slots.of(*reg)).collect(),
            num_slots: slots.held.len().max(rare_len),
            zeros: zero_slots,
            words,
            rare_at,
            tail_at,
        }
    }
}
