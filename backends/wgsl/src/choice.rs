//! Which arithmetic a device's kernels have, and why.

use twinlock_shaders::Arithmetic;

use crate::measure::name;

/// Why a device has its arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A setting says so.
    Asked,
    /// Its shaders have no `u64`.
    NoInt64,
    /// It is a program, which is not measured.
    Software,
    /// It was the fastest at the device's first use.
    Measured,
}

/// An arithmetic, or `None` for one that is yet to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) arithmetic: Option<Arithmetic>,
    pub(crate) why: Why,
}

impl Choice {
    /// What follows from a setting and from what the device has; `remembered` from its first use.
    pub(crate) fn new(
        asked: Option<Arithmetic>,
        int64: bool,
        software: bool,
        remembered: impl FnOnce() -> Option<Arithmetic>,
    ) -> Self {
        let (arithmetic, why) = match asked {
            Some(_) => (asked, Why::Asked),
            None if !int64 => (Some(Arithmetic::Narrow), Why::NoInt64),
            None if software => (Some(Arithmetic::Wide), Why::Software),
            None => (remembered(), Why::Measured),
        };
        Self { arithmetic, why }
    }

    /// For people.
    pub(crate) fn words(self) -> String {
        let Some(arithmetic) = self.arithmetic else {
            return "arithmetic to be measured at first use".to_owned();
        };
        let why = match self.why {
            Why::Asked => "asked for",
            Why::NoInt64 => "no 64-bit integers",
            Why::Software => "software",
            Why::Measured => "measured",
        };
        format!("{} arithmetic ({why})", name(arithmetic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_says_why() {
        let said = |asked, int64, software, remembered| {
            Choice::new(asked, int64, software, || remembered).words()
        };
        let sparse = Some(Arithmetic::Sparse);
        assert_eq!(said(sparse, true, false, None), "sparse arithmetic (asked for)");
        assert_eq!(said(None, false, false, sparse), "narrow arithmetic (no 64-bit integers)");
        assert_eq!(said(None, true, true, sparse), "wide arithmetic (software)");
        assert_eq!(said(None, true, false, sparse), "sparse arithmetic (measured)");
        assert_eq!(said(None, true, false, None), "arithmetic to be measured at first use");
    }
}
