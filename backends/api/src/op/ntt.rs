//! The number-theoretic transform.

use super::{Access, Map, apply, check_arena_aligned, check_at_least, check_disjoint, check_len};
use crate::error::Result;
use crate::memory::{FrView, View};

/// Which transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Coefficients to evaluations at the powers of omega.
    Forward,
    /// Evaluations to coefficients, 1/n included.
    Inverse,
}

/// How a vector is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Element i at position i.
    Natural,
    /// Element i at the position with i's lg_domain bits reversed.
    BitReversed,
}

/// Sizes of an NTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttLayout {
    /// Domain size as its base-2 logarithm.
    pub lg_domain: u32,
    /// Scratch in bytes; may be 0.
    pub workspace_bytes: u64,
}

/// An NTT over n = 2^lg_domain elements, in place.
///
/// omega_n = ROOT^(2^(32 - lg_domain)) with ROOT = 7^((r-1)/2^32), as in blstrs and bellman. With
/// `coset`, forward evaluates at 7 * omega^i and inverse undoes that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ntt {
    data: View,
    lg_domain: u32,
    direction: Direction,
    coset: bool,
    input: Order,
    output: Order,
    workspace: View,
}

impl Ntt {
    /// # Errors
    /// `InvalidArgument` unless `data` holds 2^lg_domain elements and `workspace` is large enough,
    /// starts at a multiple of 256 bytes and does not overlap it.
    pub fn new(
        layout: &NttLayout,
        data: FrView,
        direction: Direction,
        coset: bool,
        (input, output): (Order, Order),
        workspace: View,
    ) -> Result<Self> {
        let lg_domain = layout.lg_domain;
        let domain = 1u64.checked_shl(lg_domain).unwrap_or(0);
        check_len("ntt", data.view().name(), data.len(), domain)?;
        check_at_least("ntt", workspace, layout.workspace_bytes)?;
        check_arena_aligned("ntt", workspace)?;
        check_disjoint("ntt", &[data.view(), workspace])?;
        Ok(Self { data: data.view(), lg_domain, direction, coset, input, output, workspace })
    }

    /// The elements, read and written.
    pub const fn data(&self) -> View {
        self.data
    }

    /// Domain size as its base-2 logarithm.
    pub const fn lg_domain(&self) -> u32 {
        self.lg_domain
    }

    /// Which transform.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether the domain is shifted by 7.
    pub const fn coset(&self) -> bool {
        self.coset
    }

    /// Order of the input.
    pub const fn input(&self) -> Order {
        self.input
    }

    /// Order of the output.
    pub const fn output(&self) -> Order {
        self.output
    }

    /// Scratch.
    pub const fn workspace(&self) -> View {
        self.workspace
    }

    pub(super) fn map(&mut self, map: &mut Map<'_>) -> Result<()> {
        apply(&mut self.data, Access::ReadWrite, map)?;
        apply(&mut self.workspace, Access::Scratch, map)
    }
}
