//! From scalars to a plan: for each window, which base goes to which bucket.
//!
//! Digits are signed (Booth): a window of c bits, with the bit below it, gives a digit in
//! -2^(c-1)..=2^(c-1) without a carry from window to window. A scalar above r/2 is first replaced
//! by r minus itself with the sign flipped, so r - 1 costs what 1 costs.
//!
//! A plan is flat: `offsets[w][b]..offsets[w][b + 1]` of window w's entries belong to bucket b,
//! which stands for the digit b + 1. An entry is a scalar's index, with the sign in the top bit.

use super::shape::Shape;
use crate::error::{KernelError, expect_len};
use crate::field::{FR_MODULUS, Fr, less_than};
use crate::scatter::Scatter;
use crate::workspace::{carve, carved_bytes, cast};

/// Sign of an entry.
pub(crate) const NEGATIVE: u32 = 1 << 31;

/// (r - 1) / 2.
const HALF: [u64; 4] = {
    let r = FR_MODULUS;
    [(r[0] >> 1) | (r[1] << 63), (r[1] >> 1) | (r[2] << 63), (r[2] >> 1) | (r[3] << 63), r[3] >> 1]
};

/// Sign of a recoded scalar; its magnitude stays below 2^254.
const SIGN_LIMB_BIT: u64 = 1 << 63;

/// The scalar in standard form, or its negative if that is smaller, and the sign in the top bit.
#[inline]
fn recode(scalar: &Fr) -> [u64; 4] {
    let standard = scalar.from_montgomery();
    if less_than(&HALF, &standard.0) {
        let mut negative = Fr::ZERO.sub(&standard).0;
        negative[3] |= SIGN_LIMB_BIT;
        negative
    } else {
        standard.0
    }
}

/// The digit of `window`, of the magnitude alone.
#[inline(always)]
fn booth_digit(recoded: &[u64; 4], window: u32, window_bits: u32) -> i32 {
    // The bit below the window's lowest, which for window 0 is a zero.
    let (mut value, width) = if window == 0 {
        (recoded[0] << 1, window_bits + 1)
    } else {
        let low = window * window_bits - 1;
        let (limb, shift) = ((low / 64) as usize, low % 64);
        let at = |i: usize| match recoded.get(i) {
            Some(&x) if i == 3 => x & !SIGN_LIMB_BIT,
            Some(&x) => x,
            None => 0,
        };
        let mut value = at(limb) >> shift;
        if shift != 0 {
            value |= at(limb + 1) << (64 - shift);
        }
        (value, window_bits + 1)
    };
    value &= (1 << width) - 1;
    let top = (value >> window_bits) as i32;
    (((value + 1) >> 1) as i32) - (top << window_bits)
}

/// A plan's parts, in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    shape: Shape,
    offsets: &'a [u32],
    entries: &'a [u32],
}

impl<'a> Plan<'a> {
    /// The plan that `digits` left in `bytes` for this shape.
    pub fn from_bytes(shape: Shape, bytes: &'a [u8]) -> Result<Self, KernelError> {
        let offsets_bytes = carved_bytes::<u32>(shape.num_offsets());
        let entries_bytes = shape.num_entries() * size_of::<u32>();
        let expected = offsets_bytes + carved_bytes::<u32>(shape.num_entries());
        let short = KernelError::Length { what: "plan bytes", got: bytes.len(), expected };
        let Some((offsets, entries)) = bytes.split_at_checked(offsets_bytes) else {
            return Err(short);
        };
        let (Some(offsets), Some(entries)) =
            (offsets.get(..shape.num_offsets() * size_of::<u32>()), entries.get(..entries_bytes))
        else {
            return Err(short);
        };
        Ok(Self {
            shape,
            offsets: cast("plan bytes", offsets)?,
            entries: cast("plan bytes", entries)?,
        })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A window's offsets, one more than there are buckets, and its entries. What a foreign buffer
    /// holds is not trusted: readers bound every offset and index.
    pub(crate) fn window(&self, window: usize) -> (&'a [u32], &'a [u32]) {
        let (n, stride) = (self.shape.len(), self.shape.num_buckets() + 1);
        let offsets = self.offsets.get(window * stride..(window + 1) * stride).unwrap_or(&[]);
        let entries = self.entries.get(window * n..(window + 1) * n).unwrap_or(&[]);
        let used = offsets.last().map_or(0, |end| (*end as usize).min(n));
        (offsets, entries.get(..used).unwrap_or(&[]))
    }
}

/// Scalars are recoded in chunks of this many; the longer ones of each chunk are kept together.
const CHUNK_LEN: usize = 1 << 12;

impl Shape {
    /// Bytes of a plan.
    pub fn plan_bytes(&self) -> usize {
        carved_bytes::<u32>(self.num_offsets()) + carved_bytes::<u32>(self.num_entries())
    }

    /// Bytes of workspace that `digits` needs on `threads` threads.
    pub fn digits_workspace_bytes(&self, threads: usize) -> usize {
        let n = self.len();
        carved_bytes::<[u64; 4]>(n)
            + 2 * carved_bytes::<u32>(n)
            + carved_bytes::<u32>(n.div_ceil(CHUNK_LEN))
            + carved_bytes::<u32>(
                self.num_windows() * self.num_groups(threads) * self.num_buckets(),
            )
    }

    /// In how many groups of chunks a window's scalars are sorted, at least `threads` tasks in all.
    fn num_groups(&self, threads: usize) -> usize {
        let wanted = (2 * threads).div_ceil(self.num_windows().max(1));
        wanted.clamp(1, self.len().div_ceil(CHUNK_LEN).max(1))
    }
}

/// Scalars made ready for sorting.
struct Recoded<'a> {
    shape: Shape,
    /// Digit of the lowest window of every scalar.
    low: &'a [i32],
    /// Of each chunk, the scalars with any other digit, packed to the chunk's front...
    long: &'a [[u64; 4]],
    /// ... their indices ...
    long_index: &'a [u32],
    /// ... and how many they are.
    long_len: &'a [u32],
}

impl Recoded<'_> {
    /// Calls `f(bucket, entry)` for each digit other than zero of a window, over chunks
    /// `first..last`.
    #[inline(always)]
    fn for_each(
        &self,
        window: usize,
        chunks: std::ops::Range<usize>,
        mut f: impl FnMut(usize, u32),
    ) {
        let mut emit = |digit: i32, index: u32| {
            if digit != 0 {
                let sign = if digit < 0 { NEGATIVE } else { 0 };
                f(digit.unsigned_abs() as usize - 1, index | sign);
            }
        };
        let n = self.low.len();
        for chunk in chunks {
            let start = chunk * CHUNK_LEN;
            if window == 0 {
                let end = (start + CHUNK_LEN).min(n);
                for (i, &digit) in self.low[start..end].iter().enumerate() {
                    emit(digit, (start + i) as u32);
                }
            } else {
                let end = start + self.long_len[chunk] as usize;
                let pairs = self.long[start..end].iter().zip(&self.long_index[start..end]);
                for (recoded, &index) in pairs {
                    let digit = booth_digit(recoded, window as u32, self.shape.window_bits());
                    let negative = recoded[3] & SIGN_LIMB_BIT != 0;
                    emit(if negative { -digit } else { digit }, index);
                }
            }
        }
    }
}

/// Sorts the digits of `scalars` (Montgomery form, below r) by bucket, window by window, into
/// `plan`. Buffers must be at least as long as `plan_bytes` and `digits_workspace_bytes` say, the
/// latter for rayon's current number of threads. Runs on the current rayon pool.
pub fn digits(
    shape: Shape,
    scalars: &[Fr],
    plan: &mut [u8],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    use rayon::prelude::*;
    expect_len("scalars", scalars.len(), shape.len())?;
    let (n, num_buckets) = (shape.len(), shape.num_buckets());
    let num_groups = shape.num_groups(rayon::current_num_threads());
    let num_chunks = n.div_ceil(CHUNK_LEN);

    let what = "workspace bytes";
    let mut workspace = workspace;
    let long: &mut [[u64; 4]] = carve(what, &mut workspace, n)?;
    let long_index: &mut [u32] = carve(what, &mut workspace, n)?;
    let low: &mut [i32] = carve(what, &mut workspace, n)?;
    let long_len: &mut [u32] = carve(what, &mut workspace, num_chunks)?;
    let counts: &mut [u32] =
        carve(what, &mut workspace, shape.num_windows() * num_groups * num_buckets)?;
    let mut plan = plan;
    let offsets: &mut [u32] = carve("plan bytes", &mut plan, shape.num_offsets())?;
    let entries: &mut [u32] = carve("plan bytes", &mut plan, shape.num_entries())?;
    if n == 0 {
        offsets.fill(0);
        return Ok(());
    }

    let chunks = scalars
        .par_chunks(CHUNK_LEN)
        .zip(low.par_chunks_mut(CHUNK_LEN))
        .zip(long.par_chunks_mut(CHUNK_LEN))
        .zip(long_index.par_chunks_mut(CHUNK_LEN))
        .zip(long_len.par_iter_mut())
        .enumerate();
    chunks.for_each(|(chunk, ((((scalars, low), long), long_index), long_len))| {
        let mut len = 0;
        for (i, scalar) in scalars.iter().enumerate() {
            if scalar.is_zero() {
                low[i] = 0;
                continue;
            }
            let recoded = recode(scalar);
            let digit = booth_digit(&recoded, 0, shape.window_bits());
            low[i] = if recoded[3] & SIGN_LIMB_BIT == 0 { digit } else { -digit };
            // A magnitude equal to its lowest digit has no other.
            let magnitude = [recoded[0], recoded[1], recoded[2], recoded[3] & !SIGN_LIMB_BIT];
            if digit < 0 || magnitude != [digit as u64, 0, 0, 0] {
                long[len] = recoded;
                long_index[len] = (chunk * CHUNK_LEN + i) as u32;
                len += 1;
            }
        }
        *long_len = len as u32;
    });
    let recoded = Recoded { shape, low, long, long_index, long_len };
    let chunks_of =
        |group: usize| num_chunks * group / num_groups..num_chunks * (group + 1) / num_groups;

    // Count, then turn counts into positions (bucket by bucket, group by group), then place.
    counts.par_chunks_mut(num_buckets).enumerate().for_each(|(task, counts)| {
        let (window, group) = (task / num_groups, task % num_groups);
        counts.fill(0);
        recoded.for_each(window, chunks_of(group), |bucket, _| counts[bucket] += 1);
    });
    counts
        .par_chunks_mut(num_groups * num_buckets)
        .zip(offsets.par_chunks_mut(num_buckets + 1))
        .for_each(|(counts, offsets)| {
            let mut position = 0;
            for bucket in 0..num_buckets {
                offsets[bucket] = position;
                for group in 0..num_groups {
                    let count = &mut counts[group * num_buckets + bucket];
                    (*count, position) = (position, position + *count);
                }
            }
            offsets[num_buckets] = position;
        });
    let scatter = Scatter::new(entries);
    counts.par_chunks_mut(num_buckets).enumerate().for_each(|(task, positions)| {
        let (window, group) = (task / num_groups, task % num_groups);
        recoded.for_each(window, chunks_of(group), |bucket, entry| {
            let position = &mut positions[bucket];
            // SAFETY: the counting pass saw the same digits in the same groups, so the ranges of
            // positions of all (window, group, bucket) are disjoint and each is used up once.
            #[allow(unsafe_code)]
            unsafe {
                scatter.write(window * n + *position as usize, entry);
            }
            *position += 1;
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    fn random_fr() -> Fr {
        let mut x = Fr(rand::thread_rng().r#gen());
        x.0[3] >>= 2;
        x
    }

    fn minus_one() -> Fr {
        Fr::ZERO.sub(&Fr::ONE)
    }

    /// Adds the plan up again: sum over windows and buckets of +-(b + 1) 2^(window_bits w).
    fn scalars_of(plan: &Plan<'_>) -> Vec<Fr> {
        let shape = plan.shape();
        let mut sums = vec![Fr::ZERO; shape.len()];
        let base = Fr::from_u64(1 << shape.window_bits());
        for window in 0..shape.num_windows() {
            let weight = base.pow(window as u64);
            let (offsets, entries) = plan.window(window);
            for bucket in 0..shape.num_buckets() {
                let term = weight.mul(&Fr::from_u64(bucket as u64 + 1));
                for entry in &entries[offsets[bucket] as usize..offsets[bucket + 1] as usize] {
                    let sum = &mut sums[(entry & !NEGATIVE) as usize];
                    *sum = if entry & NEGATIVE == 0 { sum.add(&term) } else { sum.sub(&term) };
                }
            }
        }
        sums
    }

    fn check(window_bits: u32, threads: usize, scalars: &[Fr]) -> usize {
        let shape = Shape::new(scalars.len(), window_bits).expect("shape");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        // Not zeros: neither buffer may be read before it is written.
        let mut plan = vec![0xa5a5_a5a5_a5a5_a5a5u64; shape.plan_bytes() / 8];
        let mut workspace = vec![!0u64; shape.digits_workspace_bytes(threads) / 8];
        pool.install(|| {
            digits(
                shape,
                scalars,
                bytemuck::cast_slice_mut(&mut plan),
                bytemuck::cast_slice_mut(&mut workspace),
            )
        })
        .expect("digits");
        let plan = Plan::from_bytes(shape, bytemuck::cast_slice(&plan)).expect("plan");
        assert!(scalars_of(&plan) == scalars, "window_bits {window_bits}, threads {threads}");
        (0..shape.num_windows()).map(|w| plan.window(w).1.len()).sum()
    }

    #[test]
    fn plans_add_up_to_the_scalars() {
        for window_bits in Shape::MIN_WINDOW_BITS..=16 {
            for n in [0, 1, 2, 33, 500] {
                let scalars: Vec<_> = (0..n).map(|_| random_fr()).collect();
                check(window_bits, 1 + n % 3, &scalars);
            }
        }
        let scalars: Vec<_> = (0..20_000).map(|_| random_fr()).collect();
        for threads in [1, 2, 40] {
            check(11, threads, &scalars);
        }
    }

    #[test]
    fn edges_of_the_digits_add_up() {
        for window_bits in Shape::MIN_WINDOW_BITS..=16 {
            let mut scalars = vec![Fr::ZERO, Fr::ONE, minus_one(), Fr(HALF).to_montgomery()];
            scalars.push(Fr(HALF).to_montgomery().add(&Fr::ONE));
            for exponent in 0..254 {
                let power = Fr::from_u64(2).pow(exponent);
                scalars.extend([power, power.sub(&Fr::ONE), power.add(&Fr::ONE)]);
                scalars.push(Fr::ZERO.sub(&power));
            }
            check(window_bits, 2, &scalars);
        }
    }

    #[test]
    fn small_magnitudes_have_one_entry_and_zeros_none() {
        assert_eq!(check(13, 2, &[Fr::ZERO; 5000]), 0);
        assert_eq!(check(13, 2, &[Fr::ONE; 5000]), 5000);
        assert_eq!(check(13, 2, &[minus_one(); 5000]), 5000);
        assert_eq!(check(13, 2, &[Fr::from_u64(4096); 7]), 14, "-4096 + 2^13");
        assert_eq!(check(13, 2, &[Fr::from_u64(4095); 7]), 7);
    }

    #[test]
    fn short_buffers_and_wrong_lengths_are_refused() {
        let shape = Shape::new(100, 8).expect("shape");
        let scalars = vec![Fr::ONE; 100];
        let mut plan = vec![0u64; shape.plan_bytes() / 8];
        let mut workspace = vec![0u64; shape.digits_workspace_bytes(64) / 8];
        let plan: &mut [u8] = bytemuck::cast_slice_mut(&mut plan);
        let workspace: &mut [u8] = bytemuck::cast_slice_mut(&mut workspace);
        assert!(digits(shape, &scalars[1..], plan, workspace).is_err());
        let short = plan.len() - 64;
        assert!(digits(shape, &scalars, &mut plan[..short], workspace).is_err());
        assert!(digits(shape, &scalars, plan, &mut workspace[..64]).is_err());
        assert!(digits(shape, &scalars, plan, workspace).is_ok());
        assert!(Plan::from_bytes(shape, &plan[..short]).is_err());
    }
}
