//! Constants of BLS12-381's fields as little-endian 32-bit limbs: one source for every kernel
//! language.
//!
//! Everything is computed from the moduli by slow exact arithmetic ([`Field::add`],
//! [`Field::mul`]) at the time a kernel is written, so any limb width and any Montgomery radix can
//! be had. Values are *standard* integers below the modulus unless a name says Montgomery; the
//! Montgomery form here is that of device memory, R = 2^(32 * limbs).

mod curve;
mod limbs;

pub use curve::{FR_COSET_GENERATOR, G1_B, G2_B};
pub use limbs::{join_limbs, split_limbs};

/// A prime field. Values are `limbs` 32-bit limbs, least significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// `fr` or `fp`, the prefix of its functions in kernels.
    pub name: &'static str,
    /// 32-bit limbs of a value in memory.
    pub limbs: usize,
    /// Bits of the modulus.
    pub bits: u32,
    /// The modulus.
    pub modulus: &'static [u32],
    /// 2^`two_adicity` is the largest power of two that divides the modulus less one.
    pub two_adicity: u32,
    /// A generator of the multiplicative group.
    pub generator: u32,
}

/// The scalar field: its modulus r is the order of the groups.
pub const FR: Field = Field {
    name: "fr",
    limbs: 8,
    bits: 255,
    modulus: &[
        0x0000_0001,
        0xffff_ffff,
        0xfffe_5bfe,
        0x53bd_a402,
        0x09a1_d805,
        0x3339_d808,
        0x299d_7d48,
        0x73ed_a753,
    ],
    two_adicity: 32,
    generator: 7,
};

/// The base field.
pub const FP: Field = Field {
    name: "fp",
    limbs: 12,
    bits: 381,
    modulus: &[
        0xffff_aaab,
        0xb9fe_ffff,
        0xb153_ffff,
        0x1eab_fffe,
        0xf6b0_f624,
        0x6730_d2a0,
        0xf385_12bf,
        0x6477_4b84,
        0x434b_acd7,
        0x4b1b_a7b6,
        0x397f_e69a,
        0x1a01_11ea,
    ],
    two_adicity: 1,
    generator: 2,
};

impl Field {
    /// Bits of the Montgomery radix in memory: R = 2^this.
    pub const fn radix_bits(&self) -> u32 {
        32 * self.limbs as u32
    }

    /// Bytes of a value in memory.
    pub const fn size_bytes(&self) -> usize {
        4 * self.limbs
    }

    /// A small value.
    pub fn small(&self, value: u32) -> Vec<u32> {
        let mut out = vec![0; self.limbs];
        out[0] = value;
        out
    }

    /// The modulus as limbs of `width` bits, at most 32; as many as `count`.
    pub fn modulus_limbs(&self, width: u32, count: usize) -> Vec<u32> {
        split_limbs(self.modulus, width, count)
    }

    /// `-1 / modulus mod 2^width` for a `width` of at most 32 bits: the factor of a Montgomery
    /// reduction by limbs of that width.
    pub fn reduction_factor(&self, width: u32) -> u32 {
        // Newton's iteration doubles the bits that are right; an odd number is its own inverse
        // modulo 8.
        let p = self.modulus[0];
        let mut inverse = p;
        for _ in 0..4 {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(p.wrapping_mul(inverse)));
        }
        let mask = if width >= 32 { u32::MAX } else { (1 << width) - 1 };
        inverse.wrapping_neg() & mask
    }

    /// `a + b`; both have the field's number of limbs.
    pub fn add(&self, a: &[u32], b: &[u32]) -> Vec<u32> {
        let mut sum = a.to_vec();
        self.add_assign(&mut sum, b);
        sum
    }

    fn add_assign(&self, a: &mut [u32], b: &[u32]) {
        limbs::add_assign(a, b);
        self.reduce(a);
    }

    fn double(&self, a: &mut [u32]) {
        limbs::double(a);
        self.reduce(a);
    }

    /// What is below twice the modulus, which fits the limbs of both fields.
    fn reduce(&self, a: &mut [u32]) {
        if !limbs::is_less(a, self.modulus) {
            limbs::subtract(a, self.modulus);
        }
    }

    /// `-a`.
    pub fn neg(&self, a: &[u32]) -> Vec<u32> {
        if a.iter().all(|limb| *limb == 0) {
            return a.to_vec();
        }
        let mut out = self.modulus.to_vec();
        limbs::subtract(&mut out, a);
        out
    }

    /// `a * b`, by doubling and adding.
    pub fn mul(&self, a: &[u32], b: &[u32]) -> Vec<u32> {
        let mut out = vec![0; self.limbs];
        for bit in limbs::bits(b) {
            self.double(&mut out);
            if bit {
                self.add_assign(&mut out, a);
            }
        }
        out
    }

    /// `a^exponent`.
    pub fn pow(&self, a: &[u32], exponent: &[u32]) -> Vec<u32> {
        let mut out = self.small(1);
        for bit in limbs::bits(exponent) {
            out = self.mul(&out, &out);
            if bit {
                out = self.mul(&out, a);
            }
        }
        out
    }

    /// `1 / a`; of zero, zero.
    pub fn invert(&self, a: &[u32]) -> Vec<u32> {
        let exponent = self.neg(&self.small(2));
        self.pow(a, &exponent)
    }

    /// `2^k`, for `k` of either sign.
    pub fn power_of_two(&self, k: i32) -> Vec<u32> {
        let mut out = self.small(1);
        for _ in 0..k.unsigned_abs() {
            if k > 0 { self.double(&mut out) } else { self.halve(&mut out) }
        }
        out
    }

    fn halve(&self, a: &mut [u32]) {
        if a[0] & 1 == 1 {
            limbs::add_assign(a, self.modulus);
        }
        limbs::halve(a);
    }

    /// `a R`: the form in memory.
    pub fn to_montgomery(&self, a: &[u32]) -> Vec<u32> {
        let mut out = a.to_vec();
        (0..self.radix_bits()).for_each(|_| self.double(&mut out));
        out
    }

    /// `a / R`.
    pub fn from_montgomery(&self, a: &[u32]) -> Vec<u32> {
        let mut out = a.to_vec();
        (0..self.radix_bits()).for_each(|_| self.halve(&mut out));
        out
    }

    /// R, which is 1 in Montgomery form.
    pub fn one_montgomery(&self) -> Vec<u32> {
        self.power_of_two(self.radix_bits() as i32)
    }

    /// R^2: a Montgomery product with it takes a standard value to Montgomery form.
    pub fn r_squared(&self) -> Vec<u32> {
        self.power_of_two(2 * self.radix_bits() as i32)
    }

    /// A primitive root of unity of order 2^`lg`, standard form: `generator^((p - 1) / 2^lg)`.
    /// `None` past [`Field::two_adicity`]. Each is the square of the next.
    pub fn root_of_unity(&self, lg: u32) -> Option<Vec<u32>> {
        let squarings = self.two_adicity.checked_sub(lg)?;
        let mut exponent = self.neg(&self.small(1));
        for _ in 0..self.two_adicity {
            limbs::halve(&mut exponent);
        }
        let root = self.pow(&self.small(self.generator), &exponent);
        Some((0..squarings).fold(root, |root, _| self.mul(&root, &root)))
    }
}

#[cfg(test)]
mod tests;
