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

/// `a + b` without the carry out of the highest limb; `b` is as long as `a`.
pub(crate) fn add_assign(a: &mut [u32], b: &[u32]) {
    let mut carry = 0;
    for (a, b) in a.iter_mut().zip(b) {
        let sum = u64::from(*a) + u64::from(*b) + carry;
        *a = sum as u32;
        carry = sum >> 32;
    }
}

/// `a - b`, which is not negative; `b` is as long as `a`.
pub(crate) fn subtract(a: &mut [u32], b: &[u32]) {
    let mut borrow = 0;
    for (a, b) in a.iter_mut().zip(b) {
        let difference = u64::from(*a).wrapping_sub(u64::from(*b) + borrow);
        *a = difference as u32;
        borrow = difference >> 63;
    }
}

/// `2 a` without the bit that leaves the highest limb.
pub(crate) fn double(a: &mut [u32]) {
    let mut carry = 0;
    for a in a {
        (*a, carry) = (*a << 1 | carry, *a >> 31);
    }
}

/// `a / 2`, rounded down.
pub(crate) fn halve(a: &mut [u32]) {
    let mut carry = 0;
    for a in a.iter_mut().rev() {
        (*a, carry) = (*a >> 1 | carry << 31, *a & 1);
    }
}

/// `a < b`, of the same length.
pub(crate) fn is_less(a: &[u32], b: &[u32]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}
