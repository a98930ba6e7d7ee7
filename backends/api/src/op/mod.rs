//! Checked operations: what a Groth16 prover needs, no finer.
//!
//! Constructors check shapes; fields are readable, not writable, so a backend may trust them.

mod base_tables;
mod element;
mod fixed_base;
mod msm;
mod ntt;
mod points;

pub use base_tables::BaseTables;
pub use element::{Convert, Copy, Fill, Gather, Vector, VectorKind};
pub use fixed_base::FixedBase;
pub use msm::{BaseOf, Digits, DigitsLayout, DigitsShape, MsmAccumulate, MsmLayout, MsmReduce};
pub use ntt::{Direction, Ntt, NttLayout, Order};
pub use points::{DecodePoints, PointCheck};

use crate::error::{Error, Result};
use crate::memory::View;

/// An operation with all its views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets every 32-bit word.
    Fill(Fill),
    /// Copies bytes within the device.
    Copy(Copy),
    /// Collects Fr elements by index.
    Gather(Gather),
    /// Element-wise arithmetic over Fr.
    Vector(Vector),
    /// Integers below r to Montgomery form.
    ToMontgomery(Convert),
    /// Montgomery form to integers below r.
    FromMontgomery(Convert),
    /// Uncompressed big-endian points to canonical form.
    DecodePoints(DecodePoints),
    /// Multiples of one point.
    FixedBase(FixedBase),
    /// Tables of bases' multiples.
    BaseTables(BaseTables),
    /// Number-theoretic transform, in place.
    Ntt(Ntt),
    /// Sorts signed window digits of scalars into a plan.
    Digits(Digits),
    /// Adds bases into buckets by a plan.
    MsmAccumulate(MsmAccumulate),
    /// Sums buckets to one point a window.
    MsmReduce(MsmReduce),
}

/// How an operation uses a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes all of it without reading it first.
    Write,
    /// Reads and writes it.
    ReadWrite,
    /// Scratch: undefined before and after.
    Scratch,
}

impl Op {
    /// The operation's name, for errors, logs and timelines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fill(_) => "fill",
            Self::Copy(_) => "copy",
            Self::Gather(_) => "gather",
            Self::Vector(_) => "vector",
            Self::ToMontgomery(_) => "to_montgomery",
            Self::FromMontgomery(_) => "from_montgomery",
            Self::DecodePoints(_) => "decode_points",
            Self::FixedBase(_) => "fixed_base",
            Self::BaseTables(_) => "base_tables",
            Self::Ntt(_) => "ntt",
            Self::Digits(_) => "digits",
            Self::MsmAccumulate(_) => "msm_accumulate",
            Self::MsmReduce(_) => "msm_reduce",
        }
    }

    /// Every view it touches, and how.
    pub fn views(&self) -> Vec<(View, Access)> {
        let mut views = Vec::new();
        // The mapping visits each view once; a copy of the operation is cheap.
        let visited = self.clone().map_views(|view, access| {
            views.push((view, access));
            Ok(view)
        });
        debug_assert!(visited.is_ok());
        views
    }

    /// The same operation on other views, e.g. those of one half of a pair of devices.
    ///
    /// # Errors
    /// What `map` answers.
    pub fn map_views(mut self, mut map: impl FnMut(View, Access) -> Result<View>) -> Result<Self> {
        match &mut self {
            Self::Fill(op) => op.map(&mut map)?,
            Self::Copy(op) => op.map(&mut map)?,
            Self::Gather(op) => op.map(&mut map)?,
            Self::Vector(op) => op.map(&mut map)?,
            Self::ToMontgomery(op) | Self::FromMontgomery(op) => op.map(&mut map)?,
            Self::DecodePoints(op) => op.map(&mut map)?,
            Self::FixedBase(op) => op.map(&mut map)?,
            Self::BaseTables(op) => op.map(&mut map)?,
            Self::Ntt(op) => op.map(&mut map)?,
            Self::Digits(op) => op.map(&mut map)?,
            Self::MsmAccumulate(op) => op.map(&mut map)?,
            Self::MsmReduce(op) => op.map(&mut map)?,
        }
        Ok(self)
    }
}

type Map<'a> = dyn FnMut(View, Access) -> Result<View> + 'a;

/// Replaces `view` by what `map` makes of it.
fn apply(view: &mut View, access: Access, map: &mut Map<'_>) -> Result<()> {
    *view = map(*view, access)?;
    Ok(())
}

/// No two of `views` may share a byte.
fn check_disjoint(op: &str, views: &[View]) -> Result<()> {
    for (i, a) in views.iter().enumerate() {
        for b in &views[i + 1..] {
            if a.overlaps(*b) {
                return Err(Error::invalid(format!("{op}: {} overlaps {}", a.name(), b.name())));
            }
        }
    }
    Ok(())
}

/// `a` and `b` are the same bytes or share none.
fn check_same_or_disjoint(op: &str, a: View, b: View) -> Result<()> {
    if a.overlaps(b) && !a.same_bytes(b) {
        return Err(Error::invalid(format!("{op}: {} partly overlaps {}", a.name(), b.name())));
    }
    Ok(())
}

fn check_len(op: &str, what: &str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::invalid(format!("{op}: {what} holds {found}, expected {expected}")))
}

fn check_at_least(op: &str, view: View, needed_bytes: u64) -> Result<()> {
    if view.len_bytes() >= needed_bytes {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{op}: {} has {} bytes, needs {needed_bytes}",
        view.name(),
        view.len_bytes()
    )))
}

/// Opaque state and scratch start where an arena would start them.
fn check_arena_aligned(op: &str, view: View) -> Result<()> {
    if view.offset_bytes().is_multiple_of(crate::layout::ARENA_ALIGN_BYTES) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{op}: {} starts at {}, must be a multiple of {}",
        view.name(),
        view.offset_bytes(),
        crate::layout::ARENA_ALIGN_BYTES
    )))
}
