//! A transform over Fr as launches of the kernels in `kernels/ntt.cu`; `ntt.cuh` says how it works.

use std::sync::OnceLock;

use twinlock_fields::FR;

pub use crate::sizes::ntt::MAX_LG;
use crate::sizes::ntt::{
    COSET_AT_LOAD, COSET_AT_STORE, FACTORS_AT_LOAD, FACTORS_AT_STORE, FACTORS_WITH_COSET,
    FACTORS_WITH_COSET_ABOVE, FACTORS_WITH_SCALE, FOURTH_ROOT_NEGATED, INVERSE, LG_LOW, LG_TILE,
    LOAD_REVERSED, MAX_BITS, REVERSAL_BITS, STORE_REVERSED,
};

/// From here on a pass more than needed may cost less: what it reads and writes takes no longer than its
/// products.
const LG_LARGE: u32 = 23;
/// Elements a thread, the outputs of three levels.
const LG_PER_THREAD: u32 = 3;
const TABLES_THREADS: u32 = 1 << (LG_TILE - LG_PER_THREAD);
/// Bits of a tile of the reversal, one element a thread.
const LG_REVERSAL: u32 = 2 * REVERSAL_BITS;

/// Elements of the tables, `TABLES_LEN` of `ntt.cuh`.
const TABLES_LEN: u32 =
    2 * ((2 << LG_TILE) + (1 << LG_LOW) + ((2 * MAX_LG) << MAX_BITS)) + (1 << (MAX_LG - LG_LOW));

/// Bytes of the tables, which [`fill_tables`] writes once for all transforms.
pub const TABLES_BYTES: u64 = 32 * TABLES_LEN as u64;

/// Which transform of 2^`lg` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// Domain size as its base-2 logarithm.
    pub lg: u32,
    /// Evaluations to coefficients, 1/n included, or the other way.
    pub inverse: bool,
    /// Whether the domain is shifted by the coset's generator.
    pub coset: bool,
    /// Element i at position i before, or at i with its bits reversed.
    pub natural_input: bool,
    /// Element i at position i after, or at i with its bits reversed.
    pub natural_output: bool,
}

/// One launch. Arguments are the data's address, that of the tables if `reads_tables`, `words`
/// (`uint32_t` each) and `factors` (`Fr` each).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// What runs.
    pub kernel: &'static str,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Whether the tables' address is its second argument.
    pub reads_tables: bool,
    /// Arguments that are words.
    pub words: Vec<u32>,
    /// Arguments that are elements of Fr: factors and their quotients, as in `known.cuh`.
    pub factors: Vec<[u32; 8]>,
}

/// The launch that writes the tables; the tables take the place of the data.
pub fn fill_tables() -> Launch {
    // Now, so that no transform waits for them.
    constants();
    Launch {
        kernel: "ntt_tables",
        blocks: TABLES_LEN.div_ceil(TABLES_THREADS),
        threads: TABLES_THREADS,
        shared_bytes: 0,
        reads_tables: false,
        words: Vec::new(),
        factors: Vec::new(),
    }
}

/// The launches of a transform, in order, on a device whose blocks have so much shared memory.
/// `None` past [`MAX_LG`].
pub fn plan(transform: Transform, shared_bytes_per_block: u32) -> Option<Vec<Launch>> {
    // Where shared memory is shorter than on any card so far, a tile is no more than the largest digit.
    let fits = shared_bytes(LG_TILE, MAX_BITS) <= shared_bytes_per_block;
    plan_by_digits(transform, if fits { LG_TILE } else { MAX_BITS }, MAX_BITS)
}

/// [`plan`] with tiles of at most 2^`lg_tile` elements and digits of at most `max_bits` bits.
/// `None` where there are no such.
pub fn plan_by_digits(transform: Transform, lg_tile: u32, max_bits: u32) -> Option<Vec<Launch>> {
    let lg = transform.lg;
    if !(LG_PER_THREAD..=MAX_BITS).contains(&max_bits) || !(max_bits..=LG_TILE).contains(&lg_tile) {
        return None;
    }
    let digits = lg.div_ceil(max_bits).max(1);
    match lg {
        // One element: every factor is one.
        0 => Some(Vec::new()),
        1 | 2 => Some(vec![tiny(transform)]),
        _ if digits == 1 => Some(vec![single(transform)]),
        // No digit may be short of what a thread has, nor the domain of what reversal takes.
        ..=MAX_LG if lg / digits >= LG_PER_THREAD && lg >= LG_REVERSAL => {
            let mut digits = digits_of(lg, digits, max_bits)?;
            if !transform.natural_input {
                digits.reverse();
            }
            let mut launches = passes(transform, lg_tile, &digits);
            if transform.natural_input == transform.natural_output {
                launches.push(reverse(lg));
            }
            Some(launches)
        }
        _ => None,
    }
}

/// Of a tile, and of the factors, with their quotients, of a digit's places.
const fn shared_bytes(lg_tile: u32, bits: u32) -> u32 {
    (32 << lg_tile) + (64 << bits)
}

fn tiny(transform: Transform) -> Launch {
    let Transform { lg, inverse, coset, natural_input, natural_output } = transform;
    let mut flags = when(inverse, INVERSE | FACTORS_WITH_SCALE);
    flags |= when(!natural_input, LOAD_REVERSED) | when(!natural_output, STORE_REVERSED);
    flags |= when(coset, if inverse { COSET_AT_STORE } else { COSET_AT_LOAD });
    // A store that is not reversed puts output k where its bits reversed say, as in a pass.
    flags ^= STORE_REVERSED;
    Launch {
        kernel: "ntt_tiny",
        blocks: 1,
        threads: 1,
        shared_bytes: 0,
        reads_tables: true,
        words: vec![lg, flags],
        factors: scale(transform).to_vec(),
    }
}

/// A pass over the digit of `bits` bits from bit `at` on, in tiles of 2^`cols` columns.
fn pass(transform: Transform, bits: u32, at: u32, cols: u32, weight: u32, flags: u32) -> Launch {
    let lg = transform.lg;
    let roots = &constants().small_roots[usize::from(transform.inverse)];
    let flags = flags
        | when(transform.inverse, INVERSE)
        | when(roots.is_fourth_negated, FOURTH_ROOT_NEGATED);
    let has_factors = flags & (FACTORS_AT_LOAD | FACTORS_AT_STORE) != 0;
    let tile_bytes = 32 << (bits + cols);
    Launch {
        kernel: "ntt_pass",
        blocks: 1 << (lg - bits - cols),
        threads: 1 << (bits + cols - LG_PER_THREAD),
        shared_bytes: if has_factors { shared_bytes(bits + cols, bits) } else { tile_bytes },
        reads_tables: true,
        words: vec![lg, bits, at, cols, weight, flags],
        factors: [&scale(transform)[..], &roots.roots].concat(),
    }
}

/// The whole domain as one tile.
fn single(transform: Transform) -> Launch {
    let Transform { lg, inverse, coset, natural_input, natural_output } = transform;
    let mut flags = when(!natural_input, LOAD_REVERSED) | when(natural_output, STORE_REVERSED);
    flags |= match (inverse, coset) {
        (false, false) => 0,
        (false, true) => FACTORS_AT_LOAD | FACTORS_WITH_COSET,
        (true, false) => FACTORS_AT_STORE | FACTORS_WITH_SCALE,
        (true, true) => FACTORS_AT_STORE | FACTORS_WITH_SCALE | FACTORS_WITH_COSET,
    };
    pass(transform, lg, 0, 0, 0, flags)
}

/// The bits of `fewest` digits or, in large domains, one more, which make up `lg`: those that cost least.
/// The largest comes first, for the pass from or to natural order, before or behind which there are no
/// factors between passes.
fn digits_of(lg: u32, fewest: u32, max_bits: u32) -> Option<Vec<u32>> {
    let most = if lg < LG_LARGE { fewest } else { fewest + 1 };
    // Two digits make up a tile at least, or its columns would be few.
    let least = if max_bits == MAX_BITS { LG_TILE.div_ceil(2) } else { LG_PER_THREAD };
    (fewest..=most)
        .map(|count| split(lg, count, least, max_bits))
        .filter(|digits| !digits.is_empty())
        .min_by_key(|digits| cost(digits))
}

/// The split into `count` digits of `least` to `most` bits that costs least, of such that whose largest
/// is smallest, largest first; empty where there is none.
fn split(lg: u32, count: u32, least: u32, most: u32) -> Vec<u32> {
    if count == 1 {
        return vec![lg];
    }
    let others = count - 1;
    let mut digits = (least..=most.min(lg))
        .filter(|bits| (others * least..=others * most).contains(&(lg - bits)))
        .map(|bits| [vec![bits], split(lg - bits, others, least, most)].concat())
        .min_by_key(|digits| (cost(digits), digits.iter().copied().max()))
        .unwrap_or_default();
    digits.sort_unstable_by(|a, b| b.cmp(a));
    digits
}

fn cost(digits: &[u32]) -> u32 {
    digits.iter().copied().map(pass_cost).sum()
}

/// What an element costs in a pass, in eighths of a product: eight for the factors between passes; five
/// for three levels at once, two for two, none for one; seven between two steps, and about as much as
/// three for the exchange there.
const fn pass_cost(bits: u32) -> u32 {
    let steps = bits.div_ceil(LG_PER_THREAD);
    let last = match bits - LG_PER_THREAD * (steps - 1) {
        3 => 5,
        2 => 2,
        _ => 0,
    };
    8 + (5 + 7 + 3) * (steps - 1) + last
}

/// The passes from natural to bit-reversed order or the other way.
fn passes(transform: Transform, lg_tile: u32, digits: &[u32]) -> Vec<Launch> {
    let Transform { lg, inverse, coset, natural_input, .. } = transform;
    let count = digits.len() as u32;
    let mut launches = Vec::new();
    let mut done = 0;
    for (number, bits) in (0..).zip(digits.iter().copied()) {
        let left = lg - done - bits;
        let at = if natural_input { left } else { done };
        // Columns are the places below the digit, or for the lowest digit those above.
        let neighbours = if at == 0 { lg - bits } else { at };
        let cols = (lg_tile - bits).min(neighbours);
        // What the digit counts: of inputs, those below it; of outputs, those before it.
        let weight = if inverse { done } else { left };
        let mut flags = if natural_input { 0 } else { LOAD_REVERSED | STORE_REVERSED };
        // Between passes there are factors: before each but the first, or after each but the last.
        let between = if natural_input { done != 0 } else { left != 0 };
        // The coset's powers ride on them where both come on the same side.
        let same_side = natural_input != inverse;
        let mut needed = between;
        if coset && same_side {
            needed = true;
            flags |= FACTORS_WITH_COSET;
        } else if coset {
            // The first or last digit's ride on the factors of the next pass or the one before:
            // there they are what all of a tile have in common, unless its columns differ.
            let (own, taken) = if inverse { (0, 1) } else { (count - 1, count - 2) };
            if count < 3 || number != own {
                flags |= if inverse { COSET_AT_STORE } else { COSET_AT_LOAD };
            }
            if count >= 3 && number == taken {
                flags |= FACTORS_WITH_COSET_ABOVE;
            }
        }
        // So does the scale, once.
        let first_between = if natural_input { 1 } else { 0 };
        if inverse && number == first_between {
            flags |= FACTORS_WITH_SCALE;
        }
        if needed {
            flags |= if natural_input { FACTORS_AT_LOAD } else { FACTORS_AT_STORE };
        }
        launches.push(pass(transform, bits, at, cols, weight, flags));
        done += bits;
    }
    launches
}

fn reverse(lg: u32) -> Launch {
    Launch {
        kernel: "ntt_reverse",
        blocks: 1 << (lg - LG_REVERSAL),
        threads: 1 << LG_REVERSAL,
        shared_bytes: 0,
        reads_tables: false,
        words: vec![lg],
        factors: Vec::new(),
    }
}

const fn when(condition: bool, flags: u32) -> u32 {
    if condition { flags } else { 0 }
}

/// 1/n of an inverse transform.
fn scale(transform: Transform) -> [[u32; 8]; 2] {
    let halvings = if transform.inverse { transform.lg as usize } else { 0 };
    constants().inverses_of_len[halvings]
}

/// Constants, each with its quotient.
struct Constants {
    /// Those of the root of order 8, and of its inverse.
    small_roots: [SmallRoots; 2],
    /// 1 / 2^lg.
    inverses_of_len: Vec<[[u32; 8]; 2]>,
}

/// A root of order 8, its square, or the negative of that, and its cube, each with its quotient.
struct SmallRoots {
    roots: [[u32; 8]; 6],
    /// Of the fourth root and its negative, the one below 2^192 is there.
    is_fourth_negated: bool,
}

fn constants() -> &'static Constants {
    static CONSTANTS: OnceLock<Constants> = OnceLock::new();
    CONSTANTS.get_or_init(|| {
        let limbs = |value: &[u32]| {
            let mut limbs = [0; 8];
            limbs.copy_from_slice(value);
            limbs
        };
        let known = |value: &[u32]| [limbs(value), quotient(limbs(&FR.to_montgomery(value)))];
        let root = FR.root_of_unity(3).unwrap_or_else(|| FR.small(1));
        // Its order is 8.
        let inverse = FR.pow(&root, &FR.small(7));
        let small_roots = [root, inverse].map(|root| {
            let square = FR.mul(&root, &root);
            let is_fourth_negated = square[6..] != [0, 0];
            let short = if is_fourth_negated { FR.neg(&square) } else { square.clone() };
            let [a, b, c] = [&root, &short, &FR.mul(&square, &root)].map(|root| known(root));
            SmallRoots { roots: [a[0], a[1], b[0], b[1], c[0], c[1]], is_fourth_negated }
        });
        let inverse = |lg: u32| known(&FR.power_of_two(-(lg as i32)));
        Constants { small_roots, inverses_of_len: (0..=MAX_LG).map(inverse).collect() }
    })
}

/// floor(w 2^256 / r) of w in Montgomery form, w 2^256 - q r: the q by which Montgomery's reduction
/// has 2^256 divide it.
fn quotient(factor: [u32; 8]) -> [u32; 8] {
    let mut rest = factor;
    let mut quotient = [0; 8];
    for limb in &mut quotient {
        *limb = rest[0].wrapping_mul(FR.reduction_factor(32));
        let mut sum = 0u64;
        for j in 0..8 {
            sum += u64::from(*limb) * u64::from(FR.modulus[j]) + u64::from(rest[j]);
            if j > 0 {
                rest[j - 1] = sum as u32;
            }
            sum >>= 32;
        }
        rest[7] = sum as u32;
    }
    quotient
}
