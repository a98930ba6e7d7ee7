//! What all devices share: memory, staging, and the order of work.

pub mod admission;
pub mod allocator;
pub mod arena;
pub mod staging;
