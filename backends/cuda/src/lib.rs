//! twinlock's backend for NVIDIA GPUs.
//!
//! The driver is loaded when somebody looks for devices; nothing else has to be installed. Each
//! device has a context of its own, current only during a call; its kernels are loaded when it is
//! opened. An operation becomes launches on its stream (`ops`), and only the calls which the
//! contract names wait: by looking at events, never in the driver.
//!
//! | variable | meaning |
//! |---|---|
//! | `TWINLOCK_CUDA_MEMORY_BYTES` | the most bytes of regions on a device |
//! | `TWINLOCK_CUDA_PROFILE` | `1` times each kernel, fill and copy on the device: logged when that is closed, and `prove` says for how much of the time they ran |
//! | `TWINLOCK_CUDA_PLAIN_ALLOCATIONS` | `1` takes memory by `cuMemAlloc`, for compute-sanitizer |

mod backend;
mod card;
mod context;
mod device;
mod discover;
mod driver;
mod events;
mod fatbin;
mod faults;
mod gpu;
mod launcher;
mod memory;
mod modules;
mod open;
mod ops;
mod profile;
mod settings;
mod staging;
mod streams;
mod tables;

pub use backend::CudaBackend;
#[doc(hidden)]
pub use faults::Faults;
