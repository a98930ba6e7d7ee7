//! What all devices share: memory, staging, and the order of work.

pub mod admission;
pub mod allocator;
pub mod arena;
pub mod core;
pub mod events;
pub mod locks;
pub mod occupancy;
pub mod plan;
pub mod runtime;
pub mod staging;
pub mod timeline;
