//! Dispatches of the `digits` operations.
