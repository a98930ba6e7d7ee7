//! Choices that the environment can override.

use twinlock_api::{Error, Result};

/// What overrides a device's own choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `TWINLOCK_CUDA_MEMORY_BYTES`: the most bytes of regions on a device.
    pub(crate) memory_bytes: Option<u64>,
    /// `TWINLOCK_CUDA_PLAIN_ALLOCATIONS`: `cuMemAlloc` instead of mapped memory, for tools that
    /// watch allocations.
    pub(crate) plain_allocations: bool,
    /// `TWINLOCK_CUDA_PROFILE`: whether kernels are timed.
    pub(crate) profile: bool,
}

const MEMORY: &str = "TWINLOCK_CUDA_MEMORY_BYTES";

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// `InvalidArgument` with the variable that makes no sense.
    pub(crate) fn from_env() -> Result<Self> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |text: String| {
            text.trim()
                .parse()
                .map_err(|_| Error::invalid(format!("{MEMORY}={text} is not a number of bytes")))
        };
        let is_on = |name| lookup(name).is_some_and(|text| text == "1");
        Ok(Self {
            memory_bytes: lookup(MEMORY).map(number).transpose()?,
            plain_allocations: is_on("TWINLOCK_CUDA_PLAIN_ALLOCATIONS"),
            profile: is_on("TWINLOCK_CUDA_PROFILE"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read() {
        let read = |pairs: &'static [(&str, &str)]| {
            Settings::from_lookup(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(read(&[]), Ok(Settings::default()));
        let all = read(&[
            (MEMORY, "4096"),
            ("TWINLOCK_CUDA_PLAIN_ALLOCATIONS", "1"),
            ("TWINLOCK_CUDA_PROFILE", "1"),
        ]);
        let expected =
            Settings { memory_bytes: Some(4096), plain_allocations: true, profile: true };
        assert_eq!(all, Ok(expected));
        let error = read(&[(MEMORY, "4 GiB")]).expect_err("nonsense").to_string();
        assert!(error.contains(MEMORY) && error.contains("4 GiB"), "{error}");
    }
}
