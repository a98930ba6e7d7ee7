//! Dispatches of the `ntt` operations.
