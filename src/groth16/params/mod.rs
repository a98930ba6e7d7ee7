//! Proving and verifying keys: in memory, in files, and how a prover reads them.
//!
//! # File format
//! The format of bellman and bellperson, all integers big-endian: the verifying key
//! (`alpha_g1 beta_g1 beta_g2 gamma_g2 delta_g1 delta_g2`, a `u32` count and the `ic` points), then
//! the queries `h l a b_g1 b_g2`, each a `u32` count and its points. Points are uncompressed as
//! Zcash defines it: x then y (for G2 the imaginary part first), 96 or 192 bytes, with flags in
//! the three top bits of the first byte: 0x40 and zeros for the identity, none otherwise.
//! Bytes after the last section are allowed (Sapling's files carry a transcript there).

mod check;
mod file;
#[cfg(feature = "bellperson")]
mod foreign;
mod key;
mod layout;
pub(super) mod point;
mod read_at;
mod shape;
mod write;

pub use check::{MAX_PROBLEMS, Problem, Report, check, check_bytes};
pub use file::ParameterFile;
#[cfg(feature = "bellperson")]
pub use foreign::BellpersonParameters;
pub use key::{Parameters, VerifyingKey};
pub use layout::{Inspection, Section, inspect, inspect_bytes};
pub use read_at::ReadAt;
pub use shape::{CircuitShape, check_shape};

use std::sync::Arc;

use crate::Result;

/// One of the five lists of points that a proof is a combination of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Query {
    /// `tau^i * t(tau) / delta` in G1: the quotient's powers.
    H,
    /// `(beta * u_i + alpha * v_i + w_i) / delta` in G1: one for each witness variable.
    L,
    /// `u_i(tau)` in G1: the inputs, then the witness variables that occur in A.
    A,
    /// `v_i(tau)` in G1: the inputs that occur in B, then the witness variables that do.
    BG1,
    /// `v_i(tau)` in G2, in the order of `BG1`.
    BG2,
}

impl Query {
    /// The queries in the order in which a file holds them.
    pub const ALL: [Self; 5] = [Self::H, Self::L, Self::A, Self::BG1, Self::BG2];

    /// `h`, `l`, `a`, `b_g1` or `b_g2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::H => "h",
            Self::L => "l",
            Self::A => "a",
            Self::BG1 => "b_g1",
            Self::BG2 => "b_g2",
        }
    }

    /// Whether the points are in G2.
    pub const fn is_g2(self) -> bool {
        matches!(self, Self::BG2)
    }

    /// Bytes of a point, in either [`PointEncoding`]: 96 or 192.
    pub const fn point_bytes(self) -> usize {
        if self.is_g2() { 192 } else { 96 }
    }
}

/// How [`ParameterSource::read_points`] writes a point. Both take [`Query::point_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointEncoding {
    /// The file's: big-endian x and y, flags in the first byte. Not checked: what reads it must
    /// decode it, and a prover finds a bad point by its self-check.
    Uncompressed,
    /// The devices': little-endian limbs in Montgomery form, the identity as zeros
    /// (see [`crate::views`]).
    Canonical,
}

/// A key as a prover reads it: the verifying key at once, the queries piece by piece.
pub trait ParameterSource: Send + Sync {
    /// The file's path, or a name for a key that is in memory; for messages.
    fn name(&self) -> &str;

    /// The verifying key.
    fn verifying_key(&self) -> &VerifyingKey;

    /// The number of points of `query`.
    fn query_len(&self, query: Query) -> usize;

    /// How [`read_points`](Self::read_points) writes points; the same at every call.
    fn encoding(&self) -> PointEncoding;

    /// Where point `index` of `query` lies, for messages: the offset in bytes from the file's
    /// start, or for a source that is no file, from the query's.
    fn point_offset(&self, query: Query, index: usize) -> u64 {
        index as u64 * query.point_bytes() as u64
    }

    /// Fills `out` with the points of `query` from the `first` on.
    ///
    /// # Errors
    /// [`Error::Parameters`](crate::Error::Parameters) naming section and offset if `out` is not
    /// a whole number of points, if the range passes the query's end, or if the source has
    /// changed since it was opened; [`Error::Io`](crate::Error::Io) if it cannot be read.
    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()>;
}

impl<T: ParameterSource + ?Sized> ParameterSource for &T {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn verifying_key(&self) -> &VerifyingKey {
        (**self).verifying_key()
    }
    fn query_len(&self, query: Query) -> usize {
        (**self).query_len(query)
    }
    fn encoding(&self) -> PointEncoding {
        (**self).encoding()
    }
    fn point_offset(&self, query: Query, index: usize) -> u64 {
        (**self).point_offset(query, index)
    }
    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()> {
        (**self).read_points(query, first, out)
    }
}

impl<T: ParameterSource + ?Sized> ParameterSource for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn verifying_key(&self) -> &VerifyingKey {
        (**self).verifying_key()
    }
    fn query_len(&self, query: Query) -> usize {
        (**self).query_len(query)
    }
    fn encoding(&self) -> PointEncoding {
        (**self).encoding()
    }
    fn point_offset(&self, query: Query, index: usize) -> u64 {
        (**self).point_offset(query, index)
    }
    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()> {
        (**self).read_points(query, first, out)
    }
}
