//! A device with what its workers share: memories, staging and readback buffers.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twinlock_api::layout::{ARENA_ALIGN_BYTES, INDEX_BYTES};
use twinlock_api::{Device, Error as DeviceError, MemoryClass, OpenOptions, View};

use super::partition::StageError;
use super::plan::{POOLS, Plan};
use crate::config::ProverOptions;
use crate::registry;
use crate::scheduler::admission::PoolSpec;
use crate::scheduler::arena::{Arena, Lease};
use crate::scheduler::locks::{DeviceWait, outside_mem};
use crate::scheduler::staging::{Readback, StagingPool};
use crate::{Error, Result};

/// Window sums and status words of one proof are some tens of KiB.
const READBACK_BYTES: u64 = 256 << 10;
const DECODE_STATUS: &str = "decode_status";
/// For so long nobody asks a driver again for what it did not have.
const REFUSAL_HOLDS: Duration = Duration::from_secs(60);

/// Opens a device, again after it was lost.
pub type Opener = Arc<dyn Fn() -> Result<Arc<dyn Device>> + Send + Sync>;

/// The memories that partitions are placed in, one a class.
pub(super) struct Pools {
    work: Lease,
    resident: Lease,
}

impl Pools {
    pub fn view(&self, class: MemoryClass) -> View {
        match class {
            MemoryClass::Work => self.work.view(),
            MemoryClass::Resident => self.resident.view(),
        }
    }

    /// Sizes in bytes, in the order of [`POOLS`].
    fn sizes(&self) -> [u64; 2] {
        POOLS.map(|class| self.view(class).len_bytes())
    }
}

/// A device's place among the prover's; the device in it may be replaced.
pub(super) struct DeviceSlot {
    pub name: String,
    opener: Option<Opener>,
    open: Mutex<Option<Arc<OpenDevice>>>,
}

impl fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What is guarded is replaced whole, so a panic elsewhere in the thread leaves it good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceSlot {
    pub fn new(
        device: Arc<dyn Device>,
        opener: Option<Opener>,
        options: &ProverOptions,
    ) -> Result<Self> {
        let name = device.info().name.clone();
        let open = OpenDevice::new(device, options).map_err(|error| named(&name, error))?;
        Ok(Self { name, opener, open: Mutex::new(Some(Arc::new(open))) })
    }

    /// The device as it is open now.
    ///
    /// # Errors
    /// `DeviceLost` while it is not.
    pub fn current(&self) -> Result<Arc<OpenDevice>> {
        let reason = "it was lost and not opened again";
        lock(&self.open)
            .clone()
            .ok_or_else(|| named(&self.name, DeviceError::DeviceLost { reason: reason.into() }))
    }

    /// Destroys the lost device, opens it anew and has it compute something known. Nobody uses the
    /// old one.
    ///
    /// # Errors
    /// What stood in the way; then it stays lost.
    pub fn reopen(&self, options: &ProverOptions) -> Result<()> {
        outside_mem("opening a device again");
        // First, for its memory may be what the new one needs.
        *lock(&self.open) = None;
        let reason = "no way to open it again is known";
        let opener = (self.opener.as_ref())
            .ok_or_else(|| named(&self.name, DeviceError::DeviceLost { reason: reason.into() }))?;
        let device = opener()?;
        super::canary::probe(&*device, options.timeout)
            .and_then(|()| OpenDevice::new(device, options))
            .map(|open| *lock(&self.open) = Some(Arc::new(open)))
            .map_err(|error| named(&self.name, error))
    }

    /// Puts the CPU in the place of a device that cannot be opened again.
    ///
    /// # Errors
    /// What stood in the way.
    pub fn replace_by_cpu(&self, options: &ProverOptions) -> Result<()> {
        let device = registry::open("cpu", &OpenOptions { threads: options.threads })?;
        // The limit was meant for the other device.
        let options = options.without_memory_limits();
        let open = OpenDevice::new(device, &options).map_err(|error| named("cpu", error))?;
        *lock(&self.open) = Some(Arc::new(open));
        Ok(())
    }

    pub fn named(&self, error: StageError) -> Error {
        error.on(&self.name)
    }
}

fn named(device: &str, source: DeviceError) -> Error {
    Error::Device { device: device.into(), source }
}

/// What the driver has. Some give back first what their work has left.
fn free_bytes(device: &dyn Device) -> Result<u64, DeviceError> {
    outside_mem("asking a device for its memory");
    Ok(device.memory()?.free_bytes)
}

/// What the driver did not have.
#[derive(Clone, Copy)]
struct Refusal {
    asked_bytes: u64,
    /// What to ask for instead.
    less_bytes: u64,
    at: Instant,
}

/// A device and its share of the work.
pub(super) struct OpenDevice {
    pub device: Arc<dyn Device>,
    arena: Arena,
    pub staging: Arc<StagingPool>,
    pools: Mutex<Option<Arc<Pools>>>,
    readbacks: Mutex<Vec<Readback>>,
    /// Where decoding tells of malformed points of resident queries; one query at a time.
    decode_status: Mutex<Option<Lease>>,
    refused: Mutex<Option<Refusal>>,
    stuck: AtomicBool,
}

impl OpenDevice {
    fn new(device: Arc<dyn Device>, options: &ProverOptions) -> Result<Self, DeviceError> {
        let free = free_bytes(&*device)?;
        let limit = options.memory_limit_bytes(&device.info().name);
        let budget = limit.unwrap_or(free / 10 * 9);
        let staging = StagingPool::new(
            &*device,
            options.staging_slots,
            options.staging_slot_bytes.unwrap_or_else(|| device.staging_slot_bytes()),
            options.timeout,
        )?;
        // One for each worker: later the driver may wait for the device before it gives another.
        let readbacks = (0..options.workers.max(1))
            .map(|_| Readback::new(&*device, READBACK_BYTES, options.timeout))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            arena: Arena::new(device.clone(), budget),
            device,
            staging: Arc::new(staging),
            pools: Mutex::default(),
            readbacks: Mutex::new(readbacks),
            decode_status: Mutex::default(),
            refused: Mutex::default(),
            stuck: AtomicBool::new(false),
        })
    }

    pub fn pools(&self) -> Option<Arc<Pools>> {
        lock(&self.pools).clone()
    }

    /// Sizes of the memories in bytes, in the order of [`POOLS`].
    pub fn sizes(&self) -> [u64; 2] {
        self.pools().map_or([0, 0], |pools| pools.sizes())
    }

    /// Bytes that the memories may take together, where queries are to stay (`stays`) or not; less
    /// for a while when the driver had not what was asked for.
    pub fn budget_bytes(&self, stays: bool) -> u64 {
        // One unit is for the outcome of decoding them.
        let decodes = stays || self.arena.usage().by_name.contains_key(DECODE_STATUS);
        let status_bytes = if decodes { ARENA_ALIGN_BYTES } else { 0 };
        let budget = self.arena.budget_bytes().saturating_sub(status_bytes);
        let mut refused = lock(&self.refused);
        let Some(refusal) = refused.as_mut() else { return budget };
        if refusal.at.elapsed() >= REFUSAL_HOLDS {
            let free_bytes = free_bytes(&*self.device).unwrap_or(0);
            let there = free_bytes.saturating_add(self.sizes().iter().sum());
            if there >= refusal.asked_bytes {
                *refused = None;
                return budget;
            }
            refusal.at = Instant::now();
        }
        budget.min(refusal.less_bytes)
    }

    /// Asks the driver again for what it had not; whether there is anything to ask again.
    pub fn forget_refusal(&self) -> bool {
        lock(&self.refused).take().is_some()
    }

    /// The sizes of memories for so many partitions of this plan at once, or what the budget has:
    /// one partition and a part of the next, which stages as the first one's memory goes back. At
    /// least what there is, unless the budget asks for that to go.
    pub fn wanted_sizes(&self, plan: &Plan, partitions: usize) -> [u64; 2] {
        let (one, kept) = (plan.peaks_bytes(), plan.resident_bytes());
        let budget = self.budget_bytes(kept > 0);
        let with_kept = |[work, bases]: [u64; 2]| [work, bases.saturating_add(kept)];
        let least = with_kept(one);
        let spare = budget.saturating_sub(least.iter().sum());
        let all = one.iter().sum::<u64>().max(1);
        let wanted = with_kept(one.map(|size| {
            let rest = size.saturating_mul(partitions.saturating_sub(1) as u64);
            // Each memory has its share of what is there.
            let share = u128::from(spare) * u128::from(size) / u128::from(all);
            size.saturating_add(rest.min(share as u64 / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES))
        }));
        let here = self.sizes();
        let both = [wanted[0].max(here[0]), wanted[1].max(here[1])];
        match both.iter().sum::<u64>() <= budget {
            true => both,
            false if least[0] <= here[0] && least[1] <= here[1] => here,
            false => wanted,
        }
    }

    /// Makes the memories of these sizes, or at the least those of one partition of `plan`. Nobody
    /// uses the old.
    ///
    /// # Errors
    /// What the driver answers; then there are none.
    pub fn make_pools(
        &self,
        sizes: [u64; 2],
        plan: &Plan,
        _wait: &mut DeviceWait<'_>,
    ) -> Result<(), DeviceError> {
        let mut pools = lock(&self.pools);
        *pools = None;
        self.arena.trim()?;
        let [work, bases] = plan.peaks_bytes();
        let least = [work, bases.saturating_add(plan.resident_bytes())];
        let mut refusal = Ok(());
        // The driver may have less than it said.
        for sizes in [sizes, least] {
            match self.reserve_pools(sizes) {
                Ok(made) => {
                    *pools = Some(Arc::new(made));
                    return Ok(());
                }
                Err(error @ DeviceError::OutOfMemory { .. }) => {
                    self.note_refusal(sizes.iter().sum())?;
                    refusal = Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        refusal
    }

    fn reserve_pools(&self, [work, resident]: [u64; 2]) -> Result<Pools, DeviceError> {
        use MemoryClass::{Resident, Work};
        self.arena.reserve_all(&[(Work, work), (Resident, resident)])?;
        Ok(Pools {
            work: self.arena.lease("partitions", Work, work)?,
            resident: self.arena.lease("bases", Resident, resident)?,
        })
    }

    /// Plans smaller for a while: the driver had not so many bytes.
    fn note_refusal(&self, bytes: u64) -> Result<(), DeviceError> {
        self.arena.trim()?;
        let free = free_bytes(&*self.device)?;
        let share = free / 10 * 9;
        // What it says it has may be in pieces.
        let less = if share < bytes { share } else { bytes - bytes / 8 };
        let refusal = Refusal { asked_bytes: bytes, less_bytes: less, at: Instant::now() };
        *lock(&self.refused) = Some(refusal);
        Ok(())
    }

    /// The memories as the device's admission takes them.
    pub fn pool_specs(&self) -> Vec<PoolSpec> {
        let spec = |capacity_bytes| PoolSpec { capacity_bytes, align_bytes: ARENA_ALIGN_BYTES };
        self.sizes().map(spec).to_vec()
    }

    /// Runs `work` with a readback buffer, of which there is one for each that asks at once.
    pub fn with_readback<R>(
        &self,
        options: &ProverOptions,
        work: impl FnOnce(&mut Readback) -> Result<R, StageError>,
    ) -> Result<R, StageError> {
        let idle = lock(&self.readbacks).pop();
        let mut readback = match idle {
            Some(readback) => readback,
            None => Readback::new(&*self.device, READBACK_BYTES, options.timeout)?,
        };
        let done = work(&mut readback);
        let wiped = readback.wipe();
        // After a failure the buffer is dropped: its copies may still fail.
        let done = done?;
        wiped?;
        lock(&self.readbacks).push(readback);
        Ok(done)
    }

    /// Runs `work` with a word of device memory for the outcome of decoding; one caller at a time.
    pub fn with_decode_status<R>(
        &self,
        work: impl FnOnce(View) -> Result<R, StageError>,
    ) -> Result<R, StageError> {
        let mut status = lock(&self.decode_status);
        let lease = match status.take() {
            Some(lease) => lease,
            None => {
                self.arena.reserve(MemoryClass::Work, INDEX_BYTES)?;
                self.arena.lease(DECODE_STATUS, MemoryClass::Work, INDEX_BYTES)?
            }
        };
        let view = lease.view();
        *status = Some(lease);
        work(view)
    }

    /// Nobody gets the memories again: work that ran past its time may still use them, or secrets
    /// are in them that cannot be wiped.
    pub fn retire(&self) {
        tracing::error!(device = %self.device.info().name, "the device's memory is retired");
        self.stuck.store(true, Ordering::Release);
        // Never dropped, so never given back to the driver either.
        std::mem::forget(self.pools());
    }

    /// Whether [`retire`](Self::retire) was called.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }
}
