//! A device with what its workers share: memories, staging, and the queries kept there.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Device, Error as DeviceError, MemoryClass, View};

use super::bases::ResidentQueries;
use super::lane::Lane;
use super::layout::{LayoutOptions, ProofLayout};
use super::partition::StageError;
use super::shape::ProofShape;
use crate::config::ProverOptions;
use crate::groth16::params::ParameterSource;
use crate::scheduler::admission::PoolSpec;
use crate::scheduler::arena::{Arena, Lease};
use crate::scheduler::locks::DeviceWait;
use crate::scheduler::staging::{Readback, StagingPool};
use crate::{Error, Result};

/// Scalars of one digit plan, unless the options or a small device say otherwise.
const DEFAULT_CHUNK: usize = 1 << 20;
/// A streamed query is cut into about this many chunks, so that its buffers stay small beside it.
const STREAMED_CHUNKS: usize = 8;
/// Streamed chunks below this only add work.
const SMALLEST_STREAMED_CHUNK: usize = 1 << 13;
/// Chunks are not made smaller than this to fit a device.
pub(super) const SMALLEST_CHUNK: usize = 1 << 10;
/// Window sums and status words of one proof are some tens of KiB.
const READBACK_BYTES: u64 = 256 << 10;

/// The memories that partitions are placed in.
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

    /// Sizes in bytes, in the order of [`super::plan::POOLS`].
    pub fn sizes(&self) -> [u64; 2] {
        super::plan::POOLS.map(|class| self.view(class).len_bytes())
    }
}

/// A device and its share of the work.
pub(super) struct DeviceSlot {
    pub device: Arc<dyn Device>,
    arena: Arena,
    pub staging: Arc<StagingPool>,
    pools: Mutex<Option<Arc<Pools>>>,
    readbacks: Mutex<Vec<Readback>>,
}

impl fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device.info().name)
    }
}

/// What is guarded is replaced whole, so a panic elsewhere in the thread leaves it good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceSlot {
    pub fn new(device: Arc<dyn Device>, options: &ProverOptions) -> Result<Self> {
        let name = device.info().name.clone();
        Self::open(device, options).map_err(|source| Error::Device { device: name, source })
    }

    fn open(device: Arc<dyn Device>, options: &ProverOptions) -> Result<Self, DeviceError> {
        let free = device.memory()?.free_bytes;
        let budget = options.memory_bytes.unwrap_or(free / 10 * 9);
        let staging = StagingPool::new(
            &*device,
            options.staging_slots,
            options.staging_slot_bytes,
            options.timeout,
        )?;
        let readback = Readback::new(&*device, READBACK_BYTES, options.timeout)?;
        let arena = Arena::new(device.clone(), budget);
        Ok(Self {
            device,
            arena,
            staging: Arc::new(staging),
            pools: Mutex::default(),
            readbacks: Mutex::new(vec![readback]),
        })
    }

    pub fn named(&self, error: StageError) -> Error {
        error.on(&self.device.info().name)
    }

    pub fn pools(&self) -> Option<Arc<Pools>> {
        lock(&self.pools).clone()
    }

    /// Bytes that partitions may have, beside the queries kept here.
    fn budget_bytes(&self) -> u64 {
        let pools = self.pools().map_or(0, |pools| pools.sizes().iter().sum());
        let kept = self.arena.usage().in_use_bytes.saturating_sub(pools);
        self.arena.budget_bytes().saturating_sub(kept)
    }

    /// The sizes of memories for so many partitions of this layout at once, or for fewer where the
    /// budget asks for it. At least what there is, unless the budget asks for that to go.
    pub fn wanted_sizes(&self, layout: &ProofLayout, partitions: usize) -> [u64; 2] {
        let one = super::plan::POOLS.map(|class| layout.peak_bytes(class));
        let budget = self.budget_bytes();
        let fit = budget / one.iter().sum::<u64>().max(1);
        let copies = fit.min(partitions as u64).max(1);
        let wanted = one.map(|size| size.saturating_mul(copies));
        let here = self.pools().map_or([0, 0], |pools| pools.sizes());
        let both = [wanted[0].max(here[0]), wanted[1].max(here[1])];
        let fits_here = one[0] <= here[0] && one[1] <= here[1];
        match both.iter().sum::<u64>() <= budget {
            true => both,
            false if fits_here => here,
            false => wanted,
        }
    }

    /// Makes the memories of these sizes, or at the least those of `least`. Nobody uses the old.
    ///
    /// # Errors
    /// What the driver answers; then there are none.
    pub fn make_pools(
        &self,
        sizes: [u64; 2],
        least: [u64; 2],
        _wait: &mut DeviceWait<'_>,
    ) -> Result<(), DeviceError> {
        let mut pools = lock(&self.pools);
        *pools = None;
        self.arena.trim()?;
        let make = |[work, resident]: [u64; 2]| {
            self.arena.reserve(MemoryClass::Work, work)?;
            self.arena.reserve(MemoryClass::Resident, resident)?;
            Ok(Pools {
                work: self.arena.lease("partitions", MemoryClass::Work, work)?,
                resident: self.arena.lease("partition_bases", MemoryClass::Resident, resident)?,
            })
        };
        // The driver may have less than it said.
        let made = match make(sizes) {
            Err(DeviceError::OutOfMemory { .. }) if sizes != least => {
                self.arena.trim()?;
                make(least)?
            }
            other => other?,
        };
        *pools = Some(Arc::new(made));
        Ok(())
    }

    /// The memories as the device's admission takes them.
    pub fn pool_specs(&self) -> Vec<PoolSpec> {
        let sizes = self.pools().map_or([0, 0], |pools| pools.sizes());
        let spec = |capacity_bytes| PoolSpec { capacity_bytes, align_bytes: ARENA_ALIGN_BYTES };
        sizes.map(spec).to_vec()
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
        let done = work(&mut readback)?;
        // After a failure the buffer is dropped: its copies may still fail.
        readback.wipe()?;
        lock(&self.readbacks).push(readback);
        Ok(done)
    }

    /// Loads every query of a key, to stay here.
    pub fn load(
        &self,
        source: &dyn ParameterSource,
        options: &ProverOptions,
    ) -> Result<ResidentQueries, StageError> {
        let bytes = ResidentQueries::size_bytes(source);
        let reserve = || {
            self.arena.reserve(MemoryClass::Resident, bytes)?;
            self.arena.reserve(MemoryClass::Work, ARENA_ALIGN_BYTES)
        };
        if let Err(error) = reserve() {
            // Memories that nobody uses make room.
            let mut pools = lock(&self.pools);
            if pools.as_ref().is_none_or(|pools| Arc::strong_count(pools) > 1) {
                return Err(error.into());
            }
            *pools = None;
            self.arena.trim()?;
            reserve()?;
        }
        let lane = Lane::new(self.device.clone(), options.timeout)?;
        let mut staging = self.staging.ring();
        self.with_readback(options, |readback| {
            ResidentQueries::load(&lane, &self.arena, source, &mut staging, readback)
        })
    }

    /// The layout with the largest chunks that fit the budget beside what is resident, none
    /// larger than `chunk`.
    pub fn fitting_layout(
        &self,
        shape: ProofShape,
        streamed: bool,
        chunk: Option<usize>,
        options: &ProverOptions,
    ) -> Result<(ProofLayout, usize), DeviceError> {
        let budget = self.budget_bytes();
        let default = match streamed {
            true => {
                (shape.domain() / STREAMED_CHUNKS).clamp(SMALLEST_STREAMED_CHUNK, DEFAULT_CHUNK)
            }
            false => DEFAULT_CHUNK,
        };
        let mut chunk = chunk.or(options.msm_chunk).unwrap_or(default).max(1);
        loop {
            let layout_options =
                LayoutOptions { chunk, window_bits: options.window_bits, streamed };
            let layout = ProofLayout::new(&*self.device, shape, layout_options)?;
            let needed =
                layout.peak_bytes(MemoryClass::Work) + layout.peak_bytes(MemoryClass::Resident);
            if needed <= budget {
                return Ok((layout, chunk));
            }
            if chunk <= SMALLEST_CHUNK {
                let held = self.arena.budget_bytes() - budget;
                return Err(DeviceError::ExceedsLimit {
                    what: format!("bytes of device memory for a proof beside {held} resident"),
                    requested: needed,
                    limit: self.arena.budget_bytes(),
                });
            }
            chunk /= 2;
        }
    }
}
