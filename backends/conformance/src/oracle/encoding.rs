//! Fr in the canonical layout of device memory.

use std::sync::LazyLock;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;

const FR_BYTES: usize = 32;

/// R = 2^256 and its inverse, modulo r.
static R: LazyLock<(Scalar, Scalar)> = LazyLock::new(|| {
    let r = Scalar::from(2).pow_vartime([256]);
    (r, r.invert().unwrap_or(Scalar::ZERO))
});

/// Montgomery form, little-endian.
pub fn fr_to_bytes(value: &Scalar) -> [u8; FR_BYTES] {
    (value * R.0).to_bytes_le()
}

/// The element that `bytes` (32 of them) are the Montgomery form of; `None` unless below r.
pub fn fr_from_bytes(bytes: &[u8]) -> Option<Scalar> {
    let bytes: [u8; FR_BYTES] = bytes.try_into().ok()?;
    Option::from(Scalar::from_bytes_le(&bytes)).map(|value: Scalar| value * R.1)
}

/// Montgomery form as `u32` limbs, for the constants of `Vector`.
pub fn fr_words(value: &Scalar) -> [u32; 8] {
    let bytes = fr_to_bytes(value);
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*chunk);
    }
    words
}

/// A vector in canonical layout.
pub fn frs_to_bytes(values: &[Scalar]) -> Vec<u8> {
    values.par_iter().flat_map_iter(fr_to_bytes).collect()
}

/// The vector that `bytes` hold.
///
/// # Errors
/// Names the first element that is not below r.
pub fn frs_from_bytes(bytes: &[u8]) -> Result<Vec<Scalar>, String> {
    let read = |(index, chunk)| {
        fr_from_bytes(chunk).ok_or_else(|| format!("element {index} is not below r"))
    };
    bytes.chunks(FR_BYTES).enumerate().map(read).collect()
}

/// r, little-endian.
pub fn fr_modulus_bytes() -> [u8; FR_BYTES] {
    <Scalar as PrimeField>::Repr::from(Scalar::char())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn montgomery_form_of_one_is_r() {
        // 2^256 mod r, from the field's definition.
        let expected = [
            0xfe, 0xff, 0xff, 0xff, 0x01, 0x00, 0x00, 0x00, 0x02, 0x48, 0x03, 0x00, 0xfa, 0xb7,
            0x84, 0x58, 0xf5, 0x4f, 0xbc, 0xec, 0xef, 0x4f, 0x8c, 0x99, 0x6f, 0x05, 0xc5, 0xac,
            0x59, 0xb1, 0x24, 0x18,
        ];
        assert_eq!(fr_to_bytes(&Scalar::ONE), expected);
        assert_eq!(fr_to_bytes(&Scalar::ZERO), [0; 32]);
    }

    #[test]
    fn encoding_round_trips_and_refuses_r() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let values: Vec<_> = (0..9).map(|_| Scalar::random(&mut rng)).collect();
        assert_eq!(frs_from_bytes(&frs_to_bytes(&values)).unwrap(), values);
        assert!(fr_from_bytes(&fr_modulus_bytes()).is_none());
        assert!(fr_from_bytes(&[0xff; 32]).is_none());
    }
}
