//! Multi-scalar multiplication over G1 and G2, in steps that share work.
//!
//! 1. [`digits`] sorts the scalars' digits by bucket: a plan that several MSMs can use.
//! 2. [`accumulate`] adds each base to its buckets; it may be called again for more chunks.
//! 3. [`reduce`] sums each window's buckets by weight, and [`combine`] the windows.

mod accumulate;
mod batch;
mod digits;
mod reduce;
mod shape;

pub use accumulate::{BaseMap, accumulate, accumulate_workspace_bytes};
pub use digits::{Plan, digits};
pub use reduce::{combine, reduce, reduce_workspace_bytes};
pub use shape::Shape;
