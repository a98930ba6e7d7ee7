//! Device memory: ranges of addresses with memory of the card mapped to them.
//!
//! `cuMemFree` waits for all of the card's work, so memory is taken by the calls that map it.
//! What is freed while work uses it waits in the graveyard for that work only; pinned memory of the host
//! waits there for all work, or for who wants as much.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    self, CUmemAccess_flags_enum, CUmemAccessDesc, CUmemAllocationGranularity_flags_enum,
    CUmemAllocationHandleType_enum, CUmemAllocationProp, CUmemAllocationType_enum, CUmemLocation,
    CUmemLocationType_enum,
};
use twinlock_api::{Error, MemoryClass, MemoryInfo, Region, Result, View};

use crate::driver::{Meaning, Refusal, check};
use crate::events::PooledEvent;
use crate::gpu::Gpu;
use crate::streams::StreamSlot;

/// How long an allocation waits for work that holds memory which has been freed.
const RECLAIM_WAIT: Duration = Duration::from_secs(10);

/// Device memory from the driver. Not freed when dropped: the owner says when that is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Its first byte on the device.
    pub(crate) address: u64,
    /// Bytes mapped; 0 for one of the driver's own allocator.
    mapped_bytes: usize,
}

impl Allocation {
    /// At least `size_bytes` bytes; the context is current.
    pub(crate) fn new(ordinal: i32, size_bytes: u64, plain: bool) -> Result<Self, Refusal> {
        // Sizes above usize's do not exist on the platforms with drivers.
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if plain { Self::plain(size) } else { Self::mapped(ordinal, size) }
    }

    fn plain(size: usize) -> Result<Self, Refusal> {
        let mut address = 0;
        // SAFETY: writes one address.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, size) })?;
        Ok(Self { address, mapped_bytes: 0 })
    }

    fn mapped(ordinal: i32, size: usize) -> Result<Self, Refusal> {
        let location = CUmemLocation {
            type_: CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
            id: ordinal,
        };
        let properties = CUmemAllocationProp {
            type_: CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: CUmemAllocationHandleType_enum(0),
            location,
            win32HandleMetaData: std::ptr::null_mut(),
            // SAFETY: zero means no wishes.
            allocFlags: unsafe { std::mem::zeroed() },
        };
        let mut granularity = 0usize;
        let wish = CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: writes one number.
        let code = unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, wish)
        };
        check("cuMemGetAllocationGranularity", code)?;
        let size = size.checked_next_multiple_of(granularity.max(1)).unwrap_or(usize::MAX);
        let mut address = 0;
        // SAFETY: writes one address; a range of addresses that is nobody's yet.
        let code = unsafe { sys::cuMemAddressReserve(&raw mut address, size, 0, 0, 0) };
        check("cuMemAddressReserve", code)?;
        let outcome = Self::map(address, size, &properties, location);
        if outcome.is_err() {
            // SAFETY: nothing is mapped there.
            unsafe { sys::cuMemAddressFree(address, size) };
        }
        outcome.map(|()| Self { address, mapped_bytes: size })
    }

    /// Maps memory to a reserved range.
    fn map(
        address: u64,
        size: usize,
        properties: &CUmemAllocationProp,
        location: CUmemLocation,
    ) -> Result<(), Refusal> {
        let mut handle = 0;
        // SAFETY: writes one handle.
        let code = unsafe { sys::cuMemCreate(&raw mut handle, size, properties, 0) };
        check("cuMemCreate", code)?;
        // SAFETY: the range is reserved, has the memory's size, and nothing is mapped there.
        let mapped = check("cuMemMap", unsafe { sys::cuMemMap(address, size, 0, handle, 0) });
        // SAFETY: the mapping keeps the memory from here on.
        let released = check("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
        mapped?;
        let access = CUmemAccessDesc {
            location,
            flags: CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped.
        let code = unsafe { sys::cuMemSetAccess(address, size, &raw const access, 1) };
        let outcome = check("cuMemSetAccess", code).and(released);
        if outcome.is_err() {
            // SAFETY: nobody has the range.
            unsafe { sys::cuMemUnmap(address, size) };
        }
        outcome
    }

    /// Gives it back. No work may use it any more; a context of the card is current.
    pub(crate) fn release(self) -> Result<(), Refusal> {
        let Self { address, mapped_bytes } = self;
        if mapped_bytes == 0 {
            // SAFETY: it was allocated there, and is released once.
            return check("cuMemFree", unsafe { sys::cuMemFree_v2(address) });
        }
        // SAFETY: it was mapped there, and is released once.
        check("cuMemUnmap", unsafe { sys::cuMemUnmap(address, mapped_bytes) })?;
        // SAFETY: nothing is mapped there any more.
        check("cuMemAddressFree", unsafe { sys::cuMemAddressFree(address, mapped_bytes) })
    }
}

/// Host memory that the device copies from and to; freed by its owner. Dies with its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pinned(pub(crate) *mut c_void);

// SAFETY: plain memory, used by one at a time.
unsafe impl Send for Pinned {}
// SAFETY: shared references give the pointer only.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Zeroed memory; the context is current.
    pub(crate) fn new(size: usize) -> Result<Self, Refusal> {
        let mut start: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: writes one pointer.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut start, size.max(1), flags) };
        check("cuMemHostAlloc", code)?;
        let pinned = Self(start);
        // SAFETY: so many bytes were allocated just now.
        unsafe { pinned.zero(size) };
        Ok(pinned)
    }

    /// Overwrites it with zeros.
    ///
    /// # Safety
    /// So many bytes are there, and nothing uses them.
    unsafe fn zero(self, size: usize) {
        // SAFETY: as the caller says.
        unsafe { self.0.cast::<u8>().write_bytes(0, size) };
    }

    fn release(self) -> Result<(), Refusal> {
        // SAFETY: it was allocated there, is released once, and no copy uses it.
        check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.0) })
    }
}

/// What waits for the work that uses it.
enum Buried {
    Device(Allocation),
    /// Of so many bytes.
    Host(Pinned, usize),
}

struct Grave {
    buried: Buried,
    /// Ends of the work that uses it.
    until: Vec<Arc<PooledEvent>>,
}

impl Grave {
    fn is_over(&self) -> bool {
        self.until.iter().all(|event| event.is_complete() == Ok(true))
    }
}

struct Held {
    allocation: Allocation,
    /// Streams that have been given work on it.
    users: Vec<Arc<StreamSlot>>,
}

#[derive(Default)]
struct State {
    regions: HashMap<Region, Held>,
    bytes: u64,
}

/// A device's regions, and memory on its way out.
pub(crate) struct Memory {
    state: Mutex<State>,
    graves: Mutex<Vec<Grave>>,
    /// The most bytes of regions, if somebody set that.
    setting_bytes: Option<u64>,
}

impl Memory {
    pub(crate) fn new(setting_bytes: Option<u64>) -> Self {
        Self { state: Mutex::default(), graves: Mutex::default(), setting_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn graves(&self) -> MutexGuard<'_, Vec<Grave>> {
        self.graves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses at which the regions of `views` start, for work of `user`, whose lock is
    /// held: what it enqueues under it is known to a later [`Memory::free`].
    pub(crate) fn resolve(
        &self,
        views: &[View],
        device: &str,
        user: &Arc<StreamSlot>,
    ) -> Result<Vec<(Region, u64)>> {
        let mut state = self.state();
        let mut found: Vec<(Region, u64)> = Vec::with_capacity(views.len());
        for view in views {
            let region = view.region();
            if found.iter().any(|(known, _)| *known == region) {
                continue;
            }
            let held = state.regions.get_mut(&region).ok_or_else(|| {
                Error::invalid(format!("{}: its region is not alive on {device}", view.name()))
            })?;
            found.push((region, held.allocation.address));
            if held.users.iter().all(|known| known.stream() != user.stream()) {
                held.users.retain(|known| !known.is_over());
                held.users.push(Arc::clone(user));
            }
        }
        Ok(found)
    }

    fn memory_with(&self, gpu: &Gpu, regions_bytes: u64) -> Result<MemoryInfo> {
        let total_bytes = gpu.info.memory_bytes;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: writes two numbers; the context is current.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo", code).map_err(|refusal| gpu.failed("memory", refusal))?;
        let mut free_bytes = (free as u64).min(total_bytes);
        if self.setting_bytes.is_some() {
            free_bytes = free_bytes.min(total_bytes.saturating_sub(regions_bytes));
        }
        Ok(MemoryInfo { free_bytes, total_bytes, regions_bytes })
    }

    /// What there is and what is held; the context is current.
    pub(crate) fn info(&self, gpu: &Gpu) -> Result<MemoryInfo> {
        self.sweep(gpu);
        let regions_bytes = self.state().bytes;
        self.memory_with(gpu, regions_bytes)
    }

    /// Takes a region; the context is current.
    pub(crate) fn allocate(
        &self,
        gpu: &Gpu,
        name: &'static str,
        class: MemoryClass,
        size_bytes: u64,
    ) -> Result<Region> {
        let limit = gpu.info.max_region_bytes;
        if size_bytes > limit {
            let what = format!("{name} (bytes)");
            return Err(Error::ExceedsLimit { what, requested: size_bytes, limit });
        }
        if size_bytes == 0 {
            return Err(Error::invalid(format!("{name}: a region of 0 bytes")));
        }
        self.sweep(gpu);
        // Counted before it is asked for, so that two at once do not both take the last room.
        {
            let mut state = self.state();
            if let Some(limit) = self.setting_bytes {
                let free_bytes = limit.saturating_sub(state.bytes);
                if size_bytes > free_bytes {
                    return Err(out_of_memory(name, size_bytes, Some(free_bytes)));
                }
            }
            state.bytes += size_bytes;
        }
        let outcome = self.take(gpu, name, size_bytes);
        let mut state = self.state();
        match outcome {
            Ok(allocation) => {
                let region = Region::fresh(class, size_bytes);
                state.regions.insert(region, Held { allocation, users: Vec::new() });
                Ok(region)
            }
            Err(error) => {
                state.bytes -= size_bytes;
                Err(error)
            }
        }
    }

    fn take(&self, gpu: &Gpu, name: &'static str, size_bytes: u64) -> Result<Allocation> {
        let free = || {
            let memory = self.memory_with(gpu, 0);
            memory.ok().map(|memory| memory.free_bytes)
        };
        if gpu.faults.take_allocation() {
            return Err(out_of_memory(name, size_bytes, free()));
        }
        let ask = || Allocation::new(gpu.card.ordinal, size_bytes, gpu.plain_allocations);
        let mut outcome = ask();
        let full = |outcome: &Result<Allocation, Refusal>| {
            outcome.as_ref().is_err_and(|refusal| refusal.meaning() == Meaning::OutOfMemory)
        };
        let start = Instant::now();
        // What was freed may come back when the work that used it has run.
        while full(&outcome) && start.elapsed() < RECLAIM_WAIT {
            gpu.check_alive()?;
            let waiting = self.buried_on_the_device();
            if waiting == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.sweep(gpu);
            if self.buried_on_the_device() != waiting {
                outcome = ask();
            }
        }
        outcome.map_err(|refusal| match refusal.meaning() {
            Meaning::OutOfMemory => out_of_memory(name, size_bytes, free()),
            Meaning::Refused | Meaning::Lost => gpu.failed("allocate", refusal),
        })
    }

    /// Gives a region back once the work that uses it has run; the context is current.
    pub(crate) fn free(&self, gpu: &Gpu, region: Region) -> Result<()> {
        let held = {
            let mut state = self.state();
            let held = state.regions.remove(&region).ok_or_else(|| {
                let device = &gpu.info.name;
                Error::invalid(format!("region {} is not alive on {device}", region.id()))
            })?;
            state.bytes -= region.size_bytes();
            held
        };
        // Its users' locks are taken without ours: they take ours under theirs.
        let until = held.users.iter().filter_map(|user| user.fence(gpu)).collect();
        self.bury(gpu, Buried::Device(held.allocation), until);
        gpu.check_alive()
    }

    /// So many bytes of pinned memory, zeros; the context is current. What was freed and could not go
    /// back is taken first (until then it keeps what was in it): the driver may wait for all work
    /// before it gives any, and on a card that is never idle it would add up.
    pub(crate) fn pinned(&self, size: usize) -> Result<Pinned, Refusal> {
        let buried = {
            let mut graves = self.graves();
            let fits = |grave: &Grave| matches!(grave.buried, Buried::Host(_, of) if of == size);
            let found = graves.iter().position(|grave| fits(grave) && grave.is_over());
            found.map(|at| graves.swap_remove(at).buried)
        };
        match buried {
            Some(Buried::Host(pinned, _)) => {
                // SAFETY: so many bytes were buried, and the work that used them has run.
                unsafe { pinned.zero(size) };
                Ok(pinned)
            }
            _ => Pinned::new(size),
        }
    }

    /// Frees pinned memory of so many bytes once the copies that use it, and all other work, have run; the
    /// context is current.
    pub(crate) fn free_pinned(
        &self,
        gpu: &Gpu,
        (pinned, size): (Pinned, usize),
        until: Vec<Arc<PooledEvent>>,
    ) {
        self.bury(gpu, Buried::Host(pinned, size), until);
    }

    fn buried_on_the_device(&self) -> usize {
        let graves = self.graves();
        graves.iter().filter(|grave| matches!(grave.buried, Buried::Device(_))).count()
    }

    fn bury(&self, gpu: &Gpu, buried: Buried, until: Vec<Arc<PooledEvent>>) {
        self.graves().push(Grave { buried, until });
        self.sweep(gpu);
    }

    /// Releases what no work uses any more; the context is current.
    pub(crate) fn sweep(&self, gpu: &Gpu) {
        if gpu.check_alive().is_err() {
            // What still runs is unknown.
            return;
        }
        let mut graves = self.graves();
        let mut over = Vec::new();
        let mut at = 0;
        while at < graves.len() {
            if graves[at].is_over() {
                over.push(graves.swap_remove(at));
            } else {
                at += 1;
            }
        }
        // The driver frees pinned memory when all work has run, and would wait for ever for work that
        // never ends; work given between this look and the call it does wait for.
        let is_host = |grave: &Grave| matches!(grave.buried, Buried::Host(..));
        if over.iter().any(is_host) && !gpu.streams.have_run() {
            graves.extend(
                over.extract_if(.., |grave| is_host(grave))
                    .map(|grave| Grave { until: Vec::new(), ..grave }),
            );
        }
        drop(graves);
        for grave in &over {
            let released = match grave.buried {
                Buried::Device(allocation) => allocation.release(),
                Buried::Host(pinned, _) => pinned.release(),
            };
            if let Err(refusal) = released {
                let error = gpu.failed("free", refusal);
                tracing::warn!(device = gpu.info.name, %error, "memory was not given back");
            }
        }
    }

    /// All device memory that has not been released, for the last owner, who knows when it may be.
    pub(crate) fn take_all(&self) -> Vec<Allocation> {
        let mut state = self.state();
        state.bytes = 0;
        let regions = std::mem::take(&mut state.regions);
        drop(state);
        let graves = std::mem::take(&mut *self.graves());
        let buried = graves.into_iter().filter_map(|grave| match grave.buried {
            Buried::Device(allocation) => Some(allocation),
            // Goes with the context.
            Buried::Host(..) => None,
        });
        regions.into_values().map(|held| held.allocation).chain(buried).collect()
    }
}

/// An [`Error::OutOfMemory`].
pub(crate) fn out_of_memory(what: &str, requested_bytes: u64, free_bytes: Option<u64>) -> Error {
    Error::OutOfMemory { what: what.to_owned(), requested_bytes, free_bytes }
}
