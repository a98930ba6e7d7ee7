//! Which variables occur in a query.

/// A set of variable indices, one bit each, with its count.
///
/// A query of the proving key holds one point for each variable in the set, in index order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Density {
    words: Vec<u64>,
    len: usize,
    count: usize,
}

impl Density {
    /// An empty set over no variables.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_capacity(len: usize) -> Self {
        Self { words: Vec::with_capacity(len.div_ceil(64)), len: 0, count: 0 }
    }

    /// The number of variables, in the set or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no variables at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of variables in the set: the length of the query.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether variable `index` is in the set; `false` past the end.
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// The bits in words of 64, lowest index in the lowest bit; bits past `len` are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The indices in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        members(&self.words, 0)
    }

    /// A table by which ranks and members are found.
    pub(crate) fn ranks(&self) -> Ranks<'_> {
        let mut before = 0;
        let of_blocks = self.words.chunks(BLOCK_WORDS).map(|block| {
            let start = before;
            before += block.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            start
        });
        Ranks { density: self, before: of_blocks.collect() }
    }

    /// Appends a variable that is not in the set.
    #[inline]
    pub(crate) fn push(&mut self) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.len += 1;
    }

    /// Adds variable `index`, which must exist; past the end nothing happens.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize) {
        if index >= self.len {
            return;
        }
        if let Some(word) = self.words.get_mut(index / 64) {
            let bit = 1u64 << (index % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Appends `other`'s variables from `skip` on.
    pub(crate) fn append(&mut self, other: &Self, skip: usize) {
        for index in skip..other.len {
            self.push();
            if other.contains(index) {
                self.insert(self.len - 1);
            }
        }
    }
}

impl FromIterator<bool> for Density {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut density = Self::new();
        for bit in bits {
            density.push();
            if bit {
                density.insert(density.len - 1);
            }
        }
        density
    }
}

/// Words that one entry of [`Ranks`] covers.
const BLOCK_WORDS: usize = 64;

/// A [`Density`] with the number of variables in the set before each block of words, so that any
/// part of what follows from it can be made on its own.
#[derive(Debug)]
pub(crate) struct Ranks<'a> {
    density: &'a Density,
    before: Vec<usize>,
}

impl Ranks<'_> {
    /// Variables in the set below `index`; all of them from the end on.
    pub fn rank(&self, index: usize) -> usize {
        let (word, bit) = (index / 64, index % 64);
        let Some(last) = self.density.words.get(word) else { return self.density.count };
        let start = word / BLOCK_WORDS * BLOCK_WORDS;
        let before = self.before.get(word / BLOCK_WORDS).copied().unwrap_or(0);
        let whole = self.density.words.get(start..word).unwrap_or_default();
        let whole: u32 = whole.iter().map(|word| word.count_ones()).sum();
        before + whole as usize + (last & ((1 << bit) - 1)).count_ones() as usize
    }

    /// The variables in the set, ascending, from the one on that has `rank` others below it.
    pub fn members_from(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let block = self.before.partition_point(|before| *before <= rank).saturating_sub(1);
        let (mut at, mut skip) = (block * BLOCK_WORDS, rank - self.before.get(block).unwrap_or(&0));
        let words = &self.density.words;
        while let Some(word) = words.get(at)
            && skip >= word.count_ones() as usize
        {
            skip -= word.count_ones() as usize;
            at += 1;
        }
        members(words.get(at..).unwrap_or_default(), at * 64).skip(skip)
    }
}

/// The indices of bits in `words`, of which the first is numbered `first`.
fn members(words: &[u64], first: usize) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(move |(at, &word)| {
        std::iter::successors((word != 0).then_some(word), |word| {
            let rest = word & (word - 1);
            (rest != 0).then_some(rest)
        })
        .map(move |word| first + at * 64 + word.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_counting() {
        // Blocks that are full, empty, or end within a word.
        for len in [0, 1, 64, 4_095, 4_096, 4_097, 20_000] {
            for keep in [|_: usize| true, |_| false, |i| i % 7 == 3, |i| i / 4_096 % 2 == 1] {
                let density: Density = (0..len).map(keep).collect();
                let (ranks, all) = (density.ranks(), (0..len).filter(|i| keep(*i)));
                let all: Vec<usize> = all.collect();
                for index in (0..len + 130).step_by(1 + len / 300) {
                    assert_eq!(ranks.rank(index), all.iter().filter(|i| **i < index).count());
                }
                for rank in (0..=all.len() + 1).step_by(1 + len / 300) {
                    let found: Vec<usize> = ranks.members_from(rank).take(70).collect();
                    let expected = all.iter().copied().skip(rank).take(70);
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{len} {rank}");
                }
            }
        }
    }

    #[test]
    fn agrees_with_a_vector_of_bools() {
        for len in [0, 1, 63, 64, 65, 200] {
            for step in [1, 2, 63, 64, 65] {
                let bits: Vec<bool> = (0..len).map(|i| i % step == 0).collect();
                let density: Density = bits.iter().copied().collect();
                let indices: Vec<usize> = (0..len).filter(|&i| bits[i]).collect();
                assert_eq!(density.len(), len);
                assert_eq!(density.count(), indices.len());
                assert_eq!(density.iter().collect::<Vec<_>>(), indices);
                assert_eq!(density.words().len(), len.div_ceil(64));
                assert!((0..len + 70).all(|i| density.contains(i) == (i < len && bits[i])));
            }
        }
    }

    #[test]
    fn inserting_twice_counts_once_and_past_the_end_not_at_all() {
        let mut density: Density = [false, true].into_iter().collect();
        density.insert(1);
        density.insert(2);
        density.insert(63);
        assert_eq!((density.count(), density.words()), (1, &[2u64][..]));
    }

    #[test]
    fn append_skips() {
        let mut left: Density = (0..70).map(|i| i % 3 == 0).collect();
        let right: Density = (0..70).map(|i| i % 2 == 0).collect();
        left.append(&right, 1);
        let expected: Density =
            (0..70).map(|i| i % 3 == 0).chain((1..70).map(|i| i % 2 == 0)).collect();
        assert_eq!(left, expected);
    }
}
