//! Routines as tables for a loop that interprets them.
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
    /// slot\[dst\] = slot\[a\]^2
    Sqr = 3,
    /// slot\[dst\] = slot\[a\], in the rare case zero
    UnlessRare = 4,
    /// slot\[dst\] = slot\[a\]
    Copy = 5,
}

/// A routine as a table: inputs are in slots `0..num_inputs`, outputs in slots from 0 on, and a word
/// is `opcode | dst << 8 | a << 16 | b << 24`.
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
}

/// Which register sits in which slot.
#[derive(Clone)]
struct Slots<'r> {
    held: Vec<Option<Reg>>,
    /// What is to end in the first slots.
    outputs: &'r [Reg],
}

impl Slots<'_> {
    fn of(&self, reg: Reg) -> usize {
        // Recorders only hand out registers that were written before.
        self.held.iter().position(|held| *held == Some(reg)).unwrap_or(usize::MAX)
    }

    /// Takes a slot: an output's own if that is free, for others one that is no output's if any is.
    fn put(&mut self, reg: Reg) -> usize {
        let is_free = |slot: &usize| self.held.get(*slot).is_none_or(Option::is_none);
        let own = self.outputs.iter().position(|output| *output == reg).filter(is_free);
        let first = self.outputs.len().min(self.held.len());
        let slot = own
            .or_else(|| (first..self.held.len()).find(is_free))
            .or_else(|| (0..first).find(is_free))
            .unwrap_or(self.held.len());
        if slot >= self.held.len() {
            self.held.resize(slot + 1, None);
        }
        self.held[slot] = Some(reg);
        slot
    }

    /// Copies each output to its slot.
    fn order_outputs(&mut self, words: &mut Vec<u32>) {
        let mut copy = |from: usize, to: usize| {
            words.push(Opcode::Copy as u32 | (to as u32) << 8 | (from as u32) << 16);
        };
        for (slot, output) in self.outputs.iter().enumerate() {
            let from = self.of(*output);
            if from == slot {
                continue;
            }
            if let Some(other) = self.held.get(slot).copied().flatten() {
                self.held.push(Some(other));
                copy(slot, self.held.len() - 1);
            }
            if slot >= self.held.len() {
                self.held.resize(slot + 1, None);
            }
            copy(from, slot);
            self.held[slot] = Some(*output);
            self.held[from] = None;
        }
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
    slots: &mut Slots<'_>,
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
        let held = (0..self.num_inputs).map(Some).collect();
        let mut slots = Slots { held, outputs: &self.outputs };
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
        slots.retain(at_end);
        slots.order_outputs(&mut words);
        Encoded {
            num_slots: slots.held.len().max(rare_len),
            zeros: zero_slots,
            words,
            rare_at,
            tail_at,
        }
    }
}
