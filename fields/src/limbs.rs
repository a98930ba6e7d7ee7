//! Integers as little-endian limbs.

/// The value of 32-bit `limbs` as `count` limbs of `width` bits, at most 32; bits past them are
/// dropped.
pub fn split_limbs(limbs: &[u32], width: u32, count: usize) -> Vec<u32> {
    let mut out = vec![0u32; count];
    for (i, out) in out.iter_mut().enumerate() {
        let start = i * width as usize;
        let word = |at: usize| u64::from(limbs.get(at).copied().unwrap_or(0));
        let pair = word(start / 32) | word(start / 32 + 1) << 32;
        *out = (pair >> (start % 32) & ((1 << width) - 1)) as u32;
    }
    out
}

/// The value of limbs of `width` bits, at most 32 and each below 2^`width`, as `count` 32-bit limbs.
pub fn join_limbs(limbs: &[u32], width: u32, count: usize) -> Vec<u32> {
    let mut out = vec![0u32; count];
    for (i, limb) in limbs.iter().enumerate() {
        let start = i * width as usize;
        let shifted = u64::from(*limb) << (start % 32);
        for (part, at) in [shifted as u32, (shifted >> 32) as u32].into_iter().zip(start / 32..) {
            if let Some(out) = out.get_mut(at) {
                *out |= part;
            }
        }
    }
    out
}

/// The bits, from the highest limb's top.
pub(crate) fn bits(limbs: &[u32]) -> impl Iterator<Item = bool> {
    limbs.iter().rev().flat_map(|limb| (0..32).rev().map(move |bit| limb >> bit & 1 == 1))
}

/// The sum, one limb longer than `a`; `b` is no longer than `a`.
pub(crate) fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(a.len() + 1);
    let mut carry = 0;
    for (i, limb) in a.iter().enumerate() {
        let sum = u64::from(*limb) + u64::from(b.get(i).copied().unwrap_or(0)) + carry;
        out.push(sum as u32);
        carry = sum >> 32;
    }
    out.push(carry as u32);
    out
}

/// `a - b` if that is not negative, else `a`; `b` is no longer than `a`.
pub(crate) fn subtract_if_fits(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for (i, limb) in a.iter().enumerate() {
        let taken = u64::from(b.get(i).copied().unwrap_or(0)) + borrow;
        let difference = u64::from(*limb).wrapping_sub(taken);
        out.push(difference as u32);
        borrow = difference >> 63;
    }
    if borrow == 0 { out } else { a.to_vec() }
}
