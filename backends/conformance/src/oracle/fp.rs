//! Integers modulo p, only as far as layouts need them.

/// Limbs of Fp, least significant first.
pub(super) type Limbs = [u64; 6];

/// p, the modulus of Fp.
const P: Limbs = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

fn below_p(limbs: &Limbs) -> bool {
    limbs.iter().rev().lt(P.iter().rev())
}

/// 2 * `limbs` modulo p, for `limbs` below p (which has three bits to spare).
fn double(limbs: &Limbs) -> Limbs {
    let mut doubled = *limbs;
    let mut carry = 0;
    for limb in &mut doubled {
        (*limb, carry) = (*limb << 1 | carry, *limb >> 63);
    }
    if below_p(&doubled) {
        return doubled;
    }
    let mut borrow = false;
    for (limb, p) in doubled.iter_mut().zip(P) {
        let (difference, first) = limb.overflowing_sub(p);
        let (difference, second) = difference.overflowing_sub(borrow.into());
        (*limb, borrow) = (difference, first || second);
    }
    doubled
}

/// The Montgomery form (times 2^384) of a big-endian integer; `None` unless below p.
pub(super) fn montgomery_from_be(bytes: &[u8; 48]) -> Option<Limbs> {
    let mut limbs = [0; 6];
    for (limb, chunk) in limbs.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_be_bytes(*chunk);
    }
    below_p(&limbs).then(|| (0..384).fold(limbs, |limbs, _| double(&limbs)))
}

/// Limbs as device memory holds them; `None` unless below p.
pub(super) fn from_bytes(bytes: &[u8; 48]) -> Option<Limbs> {
    let mut limbs = [0; 6];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*chunk);
    }
    below_p(&limbs).then_some(limbs)
}

/// p as a big-endian integer.
pub fn fp_modulus_be() -> [u8; 48] {
    let mut bytes = [0; 48];
    for (chunk, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(P.iter().rev()) {
        *chunk = limb.to_be_bytes();
    }
    bytes
}
