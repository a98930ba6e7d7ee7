//! What may be chosen about a proof's memory. No choice changes the proof.

use crate::groth16::params::Query;

/// A set of a key's queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QuerySet(u8);

impl QuerySet {
    /// No query.
    pub const NONE: Self = Self(0);
    /// All five.
    pub const ALL: Self = Self(0b1_1111);

    /// The set with `query` too.
    #[must_use]
    pub const fn with(self, query: Query) -> Self {
        Self(self.0 | 1 << query as u8)
    }

    /// The queries that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `query` is one of them.
    pub const fn contains(self, query: Query) -> bool {
        self.0 & 1 << query as u8 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The queries, in the order of [`Query::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Query> {
        Query::ALL.into_iter().filter(move |query| self.contains(*query))
    }

    /// Every set there is.
    pub fn every() -> impl Iterator<Item = Self> {
        (0..=Self::ALL.0).map(Self)
    }
}

impl FromIterator<Query> for QuerySet {
    fn from_iter<I: IntoIterator<Item = Query>>(queries: I) -> Self {
        queries.into_iter().fold(Self::NONE, Self::with)
    }
}

/// How many vectors of the domain's size the quotient takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NttBuffers {
    /// a and b; c follows into b's once a * b is made, while the device waits.
    Two,
    /// a, b and c, all sent ahead.
    Three,
}

/// When the assignment goes to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AssignmentUpload {
    /// With a, b and c.
    Prestage,
    /// When the first MSM needs it, into memory that the quotient had.
    Late,
}

/// How wide an MSM's windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Windows {
    /// This many bits.
    Fixed(u32),
    /// What suits one chunk: fewer buckets for some more additions.
    OfChunk,
    /// What suits the query.
    OfQuery,
}

/// One way to lay a proof out in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Scalars of one digit plan at most.
    pub chunk: usize,
    /// Streamed points on the device at once, in each of two buffers; `chunk` at most.
    pub bases_chunk: usize,
    /// Window widths.
    pub windows: Windows,
    /// Queries that stay on the device; the others are streamed from the key's source.
    pub resident: QuerySet,
    /// Tables of multiples kept of each resident query, 1 for its points alone. More than one only
    /// where all queries are resident and each MSM's scalars make one plan.
    pub tables: u32,
    /// Vectors of the domain's size.
    pub ntt_buffers: NttBuffers,
    /// When the assignment goes up.
    pub assignment: AssignmentUpload,
    /// Whether what a stage waits for (index maps, a late assignment, its first streamed points) is
    /// sent while the stage before computes: more memory for longer, and a device that waits less.
    pub ahead: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_made_of() {
        assert_eq!(QuerySet::every().count(), 32);
        for set in QuerySet::every() {
            assert_eq!(set.iter().collect::<QuerySet>(), set);
            assert!(set.iter().all(|query| set.contains(query)));
            assert_eq!(set.and(QuerySet::ALL), set);
            assert_eq!(set.is_empty(), set == QuerySet::NONE);
        }
        assert_eq!(Query::ALL.into_iter().collect::<QuerySet>(), QuerySet::ALL);
    }
}
