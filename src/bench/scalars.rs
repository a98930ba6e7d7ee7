//! Scalars like those of real witnesses.

use std::str::FromStr;

use blstrs::Scalar;
use ff::Field;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;

use crate::Error;
use crate::circuits::mix::Profile;

/// What a vector of scalars is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// Uniform below r.
    Random,
    /// 0 or 1, as likely.
    Bits,
    /// As in a Filecoin PoRep partition: 51% zero, 47% one, 2% of full size.
    PoRep,
}

impl Scalars {
    const ALL: [Self; 3] = [Self::Random, Self::Bits, Self::PoRep];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Bits => "bits",
            Self::PoRep => "porep",
        }
    }

    /// The profile of `mix` whose witness is the most like it.
    pub fn profile(self) -> Profile {
        match self {
            Self::Random => Profile::Even,
            Self::Bits | Self::PoRep => Profile::Bits,
        }
    }

    /// `len` scalars; the same ones for the same seed.
    pub fn sample(self, len: usize, seed: u64) -> Vec<Scalar> {
        const BLOCK: usize = 1 << 12;
        let mut scalars = vec![Scalar::ZERO; len];
        scalars.par_chunks_mut(BLOCK).enumerate().for_each(|(block, scalars)| {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            rng.set_stream(block as u64);
            for scalar in scalars {
                *scalar = self.draw(&mut rng);
            }
        });
        scalars
    }

    fn draw(self, rng: &mut ChaCha20Rng) -> Scalar {
        match self {
            Self::Random => Scalar::random(rng),
            Self::Bits => Scalar::from(u64::from(rng.r#gen::<bool>())),
            Self::PoRep => match rng.gen_range(0..100) {
                0..51 => Scalar::ZERO,
                51..98 => Scalar::ONE,
                _ => Scalar::random(rng),
            },
        }
    }
}

impl FromStr for Scalars {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|scalars| scalars.name() == name).ok_or_else(|| Error::Unknown {
            kind: "scalars",
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_named() {
        let count = |scalars: &[Scalar], value| scalars.iter().filter(|s| **s == value).count();
        let len = 100_000;
        let porep = Scalars::PoRep.sample(len, 1);
        // Five standard deviations are some 800.
        assert!(count(&porep, Scalar::ZERO).abs_diff(51_000) < 800);
        assert!(count(&porep, Scalar::ONE).abs_diff(47_000) < 800);
        let bits = Scalars::Bits.sample(len, 1);
        assert_eq!(count(&bits, Scalar::ZERO) + count(&bits, Scalar::ONE), len);
        let random = Scalars::Random.sample(len, 1);
        assert_eq!(count(&random, Scalar::ZERO) + count(&random, Scalar::ONE), 0);
        assert_eq!(random, Scalars::Random.sample(len, 1));
        assert_ne!(random, Scalars::Random.sample(len, 2));
    }
}
