//! What a device can answer instead of success.

/// Shorthand for a result of a backend.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A backend's failure. The table in the crate's documentation says what a caller does about each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The driver has no room for the request now.
    #[error(
        "out of device memory: {what} needs {}{}", needs_note(*requested_bytes), free_note(*free_bytes)
    )]
    OutOfMemory {
        /// Name of the allocation.
        what: String,
        /// Bytes asked for; 0 where the driver wants them for itself and does not say how many.
        requested_bytes: u64,
        /// Bytes the driver reports as free, where it can.
        free_bytes: Option<u64>,
    },
    /// The request can never fit this device.
    #[error("{what}: {requested} exceeds the device's limit of {limit}")]
    ExceedsLimit {
        /// What was asked for, with its unit.
        what: String,
        /// The amount asked for.
        requested: u64,
        /// The most this device allows.
        limit: u64,
    },
    /// The device is gone, or in a state from which only reopening it helps.
    #[error("device lost: {reason}")]
    DeviceLost {
        /// The driver's words.
        reason: String,
    },
    /// One operation failed on the device.
    #[error("kernel {name} failed: {reason}")]
    KernelFailed {
        /// The operation's name.
        name: &'static str,
        /// The driver's words.
        reason: String,
    },
    /// A wait ended before the work did.
    #[error("{what} not done after {timeout_ms} ms")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long, in milliseconds.
        timeout_ms: u64,
    },
    /// The caller broke the contract; nothing was enqueued.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The backend lacks this operation or size.
    #[error("unsupported: {0}")]
    Unsupported(String),
}

impl Error {
    /// An [`Error::InvalidArgument`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidArgument(what.into())
    }
}

/// `ExceedsLimit` if `requested` is more than `limit`.
///
/// # Errors
/// That, with both numbers.
pub fn check_limit(what: &str, requested: u64, limit: u64) -> Result<()> {
    if requested <= limit {
        return Ok(());
    }
    Err(Error::ExceedsLimit { what: what.to_owned(), requested, limit })
}

/// A number that kernels take as a word.
///
/// # Errors
/// `ExceedsLimit` past 32 bits.
pub fn word(what: &str, value: u64) -> Result<u32> {
    check_limit(what, value, u32::MAX.into()).map(|()| value as u32)
}

fn needs_note(requested_bytes: u64) -> String {
    match requested_bytes {
        0 => "memory of the driver's own, which does not say how much".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

fn free_note(free_bytes: Option<u64>) -> String {
    free_bytes.map_or_else(String::new, |bytes| format!(", {bytes} are free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_told_in_numbers_that_are_known() {
        let text = |requested_bytes, free_bytes| {
            Error::OutOfMemory { what: "buckets".to_owned(), requested_bytes, free_bytes }
                .to_string()
        };
        assert_eq!(text(7, None), "out of device memory: buckets needs 7 bytes");
        assert_eq!(text(7, Some(5)), "out of device memory: buckets needs 7 bytes, 5 are free");
        let unknown = text(0, Some(5));
        assert!(!unknown.contains("0 bytes") && unknown.contains("does not say"), "{unknown}");
        assert!(unknown.ends_with(", 5 are free"), "{unknown}");
    }
}
