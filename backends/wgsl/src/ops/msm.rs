//! Dispatches of the `msm` operations.
