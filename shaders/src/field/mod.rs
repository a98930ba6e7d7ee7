//! Field arithmetic in WGSL.
