//! Dispatches of the `element` operations.
