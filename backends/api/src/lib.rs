//! The contract between twinlock and its backends.
//!
//! A backend turns *checked operations* on *views* of device memory into work on *streams*. It
//! knows nothing of circuits, keys, files or schedulers. This page is what a caller may rely on
//! and what a new backend has to keep; [`mapping`] says how every call comes out on a stream-based
//! driver (CUDA) and on a queue-based one (wgpu). The suite in `backends/conformance` tests it.
//!
//! # Who validates
//! Shapes are checked once, here: an [`Op`] can only be made by its constructor, which checks
//! lengths, alignment, overlap and workspace sizes and answers [`Error::InvalidArgument`]. A
//! backend gets operations that are consistent in themselves and checks only what it alone
//! knows: that a region, stream or staging buffer is its own and alive, and that a view lies
//! within its region. It never panics, whatever it is given.
//!
//! # Memory
//! * [`Device::allocate`] and [`Device::free`] go to the driver. They may be slow and may
//!   synchronise; only an arena calls them, outside the steady state. After
//!   [`Backend::open`] nothing else allocates device memory: an operation that needs scratch has
//!   a size query (`*_layout`) and takes a workspace view of at least that size. The content of a
//!   workspace is undefined before and after.
//! * A [`Region`] is a handle, not an owner. Freed or foreign handles are `InvalidArgument`.
//!   Freeing a region that enqueued work still uses is the caller's error; a backend keeps the
//!   memory alive until that work ended.
//! * A [`View`] is a named range of a region: offset and length in bytes, both multiples of 4.
//!   Slicing is arithmetic and the same everywhere. Views of field elements and points start at
//!   multiples of 32 bytes ([`layout::ELEMENT_ALIGN_BYTES`]), fresh ones from an arena at multiples
//!   of 256 ([`layout::ARENA_ALIGN_BYTES`]).
//! * Regions come in two [`MemoryClass`]es, for some APIs track usage by whole buffer: `Resident`
//!   is written by uploads, `Fill`, `DecodePoints`, `FixedBase` and `BaseTables` and only read by
//!   `MsmAccumulate`, `Gather` and `Copy`; everything else lives in `Work`.
//! * Layout in device memory is canonical ([`layout`]): an upload or download is a plain copy.
//!   Digit plans, bucket accumulators and workspaces are opaque: their bytes belong to the backend.
//! * An accumulator whose bytes are all zero is empty.
//!
//! # Order and time
//! * `upload`, `download` and `enqueue` put work on a [`Stream`] and return. Work of one stream
//!   runs in order. Between streams there is no order but what [`Device::wait`] makes; progress
//!   never depends on two streams running at once.
//! * A view may be reused by later work of the same stream at once; by another stream after that
//!   stream waited for an [`Event`] recorded behind the last use; by the host (reads, frees) after
//!   [`Device::synchronize`] on such an event.
//! * A [`Staging`] buffer belongs to the copies that use it until they have run;
//!   [`Staging::host`] waits for that.
//! * Only `synchronize`, `Staging::host`, `allocate`, `free` and `allocate_staging` may wait on the
//!   device, the last inside a driver that knows no timeout: it is for the start. Every other wait
//!   takes a timeout, and dropping a staging buffer never waits: the device may hang.
//!
//! # Errors
//! Calls report what is known at once; what fails on the device surfaces at the next `query` or
//! `synchronize` of an event behind it. Failed work *poisons its stream*: what follows on it is
//! skipped, and every later event of it reports the first failure. The stream is then destroyed;
//! others go on, unless the kind is `DeviceLost`.
//!
//! | kind | meaning | what a caller does |
//! |---|---|---|
//! | `OutOfMemory` | the driver has no room now | plan smaller or wait, then retry |
//! | `ExceedsLimit` | can never fit this device | refuse the work, with the numbers |
//! | `DeviceLost` | every handle of the device is dead | drain, reopen, run elsewhere |
//! | `KernelFailed` | one operation went wrong; its outputs are undefined | retry once elsewhere |
//! | `Timeout` | a wait ended early; the work may still run | treat as lost if it repeats |
//! | `InvalidArgument` | the caller's mistake; nothing was enqueued | fix the caller |
//! | `Unsupported` | this backend lacks the operation or size | choose another device |

pub mod device;
pub mod error;
pub mod faults;
pub mod kernel_time;
pub mod layout;
pub mod memory;
pub mod op;
pub mod stream;
#[doc = include_str!("../MAPPING.md")]
pub mod mapping {}

pub use device::{Backend, Device, DeviceInfo, Discovered, MemoryInfo, OpenOptions};
pub use error::{Error, Result};
pub use faults::{Faults, FaultyBackend};
pub use kernel_time::KernelTime;
pub use layout::Group;
pub use memory::{FrView, IndexView, MemoryClass, PointView, Region, Staging, StagingKind, View};
pub use op::Op;
pub use stream::{Event, Stream};
