//! What the environment asks for.

use std::hash::{DefaultHasher, Hash, Hasher};

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How the suite runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where all random inputs come from; `TWINLOCK_SEED` replays a run.
    pub seed: u64,
    /// Base-2 logarithm of the largest sizes tried; `TWINLOCK_MAX_LG` asks for more.
    pub max_lg: u32,
    /// The widest windows of MSMs tried; a [`super::Candidate`] says for its devices.
    pub max_window_bits: u32,
    /// Backends or devices whose absence is a failure: `TWINLOCK_REQUIRE`, a comma list.
    pub require: Vec<String>,
}

impl Default for Settings {
    /// A fresh seed and sizes for two cores.
    fn default() -> Self {
        let seed = rand::rngs::OsRng.next_u64();
        Self { seed, max_lg: 14, max_window_bits: 16, require: Vec::new() }
    }
}

impl Settings {
    /// Reads `TWINLOCK_SEED`, `TWINLOCK_MAX_LG` and `TWINLOCK_REQUIRE`.
    ///
    /// # Errors
    /// Names the variable that is no number.
    pub fn from_env() -> Result<Self, String> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = Self::default();
        let number = |name: &str| {
            let parse = |text: String| {
                text.trim().parse::<u64>().map_err(|_| format!("{name}={text} is not a number"))
            };
            lookup(name).map(parse).transpose()
        };
        if let Some(seed) = number("TWINLOCK_SEED")? {
            settings.seed = seed;
        }
        if let Some(max_lg) = number("TWINLOCK_MAX_LG")? {
            settings.max_lg = u32::try_from(max_lg)
                .ok()
                .filter(|lg| *lg <= 32)
                .ok_or_else(|| format!("TWINLOCK_MAX_LG={max_lg} is past 32"))?;
        }
        let require = lookup("TWINLOCK_REQUIRE").unwrap_or_default();
        settings.require = require
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect();
        Ok(settings)
    }

    /// The generator for the trial of this name, the same whichever other trials run.
    pub fn rng(&self, trial: &str) -> ChaCha8Rng {
        let mut hasher = DefaultHasher::new();
        (self.seed, trial).hash(&mut hasher);
        ChaCha8Rng::seed_from_u64(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read() {
        let settings = Settings::from_lookup(|name| match name {
            "TWINLOCK_SEED" => Some("7".into()),
            "TWINLOCK_REQUIRE" => Some("cpu, wgsl,".into()),
            _ => None,
        });
        let require = vec!["cpu".into(), "wgsl".into()];
        let expected = Settings { seed: 7, require, ..Settings::default() };
        assert_eq!(settings.unwrap(), expected);
        assert!(Settings::from_lookup(|_| Some("x".into())).is_err());
        assert!(Settings::from_lookup(|_| Some("33".into())).is_err());
    }

    #[test]
    fn trials_have_their_own_numbers() {
        let settings = Settings { seed: 7, ..Settings::default() };
        let first = |name| settings.rng(name).next_u64();
        assert_eq!(first("a"), first("a"));
        assert_ne!(first("a"), first("b"));
    }
}
