//! A transform as dispatches.

use std::sync::OnceLock;

use twinlock_fields::{FR, FR_COSET_GENERATOR};

use super::{FORWARD, INVERSE, LG_TILE, MAX_PASSES, REVERSE, TABLES, THREADS, TILE_LEN};
use crate::Kernel;

/// The largest domain's base-2 logarithm: indices have 32 bits and count 16 bytes.
pub const MAX_LG: u32 = 30;

/// Tiles of one dispatch: 2^22 elements, so that none is long for a watchdog.
const MAX_TILES: u32 = 1 << 13;

/// Which transform of 2^`lg` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// Domain size as its base-2 logarithm.
    pub lg: u32,
    /// Evaluations to coefficients, 1/n included, or the other way.
    pub inverse: bool,
    /// Whether the domain is shifted by 7.
    pub coset: bool,
    /// Element i at position i before, or at i with its bits reversed.
    pub natural_input: bool,
    /// Element i at position i after, or at i with its bits reversed.
    pub natural_output: bool,
}

/// A kernel's binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// The elements.
    Data,
    /// The workspace.
    Tables,
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What runs.
    pub kernel: Kernel,
    /// Its bindings.
    pub buffers: &'static [Buffer],
    /// Its own parameters.
    pub params: Vec<u32>,
    /// How many workgroups, in x.
    pub groups: u32,
}

/// Bits of each pass's digit, the digits at the top of an index first. The pass whose tiles lie
/// together in memory, the last for the natural layout and else the first, has the most.
fn digits(lg: u32, natural_layout: bool) -> Vec<u32> {
    let passes = lg.div_ceil(LG_TILE).max(1);
    let mut digits: Vec<_> = (0..passes).map(|pass| (lg + pass) / passes).collect();
    if !natural_layout {
        digits.reverse();
    }
    digits
}

/// Elements of the tables.
fn tables_len(lg: u32, first_digit: u32) -> u64 {
    let small = u64::from((MAX_PASSES + 1) << LG_TILE);
    if lg <= LG_TILE { small } else { small + (1 << (lg - first_digit)) }
}

/// Bytes of the workspace of a transform of 2^`lg` elements: its tables. `None` past [`MAX_LG`].
pub fn workspace_bytes(lg: u32) -> Option<u64> {
    if lg > MAX_LG {
        return None;
    }
    let first_digit = digits(lg, true).first().copied().unwrap_or(0);
    Some(tables_len(lg, first_digit) * FR.size_bytes() as u64)
}

/// The dispatches of a transform, in order. `None` past [`MAX_LG`].
pub fn plan(transform: Transform) -> Option<Vec<Dispatch>> {
    plan_in_steps(transform, MAX_TILES)
}

/// [`plan`] with at most `max_tiles` tiles a dispatch.
pub fn plan_in_steps(transform: Transform, max_tiles: u32) -> Option<Vec<Dispatch>> {
    let max_tiles = max_tiles.max(1);
    let Transform { lg, inverse, coset, natural_input, natural_output } = transform;
    if lg > MAX_LG {
        return None;
    }
    if lg == 0 {
        return Some(Vec::new());
    }
    let natural_layout = natural_input != inverse;
    let digits = digits(lg, natural_layout);
    let mut dispatches = vec![tables(transform, &digits)];
    let single = digits.len() == 1;
    let mut before = 0;
    let mut passes = Vec::new();
    for (number, bits) in (0..).zip(digits.iter().copied()) {
        let at = if natural_layout { lg - before - bits } else { before };
        let run_bits = LG_TILE.min(lg) - bits;
        // The factor between the first two passes takes both tables, and brings 1/n; later ones
        // are powers of the high table's root.
        let between = match number {
            0 if single => u32::from(inverse) << 4,
            0 => 3 << 4,
            _ if before + bits < lg => 2 << 4,
            _ => 0,
        };
        let (read_reversed, written_reversed) = match (single, inverse) {
            (false, _) => (natural_layout, natural_layout),
            (true, false) => (natural_input, !natural_output),
            (true, true) => (!natural_input, natural_output),
        };
        let flags = u32::from(read_reversed)
            | u32::from(written_reversed) << 1
            | u32::from(natural_layout) << 2
            | u32::from(coset) << 3
            | between;
        let tiles = 1u32 << (lg - bits - run_bits);
        let own = [lg, bits, at, run_bits, number << LG_TILE, flags, digits[0], before];
        let kernel = if inverse { INVERSE } else { FORWARD };
        passes.push((0..tiles).step_by(max_tiles as usize).map(move |first| Dispatch {
            kernel,
            buffers: &[Buffer::Data, Buffer::Tables],
            params: [&[first], &own[..]].concat(),
            groups: max_tiles.min(tiles - first),
        }));
        before += bits;
    }
    if inverse {
        passes.reverse();
    }
    dispatches.extend(passes.into_iter().flatten());
    if !single && natural_input == natural_output {
        let groups = (1u32 << lg).div_ceil(THREADS);
        let max_groups = max_tiles.saturating_mul(TILE_LEN / THREADS);
        dispatches.extend((0..groups).step_by(max_groups as usize).map(|first| Dispatch {
            kernel: REVERSE,
            buffers: &[Buffer::Data],
            params: vec![lg, first * THREADS],
            groups: max_groups.min(groups - first),
        }));
    }
    Some(dispatches)
}

fn tables(transform: Transform, digits: &[u32]) -> Dispatch {
    let Transform { lg, inverse, coset, .. } = transform;
    let mut params = vec![lg];
    params.extend((0..MAX_PASSES as usize).map(|pass| digits.get(pass).copied().unwrap_or(0)));
    params.push(u32::from(coset));
    let constants = &constants()[usize::from(inverse)];
    params.extend(&constants.roots[lg as usize]);
    params.extend(&constants.shift);
    let scale = FR.power_of_two(if inverse { -(lg as i32) } else { 0 });
    params.extend(FR.to_montgomery(&scale));
    let len = tables_len(lg, digits[0]);
    Dispatch {
        kernel: TABLES,
        buffers: &[Buffer::Tables],
        params,
        groups: len.div_ceil(u64::from(THREADS)) as u32,
    }
}

/// What factors are powers of, in Montgomery form.
struct Constants {
    /// The root of order 2^lg for each lg.
    roots: Vec<Vec<u32>>,
    /// The coset's generator.
    shift: Vec<u32>,
}

/// Those of forward transforms, and their inverses.
fn constants() -> &'static [Constants; 2] {
    static CONSTANTS: OnceLock<[Constants; 2]> = OnceLock::new();
    CONSTANTS.get_or_init(|| {
        let root = FR.root_of_unity(FR.two_adicity).unwrap_or_else(|| FR.small(1));
        let shift = FR.small(FR_COSET_GENERATOR);
        [(root.clone(), shift.clone()), (FR.invert(&root), FR.invert(&shift))].map(
            |(root, shift)| {
                let mut roots: Vec<_> =
                    std::iter::successors(Some(root), |root| Some(FR.mul(root, root)))
                        .take(FR.two_adicity as usize + 1)
                        .map(|root| FR.to_montgomery(&root))
                        .collect();
                roots.reverse();
                Constants { roots, shift: FR.to_montgomery(&shift) }
            },
        )
    })
}
