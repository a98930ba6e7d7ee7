//! Which base of a query belongs to which variable, as the device reads it: made part by part, by
//! several threads, straight into staging.

use std::ops::Range;

use twinlock_api::layout::NO_BASE;

use crate::groth16::assignment::{Assignment, Ranks};

/// For each variable its index in the A query, or `NO_BASE`.
#[derive(Debug)]
pub(super) struct AIndices<'a> {
    inputs: usize,
    witness: Ranks<'a>,
}

impl<'a> AIndices<'a> {
    pub fn new(assignment: &'a Assignment) -> Self {
        let witness = assignment.a_witness_density.ranks();
        Self { inputs: assignment.instance.len(), witness }
    }

    /// Bases of the variables below `variable`.
    fn below(&self, variable: usize) -> usize {
        match variable.checked_sub(self.inputs) {
            Some(witness) => self.inputs + self.witness.rank(witness),
            None => variable,
        }
    }

    /// Where the bases of these variables lie in the query: side by side, for indices ascend.
    pub fn bases(&self, variables: Range<usize>) -> Range<usize> {
        self.below(variables.start)..self.below(variables.end)
    }

    /// The indices of the variables from `first` on.
    pub fn fill(&self, first: usize, out: &mut [[u8; 4]]) {
        let bases = self.bases(first..first + out.len());
        let witness = self.witness.members_from(bases.start.saturating_sub(self.inputs));
        let with_base = (bases.start..self.inputs).chain(witness.map(|i| self.inputs + i));
        out.fill(NO_BASE.to_le_bytes());
        for (index, variable) in bases.zip(with_base) {
            if let Some(out) = out.get_mut(variable - first) {
                *out = (index as u32).to_le_bytes();
            }
        }
    }
}

/// The variables that occur in B, in the order of the B queries.
#[derive(Debug)]
pub(super) struct BVariables<'a> {
    inputs: usize,
    of_inputs: Ranks<'a>,
    input_bases: usize,
    of_witness: Ranks<'a>,
}

impl<'a> BVariables<'a> {
    pub fn new(assignment: &'a Assignment) -> Self {
        Self {
            inputs: assignment.instance.len(),
            of_inputs: assignment.b_input_density.ranks(),
            input_bases: assignment.b_input_density.count(),
            of_witness: assignment.b_witness_density.ranks(),
        }
    }

    /// The variables of the bases from `first` on.
    pub fn fill(&self, first: usize, out: &mut [[u8; 4]]) {
        let inputs = self.of_inputs.members_from(first.min(self.input_bases));
        let witness = self.of_witness.members_from(first.saturating_sub(self.input_bases));
        let variables = inputs.chain(witness.map(|i| self.inputs + i));
        // Past the last base, where a slot holds something else.
        out.fill([0; 4]);
        for (out, variable) in out.iter_mut().zip(variables) {
            *out = (variable as u32).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use blstrs::Scalar;
    use ff::Field;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Of so many inputs and witness variables, each in a set as `keep` says.
    fn assignment(inputs: usize, witness: usize, mut keep: impl FnMut() -> bool) -> Assignment {
        let mut of = |len: usize| (0..len).map(|_| keep()).collect();
        let mut given = Assignment::empty();
        given.instance = vec![Scalar::ONE; inputs];
        given.witness = vec![Scalar::ONE; witness];
        given.a_witness_density = of(witness);
        given.b_input_density = of(inputs);
        given.b_witness_density = of(witness);
        given
    }

    /// Every part of a map is what a walk over all variables gives there.
    #[test]
    fn parts_are_those_of_the_whole() {
        let seed = rand::random();
        let mut rng = StdRng::seed_from_u64(seed);
        let sizes = [(1, 0), (1, 1), (3, 200), (130, 70), (64, 5_000), (5_000, 9_000)];
        for ((inputs, witness), of_a_hundred) in
            sizes.into_iter().flat_map(|size| [0, 3, 50, 97, 100].map(|keep| (size, keep)))
        {
            let given = assignment(inputs, witness, || rng.gen_range(0..100) < of_a_hundred);
            let (mut a, mut bases) = (Vec::new(), 0);
            let in_a = (0..inputs + witness)
                .map(|i| i < inputs || given.a_witness_density.contains(i - inputs));
            for is_in in in_a {
                a.push(if is_in { bases } else { NO_BASE }.to_le_bytes());
                bases += u32::from(is_in);
            }
            let in_b = |i: &usize| match i.checked_sub(inputs) {
                Some(witness) => given.b_witness_density.contains(witness),
                None => given.b_input_density.contains(*i),
            };
            let b = (0..inputs + witness).filter(in_b).map(|i| (i as u32).to_le_bytes());
            let b: Vec<[u8; 4]> = b.collect();
            let (of_a, of_b) = (AIndices::new(&given), BVariables::new(&given));
            for part in [1, 63, 64, 1_000, a.len()] {
                let mut made = vec![[0; 4]; a.len()];
                for (at, out) in made.chunks_mut(part).enumerate() {
                    let first = at * part;
                    of_a.fill(first, out);
                    let has_base = |index: &&[u8; 4]| u32::from_le_bytes(**index) != NO_BASE;
                    let before = a[..first].iter().filter(has_base).count();
                    let here = a[first..first + out.len()].iter().filter(has_base).count();
                    assert_eq!(of_a.bases(first..first + out.len()), before..before + here);
                }
                assert_eq!(made, a, "seed {seed}: {inputs} {witness} {of_a_hundred} {part}");
                let mut made = vec![[0; 4]; b.len()];
                for (at, out) in made.chunks_mut(part).enumerate() {
                    of_b.fill(at * part, out);
                }
                assert_eq!(made, b, "seed {seed}: {inputs} {witness} {of_a_hundred} {part}");
            }
        }
    }
}
