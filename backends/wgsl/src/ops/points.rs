//! Dispatches of the `points` operations.
