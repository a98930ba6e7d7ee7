//! Choices that the environment can override.

use twinlock_api::{Error, Result};
use twinlock_shaders::{Arithmetic, Style};

/// What overrides a device's own choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// `TWINLOCK_WGSL_ARITHMETIC`: `wide` or `narrow`.
    pub arithmetic: Option<Arithmetic>,
    /// `TWINLOCK_WGSL_STYLE`: `unrolled` or `compact`.
    pub style: Option<Style>,
    /// `TWINLOCK_WGSL_MEMORY_BYTES`: the most bytes of regions on a device.
    pub memory_bytes: Option<u64>,
    /// Whether parameters lie in uniforms even where there are immediates.
    pub uniforms: bool,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// `InvalidArgument` with the variable that makes no sense.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        const ARITHMETIC: &str = "TWINLOCK_WGSL_ARITHMETIC";
        const STYLE: &str = "TWINLOCK_WGSL_STYLE";
        const MEMORY: &str = "TWINLOCK_WGSL_MEMORY_BYTES";
        let one_of = |name: &str, a: &str, b: &str| match lookup(name) {
            None => Ok(None),
            Some(text) if text.is_empty() => Ok(None),
            Some(text) if text == a => Ok(Some(true)),
            Some(text) if text == b => Ok(Some(false)),
            Some(text) => Err(Error::invalid(format!("{name}={text} is neither {a} nor {b}"))),
        };
        let wide = one_of(ARITHMETIC, "wide", "narrow")?;
        let unrolled = one_of(STYLE, "unrolled", "compact")?;
        let number = |text: String| {
            text.trim()
                .parse()
                .map_err(|_| Error::invalid(format!("{MEMORY}={text} is not a number of bytes")))
        };
        Ok(Self {
            arithmetic: wide.map(|wide| if wide { Arithmetic::Wide } else { Arithmetic::Narrow }),
            style: unrolled.map(|yes| if yes { Style::Unrolled } else { Style::Compact }),
            memory_bytes: lookup(MEMORY).map(number).transpose()?,
            uniforms: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_lookup(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_is_read() {
        assert_eq!(read(&[]).expect("nothing set"), Settings::default());
        let all = read(&[
            ("TWINLOCK_WGSL_ARITHMETIC", "narrow"),
            ("TWINLOCK_WGSL_STYLE", "unrolled"),
            ("TWINLOCK_WGSL_MEMORY_BYTES", "4096"),
        ]);
        let expected = Settings {
            arithmetic: Some(Arithmetic::Narrow),
            style: Some(Style::Unrolled),
            memory_bytes: Some(4096),
            uniforms: false,
        };
        assert_eq!(all.expect("all set"), expected);
        for (name, value) in [
            ("TWINLOCK_WGSL_ARITHMETIC", "u64"),
            ("TWINLOCK_WGSL_STYLE", "Compact"),
            ("TWINLOCK_WGSL_MEMORY_BYTES", "4 GiB"),
        ] {
            let error = read(&[(name, value)]).expect_err("nonsense").to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
