//! What a kernel refuses.

/// Why a kernel did not run; nothing has been written that a caller may rely on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A slice does not have the length that the others call for.
    Length {
        /// Which slice.
        what: &'static str,
        /// Its length, in elements unless the name says bytes.
        got: usize,
        /// The least length that would do.
        expected: usize,
    },
    /// A number lies outside the range that the kernel accepts.
    Range {
        /// Which number.
        what: &'static str,
        /// Its value.
        got: u64,
        /// The smallest accepted.
        least: u64,
        /// The largest accepted.
        most: u64,
    },
    /// A buffer does not start on a multiple of 8 bytes, or its length is no multiple of the
    /// element's size.
    Layout {
        /// Which buffer.
        what: &'static str,
    },
}

impl std::fmt::Display for KernelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length { what, got, expected } => {
                write!(f, "{what}: length {got}, but {expected} needed")
            }
            Self::Range { what, got, least, most } => {
                write!(f, "{what}: {got} is outside {least}..={most}")
            }
            Self::Layout { what } => {
                write!(f, "{what}: not aligned to 8 bytes or not whole elements")
            }
        }
    }
}

impl std::error::Error for KernelError {}

/// Fails unless `got` is `expected`.
pub(crate) fn expect_len(
    what: &'static str,
    got: usize,
    expected: usize,
) -> Result<(), KernelError> {
    if got == expected { Ok(()) } else { Err(KernelError::Length { what, got, expected }) }
}

/// Fails unless `got` lies within `least..=most`.
pub(crate) fn expect_range(
    what: &'static str,
    got: u64,
    least: u64,
    most: u64,
) -> Result<(), KernelError> {
    if (least..=most).contains(&got) {
        Ok(())
    } else {
        Err(KernelError::Range { what, got, least, most })
    }
}
