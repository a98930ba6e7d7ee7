//! What a simulated card is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use twinlock_api::{Device, Op};

use crate::cost::{DriverCosts, KernelRates};
use crate::engine::EngineOrder;
use crate::faults::FaultPlan;
use crate::mem_guard::OnViolation;

/// Bytes per second between host and device, one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyRate {
    /// From or to staging buffers as [`Device::allocate_staging`] makes them.
    pub pinned: f64,
    /// From or to pageable memory.
    pub pageable: f64,
    /// Time that each copy takes beside its bytes.
    pub latency: Duration,
}

impl Default for CopyRate {
    /// As measured on an H200 host (upload); the latency is assumed.
    fn default() -> Self {
        Self { pinned: 55.3e9, pageable: 6.3e9, latency: Duration::from_micros(5) }
    }
}

impl CopyRate {
    pub(crate) fn cost(&self, bytes: u64, is_pageable: bool) -> Duration {
        let rate = if is_pageable { self.pageable } else { self.pinned };
        let time = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX);
        self.latency.saturating_add(time)
    }
}

/// Who does the arithmetic.
#[derive(Clone, Default)]
pub enum Arithmetic {
    /// Nobody: work takes time and nothing else, downloads bring what the buffer held. Sizes of
    /// workspaces are those of a typical GPU backend.
    #[default]
    None,
    /// Nobody, but sizes of workspaces and windows are this device's.
    SizesOf(Arc<dyn Device>),
    /// This device, at the time of enqueueing, on regions of its own of the same sizes.
    Of(Arc<dyn Device>),
}

impl Arithmetic {
    pub(crate) fn device(&self) -> Option<&Arc<dyn Device>> {
        match self {
            Self::Of(device) => Some(device),
            Self::None | Self::SizesOf(_) => None,
        }
    }

    pub(crate) fn sizes(&self) -> Option<&dyn Device> {
        match self {
            Self::None => None,
            Self::SizesOf(device) | Self::Of(device) => Some(device.as_ref()),
        }
    }
}

impl fmt::Debug for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::SizesOf(device) => write!(f, "SizesOf({})", device.info().name),
            Self::Of(device) => write!(f, "Of({})", device.info().name),
        }
    }
}

/// A kernel's time.
#[derive(Clone)]
pub struct KernelCost(Arc<dyn Fn(&Op) -> Duration + Send + Sync>);

impl KernelCost {
    /// The time that `cost` answers.
    pub fn new(cost: impl Fn(&Op) -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(cost))
    }

    /// The time of `op`.
    pub fn of(&self, op: &Op) -> Duration {
        (self.0)(op)
    }
}

impl From<KernelRates> for KernelCost {
    fn from(rates: KernelRates) -> Self {
        Self::new(move |op| rates.cost(op))
    }
}

impl fmt::Debug for KernelCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KernelCost")
    }
}

/// A simulated card.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// The device's name, e.g. `sim:0`.
    pub name: String,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Device memory that an open device holds before any region (assumed: 512 MiB).
    pub context_bytes: u64,
    /// The largest staging buffer.
    pub max_staging_bytes: u64,
    /// Host to device.
    pub upload: CopyRate,
    /// Device to host.
    pub download: CopyRate,
    /// In which order the compute engine runs the work of several streams.
    pub compute_order: EngineOrder,
    /// The same of both copy engines.
    pub copy_order: EngineOrder,
    /// What kernels take.
    pub kernel_cost: KernelCost,
    /// What calls to the driver take.
    pub driver_costs: DriverCosts,
    /// Whether giving memory of the pool back to the driver waits for the whole device, as seen
    /// on real cards, where unmapping does.
    pub trim_synchronizes: bool,
    /// Who does the arithmetic.
    pub arithmetic: Arithmetic,
    /// What goes wrong.
    pub faults: FaultPlan,
    /// What waiting or allocating under [`crate::enter_mem`] leads to.
    pub on_violation: OnViolation,
    /// Whether spans are kept; off for long runs that only look at the end.
    pub keeps_spans: bool,
}

impl SimConfig {
    /// A card of `memory_bytes` bytes with an H200's rates, no arithmetic and no faults.
    pub fn new(name: impl Into<String>, memory_bytes: u64) -> Self {
        Self {
            name: name.into(),
            memory_bytes,
            context_bytes: 512 << 20,
            max_staging_bytes: 64 << 30,
            upload: CopyRate::default(),
            download: CopyRate::default(),
            compute_order: EngineOrder::default(),
            copy_order: EngineOrder::default(),
            kernel_cost: KernelRates::default().into(),
            driver_costs: DriverCosts::default(),
            trim_synchronizes: true,
            arithmetic: Arithmetic::None,
            faults: FaultPlan::none(),
            on_violation: OnViolation::Record,
            keeps_spans: true,
        }
    }
}
