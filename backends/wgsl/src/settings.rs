//! Choices that the environment can override.

use twinlock_api::{Error, Result};
use twinlock_shaders::Arithmetic;

use crate::steps::Steps;

/// What overrides a device's own choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// `TWINLOCK_WGSL_ARITHMETIC`: `wide`, `sparse` or `narrow`.
    pub arithmetic: Option<Arithmetic>,
    /// `TWINLOCK_WGSL_MEMORY_BYTES`: the most bytes of a device that are used: regions, and what
    /// opening it took where that can be measured.
    pub memory_bytes: Option<u64>,
    /// `TWINLOCK_WGSL_PROFILE`: whether kernels are timed.
    pub profile: bool,
    /// The most bytes of a region's buffer, and of what of it is bound at once.
    pub buffer_bytes: Option<u64>,
    /// See [`Settings::buffer_bytes`].
    pub binding_bytes: Option<u64>,
    /// How much one dispatch does.
    pub steps: Steps,
    /// `TWINLOCK_WGSL_EAGER`: whether software devices, too, compile and launch every kernel at open.
    pub eager: bool,
    /// Whether what only some APIs have goes unused: immediates, host memory of our own.
    pub portable: bool,
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
        const MEMORY: &str = "TWINLOCK_WGSL_MEMORY_BYTES";
        let arithmetic = match lookup(ARITHMETIC).as_deref() {
            None | Some("") => None,
            Some("wide") => Some(Arithmetic::Wide),
            Some("sparse") => Some(Arithmetic::Sparse),
            Some("narrow") => Some(Arithmetic::Narrow),
            Some(text) => {
                let message = format!("{ARITHMETIC}={text} is not wide, sparse or narrow");
                return Err(Error::invalid(message));
            }
        };
        let number = |text: String| {
            text.trim()
                .parse()
                .map_err(|_| Error::invalid(format!("{MEMORY}={text} is not a number of bytes")))
        };
        Ok(Self {
            arithmetic,
            memory_bytes: lookup(MEMORY).map(number).transpose()?,
            buffer_bytes: None,
            binding_bytes: None,
            steps: Steps::default(),
            profile: lookup("TWINLOCK_WGSL_PROFILE").is_some_and(|text| text == "1"),
            eager: lookup("TWINLOCK_WGSL_EAGER").is_some_and(|text| text == "1"),
            portable: false,
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
            ("TWINLOCK_WGSL_MEMORY_BYTES", "4096"),
            ("TWINLOCK_WGSL_PROFILE", "1"),
            ("TWINLOCK_WGSL_EAGER", "1"),
        ]);
        let expected = Settings {
            arithmetic: Some(Arithmetic::Narrow),
            memory_bytes: Some(4096),
            profile: true,
            eager: true,
            ..Settings::default()
        };
        assert_eq!(all.expect("all set"), expected);
        for (name, value) in
            [("TWINLOCK_WGSL_ARITHMETIC", "u64"), ("TWINLOCK_WGSL_MEMORY_BYTES", "4 GiB")]
        {
            let error = read(&[(name, value)]).expect_err("nonsense").to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
