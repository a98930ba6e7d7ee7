//! Whether the host has room, asked before the work that needs it.

use twinlock_cpu::system_memory_bytes;

use crate::{Error, Result};

/// Half of the bytes that the host has available now; no limit where the system does not tell.
pub(crate) fn half_of_available_bytes() -> u64 {
    system_memory_bytes().map_or(u64::MAX, |(available_bytes, _)| available_bytes / 2)
}

/// Refuses what takes more bytes than the host has available now, where the system tells.
///
/// # Errors
/// [`Error::Limit`] with both numbers.
pub(crate) fn require(what: impl Into<String>, needed_bytes: u64) -> Result<()> {
    let available = system_memory_bytes().map(|(available_bytes, _)| available_bytes);
    within(what.into(), needed_bytes, available.unwrap_or(u64::MAX))
}

/// [`require`] against `limit_bytes`, if there is a limit.
///
/// # Errors
/// As there.
pub fn require_within(
    what: impl Into<String>,
    needed_bytes: u64,
    limit_bytes: Option<u64>,
) -> Result<()> {
    match limit_bytes {
        Some(limit_bytes) => within(what.into(), needed_bytes, limit_bytes),
        None => require(what, needed_bytes),
    }
}

/// Refuses `needed_bytes` above `available_bytes`.
pub(crate) fn within(what: String, needed_bytes: u64, available_bytes: u64) -> Result<()> {
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    Err(Error::Limit { what, value: needed_bytes, limit: available_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        assert!(within("x".into(), 7, 7).is_ok());
        let error = within("bytes of x".into(), 8, 7).unwrap_err().to_string();
        assert_eq!(error, "bytes of x: 8 exceeds the limit of 7");
        assert!(require("x", 1).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells() {
        assert!(require("x", u64::MAX).is_err());
    }
}
