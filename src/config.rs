//! Settings of a prover.

use std::time::Duration;

use crate::groth16::prover::variant::Variant;

/// What a [`Prover`](crate::Prover) may use and how it works. The default suits one proof at a
/// time on the best device found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProverOptions {
    /// `auto`, or a device's name as `twinlock devices` prints it.
    pub device: String,
    /// Whether each proof is verified before it is returned.
    pub self_check: bool,
    /// The most device memory to take, in bytes; `None` for nine tenths of what is free.
    pub memory_bytes: Option<u64>,
    /// Partitions at work on each device at once: while one computes, others stage.
    pub workers: usize,
    /// The most bytes that assignments of synthesised partitions in work may take together on the
    /// host; one is always let through. `None` for half of what is available at first.
    pub host_memory_bytes: Option<u64>,
    /// Scalars of one digit plan at most; `None` for the default.
    pub msm_chunk: Option<usize>,
    /// A fixed MSM window width in bits; `None` for the device's choice.
    pub window_bits: Option<u32>,
    /// A fixed layout of device memory instead of the best that fits, for tests and measurements.
    pub variant: Option<Variant>,
    /// CPU threads of the CPU device; `None` for one a core.
    pub threads: Option<usize>,
    /// Size of a staging slot in bytes; `None` for the device's choice.
    pub staging_slot_bytes: Option<u64>,
    /// Number of staging slots.
    pub staging_slots: usize,
    /// How long to wait for a piece of a device's work. An attempt that waited in vain has failed; a
    /// device that cannot be settled after it counts as lost.
    pub timeout: Duration,
}

impl Default for ProverOptions {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            self_check: true,
            memory_bytes: None,
            workers: 2,
            host_memory_bytes: None,
            msm_chunk: None,
            window_bits: None,
            variant: None,
            threads: None,
            staging_slot_bytes: None,
            staging_slots: 4,
            timeout: Duration::from_secs(3600),
        }
    }
}
