//! Settings of a prover.

use std::time::Duration;

use crate::groth16::prover::variant::Variant;
use crate::{Error, Result};

/// What a [`Prover`](crate::Prover) may use and how it works. The default suits one proof at a
/// time on the best device found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProverOptions {
    /// `auto`; a device's name as `twinlock devices` prints it; several, separated by commas; or
    /// `all` for every device but software that plays a GPU.
    pub device: String,
    /// Whether each proof is verified before it is returned.
    pub self_check: bool,
    /// The most device memory to take, in bytes; `None` for nine tenths of what is free.
    pub memory_bytes: Option<u64>,
    /// The same for devices of their own limits, by a device's name (`cuda:0`) or a backend's
    /// (`cuda`); the rest have [`memory_bytes`](Self::memory_bytes).
    pub device_memory_bytes: Vec<(String, u64)>,
    /// Partitions at work on each device at once: while one computes, others stage.
    pub workers: usize,
    /// The most bytes that assignments of synthesised partitions in work may take together on the
    /// host; one is always let through. `None` for half of what is available at first.
    pub host_memory_bytes: Option<u64>,
    /// Scalars of one digit plan at most; `None` for the default.
    pub msm_chunk: Option<usize>,
    /// Tables of multiples to keep at most of each query that stays on a device
    /// ([`Prover::load`](crate::Prover::load)): so many times the memory, faster MSMs, and a load
    /// that takes longer, also when they were put out for another key and come back. As many as leave
    /// room for all workers; 1 where the device has none, or with a shorter `msm_chunk`.
    pub base_tables: u32,
    /// A fixed MSM window width in bits; `None` for the device's choice.
    pub window_bits: Option<u32>,
    /// A fixed layout of device memory instead of the best that fits, for tests and measurements.
    pub variant: Option<Variant>,
    /// CPU threads of the CPU device; `None` for one a core. For copies, reading and checks the library
    /// has threads besides, as many as rayon's pools have by default (`RAYON_NUM_THREADS`).
    pub threads: Option<usize>,
    /// Size of a staging slot in bytes; `None` for the device's choice.
    pub staging_slot_bytes: Option<u64>,
    /// Number of staging slots.
    pub staging_slots: usize,
    /// How long to wait for a piece of a device's work. An attempt that waited in vain has failed; a
    /// device that cannot be settled after it counts as lost.
    pub timeout: Duration,
}

impl ProverOptions {
    /// What `device` may take of its memory, in bytes, if that is limited.
    pub(crate) fn memory_limit_bytes(&self, device: &str) -> Option<u64> {
        let backend = backend_of(device);
        let of = |wanted: &str| self.device_memory_bytes.iter().find(|(name, _)| name == wanted);
        of(device).or_else(|| of(backend)).map(|(_, bytes)| *bytes).or(self.memory_bytes)
    }

    /// The same for another device, for which the limits were not meant.
    pub(crate) fn without_memory_limits(&self) -> Self {
        Self { memory_bytes: None, device_memory_bytes: Vec::new(), ..self.clone() }
    }

    /// Fails for a memory limit that is none of these devices'.
    pub(crate) fn check_memory_names(&self, devices: &[String]) -> Result<()> {
        let is_of =
            |name: &str| devices.iter().any(|device| device == name || backend_of(device) == name);
        match self.device_memory_bytes.iter().find(|(name, _)| !is_of(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::Invalid {
                what: format!("memory of {name}"),
                problem: format!("the devices are {}", devices.join(", ")),
            }),
        }
    }
}

fn backend_of(device: &str) -> &str {
    device.split_once(':').map_or(device, |(backend, _)| backend)
}

impl Default for ProverOptions {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            self_check: true,
            memory_bytes: None,
            device_memory_bytes: Vec::new(),
            workers: 2,
            host_memory_bytes: None,
            msm_chunk: None,
            base_tables: 1,
            window_bits: None,
            variant: None,
            threads: None,
            staging_slot_bytes: None,
            staging_slots: 4,
            timeout: Duration::from_secs(3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_limit() {
        let options = ProverOptions {
            memory_bytes: Some(1),
            device_memory_bytes: vec![("cuda".into(), 2), ("cuda:1".into(), 3)],
            ..ProverOptions::default()
        };
        let limits = ["cuda:0", "cuda:1", "wgsl:0", "cpu"].map(|d| options.memory_limit_bytes(d));
        assert_eq!(limits, [Some(2), Some(3), Some(1), Some(1)]);
        let devices =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(options.check_memory_names(&devices(&["cuda:0", "cuda:1", "cpu"])).is_ok());
        let error = options.check_memory_names(&devices(&["cuda:0", "cpu"])).unwrap_err();
        assert!(error.to_string().contains("cuda:1"), "{error}");
    }
}
