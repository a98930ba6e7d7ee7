//! The rows of one side of a constraint system, kept compactly.

use std::collections::HashMap;

use bellpepper_core::Index;
use blstrs::Scalar;
use ff::Field;

use crate::views;
use crate::{Error, Result};

/// Marks an input in a term's variable.
const INPUT: u32 = 1 << 31;

/// A coefficient, as an index into the pool, times a variable.
#[derive(Clone, Copy)]
struct Term {
    variable: u32,
    coefficient: u32,
}

/// Distinct coefficients; real circuits have few.
pub(crate) struct Coefficients {
    values: Vec<Scalar>,
    known: HashMap<[u8; 32], u32>,
}

impl Coefficients {
    pub(crate) fn new() -> Self {
        let mut pool = Self { values: Vec::new(), known: HashMap::new() };
        pool.intern(&Scalar::ONE);
        pool
    }

    fn intern(&mut self, value: &Scalar) -> u32 {
        if self.values.first() == Some(value) {
            return 0;
        }
        let mut key = [0; 32];
        key.copy_from_slice(views::as_bytes(std::slice::from_ref(value)));
        // A term's variable would overflow long before: each value belongs to a term.
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        *self.known.entry(key).or_insert_with(|| {
            self.values.push(*value);
            next
        })
    }

    fn value(&self, at: u32) -> &Scalar {
        self.values.get(at as usize).unwrap_or(&Scalar::ZERO)
    }
}

/// One side (A, B or C) of all rows, terms with coefficient zero left out.
#[derive(Default)]
pub(crate) struct Rows {
    terms: Vec<Term>,
    /// Where each row's terms end.
    ends: Vec<usize>,
}

impl Rows {
    /// Appends a term to the row in progress.
    ///
    /// # Errors
    /// [`Error::Limit`] for an index of 2^31 or above.
    pub(crate) fn push(
        &mut self,
        pool: &mut Coefficients,
        index: Index,
        coefficient: &Scalar,
    ) -> Result<()> {
        if *coefficient == Scalar::ZERO {
            return Ok(());
        }
        let (at, flag) = match index {
            Index::Input(at) => (at, INPUT),
            Index::Aux(at) => (at, 0),
        };
        let variable = u32::try_from(at).ok().filter(|at| at & INPUT == 0).ok_or(Error::Limit {
            what: "index of a variable".into(),
            value: at as u64,
            limit: u64::from(INPUT) - 1,
        })?;
        self.terms.push(Term { variable: variable | flag, coefficient: pool.intern(coefficient) });
        Ok(())
    }

    /// Ends the row in progress.
    pub(crate) fn end_row(&mut self) {
        self.ends.push(self.terms.len());
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The terms of row `at`; none past the end.
    pub(crate) fn row<'a>(
        &'a self,
        pool: &'a Coefficients,
        at: usize,
    ) -> impl Iterator<Item = (Index, &'a Scalar)> {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(at).copied().unwrap_or(0);
        let terms = self.terms.get(start.unwrap_or(0)..end).unwrap_or_default();
        terms.iter().map(|term| {
            let at = (term.variable & !INPUT) as usize;
            let index = if term.variable & INPUT == 0 { Index::Aux(at) } else { Index::Input(at) };
            (index, pool.value(term.coefficient))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_pushed_but_for_zeros() {
        let mut pool = Coefficients::new();
        let mut rows = Rows::default();
        let pushed = [
            vec![(Index::Input(0), 1), (Index::Aux(0), 7), (Index::Aux(3), 7)],
            vec![],
            vec![(Index::Aux(5), 0), (Index::Input(9), 2)],
        ];
        for row in &pushed {
            for (index, coefficient) in row {
                rows.push(&mut pool, *index, &Scalar::from(*coefficient)).unwrap();
            }
            rows.end_row();
        }
        assert_eq!((rows.len(), pool.values.len()), (3, 3));
        for (at, row) in pushed.iter().enumerate() {
            let expected: Vec<_> = (row.iter().filter(|term| term.1 != 0))
                .map(|(index, coefficient)| (*index, Scalar::from(*coefficient)))
                .collect();
            let found: Vec<_> = rows.row(&pool, at).map(|(i, c)| (i, *c)).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(rows.row(&pool, 3).count(), 0);
        let error = rows.push(&mut pool, Index::Aux(1 << 31), &Scalar::ONE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "index of a variable: 2147483648 exceeds the limit of 2147483647"
        );
    }
}
