//! Proofs and their encoding.

use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::params::point::CurvePoint;
use crate::{Error, Result};

const G1_BYTES: usize = 48;
const G2_BYTES: usize = 96;

/// A Groth16 proof (<https://eprint.iacr.org/2016/260>). Serialises as a string of hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// A, which carries the variables' A polynomials.
    pub a: G1Affine,
    /// B, which carries their B polynomials.
    pub b: G2Affine,
    /// C, which carries the witness and the quotient.
    pub c: G1Affine,
}

impl Proof {
    /// Bytes of an encoded proof: A and C of 48 bytes, B of 96.
    pub const SIZE_BYTES: usize = 2 * G1_BYTES + G2_BYTES;

    /// A, B and C compressed as Zcash defines it, one after the other; what bellperson writes.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let mut bytes = [0; Self::SIZE_BYTES];
        let (a, rest) = bytes.split_at_mut(G1_BYTES);
        let (b, c) = rest.split_at_mut(G2_BYTES);
        a.copy_from_slice(&self.a.to_compressed());
        b.copy_from_slice(&self.b.to_compressed());
        c.copy_from_slice(&self.c.to_compressed());
        bytes
    }

    /// Decodes a proof. Accepts what bellperson accepts: points in their subgroups, none the
    /// identity. A proof has one encoding.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the element.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let found = bytes.len();
        let array: &[u8; Self::SIZE_BYTES] = bytes.try_into().map_err(|_| {
            malformed(format!("{} bytes expected, {found} found", Self::SIZE_BYTES))
        })?;
        let a = take(array, 0, "a")?;
        let b = take(array, G1_BYTES, "b")?;
        let c = take(array, G1_BYTES + G2_BYTES, "c")?;
        let decompress_g1 = |bytes, name| {
            Option::<G1Affine>::from(G1Affine::from_compressed_unchecked(bytes))
                .ok_or_else(|| malformed(format!("{name} is not a compressed point of G1")))
        };
        let proof = Self {
            a: decompress_g1(a, "a")?,
            b: Option::from(G2Affine::from_compressed_unchecked(b))
                .ok_or_else(|| malformed("b is not a compressed point of G2".to_owned()))?,
            c: decompress_g1(c, "c")?,
        };
        proof.validate()?;
        Ok(proof)
    }

    /// Decodes proofs that follow each other without anything between, as the proofs of a
    /// sector's partitions do.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the length is no multiple of [`SIZE_BYTES`](Self::SIZE_BYTES), or
    /// naming the proof and the element.
    pub fn many_from_bytes(bytes: &[u8]) -> Result<Vec<Self>> {
        let (proofs, rest) = bytes.as_chunks::<{ Self::SIZE_BYTES }>();
        if !rest.is_empty() {
            let problem = format!("{} bytes are no multiple of {}", bytes.len(), Self::SIZE_BYTES);
            return Err(malformed(problem));
        }
        proofs
            .iter()
            .enumerate()
            .map(|(i, proof)| {
                Self::from_bytes(proof).map_err(|error| match error {
                    Error::Malformed { problem, .. } => malformed(format!("number {i}: {problem}")),
                    other => other,
                })
            })
            .collect()
    }

    /// [`to_bytes`](Self::to_bytes) in lower-case hexadecimal.
    pub fn to_hex(&self) -> String {
        hex::encode(self.to_bytes())
    }

    /// [`from_bytes`](Self::from_bytes) of hexadecimal in either case.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn from_hex(text: &str) -> Result<Self> {
        Self::from_bytes(&hex::decode(text).map_err(|e| malformed(e.to_string()))?)
    }

    /// Checks that the points are on their curves, in their subgroups and not the identity.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the element.
    pub fn validate(&self) -> Result<()> {
        let named = |name, fault| malformed(format!("{name}: {fault}"));
        self.a.validate(false).map_err(|fault| named("a", fault))?;
        self.b.validate(false).map_err(|fault| named("b", fault))?;
        self.c.validate(false).map_err(|fault| named("c", fault))
    }
}

fn malformed(problem: String) -> Error {
    Error::Malformed { what: "proof", problem }
}

/// The encoded element at `start`.
fn take<'a, const N: usize>(
    bytes: &'a [u8; Proof::SIZE_BYTES],
    start: usize,
    name: &str,
) -> Result<&'a [u8; N]> {
    bytes
        .get(start..)
        .and_then(|rest| rest.first_chunk())
        .ok_or_else(|| malformed(format!("{name} is cut")))
}

impl Serialize for Proof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Proof {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).map_err(serde::de::Error::custom)
    }
}

impl Default for Proof {
    /// Three identities, to be filled; not a proof of anything.
    fn default() -> Self {
        Self { a: G1Affine::identity(), b: G2Affine::identity(), c: G1Affine::identity() }
    }
}
