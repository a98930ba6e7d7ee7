//! The traits a backend implements.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::kernel_time::KernelTime;
use crate::layout::Group;
use crate::memory::{MemoryClass, Region, Staging, StagingKind, View};
use crate::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout, Op};
use crate::stream::{Event, Stream};

/// What a device is. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The name that settings and results use: `cpu`, `cuda:0`, `wgsl:1`.
    pub name: String,
    /// The backend's name: `cpu`, `cuda`, `wgsl`, `sim`.
    pub backend: &'static str,
    /// The hardware, in the driver's words.
    pub model: String,
    /// Driver and version, or `none`, and what was chosen among a backend's kernels for the device.
    pub driver: String,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// The largest region that [`Device::allocate`] can give.
    pub max_region_bytes: u64,
    /// The largest domain, as its base-2 logarithm.
    pub max_lg_domain: u32,
}

/// What the driver reports now, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Memory that an allocation could get.
    pub free_bytes: u64,
    /// Memory of the device.
    pub total_bytes: u64,
    /// Memory held by this `Device`'s regions.
    pub regions_bytes: u64,
}

/// Settings that every backend understands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// CPU threads that the backend may use; `None` for one a core.
    pub threads: Option<usize>,
}

/// A device that was looked for, and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// The name to open it by, e.g. `cpu`, or the backend's name if it found none.
    pub name: String,
    /// What it is, or why it cannot be used: what was looked for and how to get it.
    pub usable: Result<DeviceInfo, String>,
}

/// A family of devices.
pub trait Backend: Send + Sync {
    /// Its name: `cpu`, `cuda`, `wgsl`, `sim`.
    fn name(&self) -> &'static str;

    /// Every device it can see, and what it looked for in vain. Never fails, never panics.
    fn discover(&self) -> Vec<Discovered>;

    /// Opens a device by its [`Discovered::name`], warm: kernels are loaded, on GPUs also what they need
    /// to run, so that the driver allocates nothing later.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, `Unsupported` with the reason for one that cannot
    /// be used, or what the driver answers.
    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>>;
}

/// One open device. See the crate's documentation for the contract. Dropping the last reference
/// waits for enqueued work and frees everything.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// What the driver reports now.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn memory(&self) -> Result<MemoryInfo>;

    /// Takes device memory from the driver. Its content is undefined.
    ///
    /// # Errors
    /// `OutOfMemory` (no room now), `ExceedsLimit` (never), `DeviceLost`.
    fn allocate(&self, name: &'static str, class: MemoryClass, size_bytes: u64) -> Result<Region>;

    /// Gives a region back to the driver.
    ///
    /// # Errors
    /// `InvalidArgument` for a handle that is not alive here.
    fn free(&self, region: Region) -> Result<()>;

    /// Makes a staging buffer, zeroed. Device memory is not touched.
    ///
    /// # Errors
    /// `OutOfMemory`, `ExceedsLimit`, `DeviceLost`.
    fn allocate_staging(
        &self,
        name: &'static str,
        kind: StagingKind,
        size_bytes: u64,
    ) -> Result<Box<dyn Staging>>;

    /// Scalars of a digit plan beyond which a longer one is no faster here. Plans take some 4 bytes for
    /// each digit of each scalar.
    fn good_plan_len(&self) -> u64 {
        1 << 20
    }

    /// The size in bytes of a staging buffer whose copy runs at the link's full speed.
    fn staging_slot_bytes(&self) -> u64 {
        1 << 20
    }

    /// What kernels ran since this was last asked (at first, since the device was opened), of work that the
    /// host has seen end. `None` where the backend was not told to time them, which costs a little, or
    /// missed one.
    fn kernel_time(&self) -> Option<KernelTime> {
        None
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn create_stream(&self, name: &'static str) -> Result<Stream>;

    /// Ends a stream; work enqueued on it still runs (unless the stream is poisoned).
    ///
    /// # Errors
    /// `InvalidArgument` for a handle that is not alive here.
    fn destroy_stream(&self, stream: Stream) -> Result<()>;

    /// Marks the work enqueued on `stream` so far.
    ///
    /// # Errors
    /// `InvalidArgument`, `DeviceLost`.
    fn record(&self, stream: Stream) -> Result<Event>;

    /// Makes later work of `stream` run after `event`, on the device; the host does not wait. An
    /// event that failed poisons `stream` too, for its inputs are undefined.
    ///
    /// # Errors
    /// `InvalidArgument`, `DeviceLost`.
    fn wait(&self, stream: Stream, event: &Event) -> Result<()>;

    /// Whether `event` is complete.
    ///
    /// # Errors
    /// The first failure of the work before it.
    fn query(&self, event: &Event) -> Result<bool>;

    /// Waits on the host until `event` is complete.
    ///
    /// # Errors
    /// The first failure of the work before it, or `Timeout`.
    fn synchronize(&self, event: &Event, timeout: Duration) -> Result<()>;

    /// Enqueues a copy from `source` (bytes from `source_offset_bytes`, a multiple of 4) over all
    /// of `target`.
    ///
    /// # Errors
    /// `InvalidArgument`, `DeviceLost`.
    fn upload(
        &self,
        stream: Stream,
        source: &mut dyn Staging,
        source_offset_bytes: u64,
        target: View,
    ) -> Result<()>;

    /// Enqueues a copy of all of `source` to `target` (bytes from `target_offset_bytes`, a
    /// multiple of 4).
    ///
    /// # Errors
    /// `InvalidArgument`, `DeviceLost`.
    fn download(
        &self,
        stream: Stream,
        source: View,
        target: &mut dyn Staging,
        target_offset_bytes: u64,
    ) -> Result<()>;

    /// Enqueues an operation.
    ///
    /// # Errors
    /// `InvalidArgument` (a view outside its region or of another device), `Unsupported`,
    /// `DeviceLost`.
    fn enqueue(&self, stream: Stream, op: &Op) -> Result<()>;

    /// The scratch an NTT over 2^`lg_domain` elements takes.
    ///
    /// # Errors
    /// `ExceedsLimit` past [`DeviceInfo::max_lg_domain`].
    fn ntt_layout(&self, lg_domain: u32) -> Result<NttLayout>;

    /// The window width that suits MSMs in `group`; `len` counts scalars of full size, not the bits
    /// beside them.
    fn window_bits(&self, group: Group, len: u64) -> u32;

    /// Sizes of a digit plan.
    ///
    /// # Errors
    /// `ExceedsLimit`, `Unsupported` (a window width outside the backend's range).
    fn digits_layout(&self, shape: DigitsShape) -> Result<DigitsLayout>;

    /// Sizes of an MSM over points of `group` whose digits come from plans of `shape`.
    ///
    /// # Errors
    /// As [`Device::digits_layout`].
    fn msm_layout(&self, group: Group, shape: DigitsShape) -> Result<MsmLayout>;
}

/// Checks a copy between a staging buffer and a view; for backends.
///
/// # Errors
/// `InvalidArgument` when the direction is wrong, the offset is misaligned or the range does not
/// lie within the buffer.
pub fn check_copy(
    staging_kind: StagingKind,
    wanted: StagingKind,
    staging_bytes: u64,
    offset_bytes: u64,
    view: View,
) -> Result<()> {
    if staging_kind != wanted {
        return Err(Error::invalid(format!(
            "{wanted:?} of {} with a staging buffer made for {staging_kind:?}",
            view.name()
        )));
    }
    let end = offset_bytes.checked_add(view.len_bytes());
    if !offset_bytes.is_multiple_of(4) || end.is_none_or(|end| end > staging_bytes) {
        return Err(Error::invalid(format!(
            "copy of {}: staging offset {offset_bytes} (a multiple of 4) and length {} in {} bytes",
            view.name(),
            view.len_bytes(),
            staging_bytes
        )));
    }
    Ok(())
}
