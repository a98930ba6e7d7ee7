//! The WGSL backend: any GPU that wgpu reaches through Vulkan, Metal or DX12.
//!
//! All streams of a device share its one queue. Every operation becomes command buffers, which get
//! tickets (`timeline`) in the order in which they are enqueued; a thread submits them, a few
//! submissions at a time, and waits for them, so that no enqueueing call waits for the device.
//!
//! | variable | meaning |
//! |---|---|
//! | `TWINLOCK_WGSL_ARITHMETIC` | `wide` or `sparse` (64-bit products) or `narrow` (13-bit limbs), instead of the device's choice |
//! | `TWINLOCK_WGSL_MEMORY_BYTES` | the most bytes of a device that are used: regions, and what opening it took where that can be measured |
//! | `TWINLOCK_WGSL_PROFILE` | `1` times each kernel on the device: logged when that is closed, and `prove` says for how much of the time kernels ran |
//! | `TWINLOCK_WGSL_EAGER` | `1` compiles and launches every kernel at open on software devices too |

mod adapters;
mod backend;
mod budget;
mod cache_file;
mod choice;
mod chunks;
mod device;
mod faults;
mod gpu;
#[cfg(not(target_vendor = "apple"))]
mod host_memory;
mod launcher;
mod measure;
mod memory;
mod open;
mod ops;
mod params;
mod pipelines;
mod profile;
mod settings;
mod split;
mod staging;
mod steps;
#[cfg(test)]
mod testing;
mod timeline;
mod worker;

pub use adapters::is_software;
pub use backend::WgslBackend;
#[doc(hidden)]
pub use steps::Steps;
pub use twinlock_shaders::Arithmetic;
