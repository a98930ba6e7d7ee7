//! An open `wgpu` device with what belongs to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use twinlock_api::{DeviceInfo, Error, Result};
use twinlock_shaders::Arithmetic;

use crate::chunks::Chunks;
use crate::faults::Faults;
use crate::params::ParamPool;
use crate::pipelines::Pipelines;
use crate::profile::Profile;
use crate::steps::Steps;
use crate::timeline::Timeline;

/// Shared by the device, its staging buffers and its thread.
pub(crate) struct Gpu {
    pub(crate) info: DeviceInfo,
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    /// Device memory that opening took, for wgpu and the driver themselves, where it can be measured.
    pub(crate) overhead_bytes: u64,
    /// How regions are cut.
    pub(crate) chunks: Chunks,
    /// How much one dispatch does.
    pub(crate) steps: Steps,
    /// Whether what only some APIs have goes unused.
    #[cfg(not(target_vendor = "apple"))]
    pub(crate) portable: bool,
    /// Bytes of parameters that a dispatch can have as immediates; more lie in a uniform.
    pub(crate) immediate_bytes: u32,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) params: ParamPool,
    pub(crate) pipelines: Pipelines,
    /// Where kernels are timed.
    pub(crate) profile: Option<Profile>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) polling: Mutex<()>,
}

impl Gpu {
    /// Looks at the device; whether what was waited for is done. One thread at a time: a wait that
    /// ends early panics in wgpu when another thread has meanwhile seen the work end.
    pub(crate) fn poll(&self, poll: wgpu::PollType) -> Result<bool> {
        let _alone = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
        self.poll_alone(poll)
    }

    /// Looks at the device, unless another thread does: that sees the same.
    pub(crate) fn glance(&self) -> Result<()> {
        let _alone = match self.polling.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        self.poll_alone(wgpu::PollType::Poll).map(drop)
    }

    fn poll_alone(&self, poll: wgpu::PollType) -> Result<bool> {
        // wgpu panics when a device is lost in here.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(status)) => Ok(status.wait_finished()),
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error @ wgpu::PollError::WrongSubmissionIndex(..))) => {
                self.timeline.lose(&error.to_string());
                Err(Error::DeviceLost { reason: error.to_string() })
            }
            Err(_) => {
                let reason = "the driver failed while it was waited for";
                self.timeline.lose(reason);
                Err(Error::DeviceLost { reason: reason.to_owned() })
            }
        }
    }
}

/// Error scopes of all kinds around calls of this thread.
pub(crate) struct Scopes(Vec<wgpu::ErrorScopeGuard>);

impl Scopes {
    pub(crate) fn push(device: &wgpu::Device) -> Self {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let filters = [Validation, Internal, OutOfMemory];
        Self(filters.map(|filter| device.push_error_scope(filter)).into())
    }

    /// The gravest error since `push`.
    pub(crate) fn pop(mut self) -> Option<wgpu::Error> {
        self.pop_all()
    }

    /// The last pushed goes first, and is the gravest.
    fn pop_all(&mut self) -> Option<wgpu::Error> {
        let mut first = None;
        while let Some(scope) = self.0.pop() {
            first = first.or(pollster::block_on(scope.pop()));
        }
        first
    }
}

impl Drop for Scopes {
    fn drop(&mut self) {
        self.pop_all();
    }
}

/// An error's text on one line.
pub(crate) fn words(error: &wgpu::Error) -> String {
    let text = match error {
        wgpu::Error::OutOfMemory { .. } => "out of memory".to_owned(),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            description.clone()
        }
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
