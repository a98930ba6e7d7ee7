//! Faults for tests.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUstream, CUstreamWaitValue_flags_enum};
use twinlock_api::{Error, Result};

use crate::driver::check;
use crate::gpu::Gpu;
use crate::memory::Pinned;
use crate::streams::StreamState;

/// A kernel that traps. PTX, for the driver to compile.
const TRAP: &str = concat!(
    ".version 7.0\n.target sm_75\n.address_size 64\n",
    ".visible .entry twinlock_trap() { trap; }\n\0"
);

/// Makes an open device fail. For tests.
#[derive(Default)]
pub struct Faults {
    op: AtomicBool,
    memory: AtomicBool,
    no_memory: AtomicBool,
    /// The number of the last hold.
    hold: AtomicU32,
    /// A word that the device reads: the number of the last hold that is over.
    word: Mutex<Option<Pinned>>,
    gpu: Mutex<Weak<Gpu>>,
}

impl Faults {
    pub(crate) fn attach(&self, gpu: Weak<Gpu>) {
        *self.gpu.lock().unwrap_or_else(PoisonError::into_inner) = gpu;
    }

    fn gpu(&self) -> Result<std::sync::Arc<Gpu>> {
        let gpu = self.gpu.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        gpu.ok_or_else(|| Error::invalid("the device is closed"))
    }

    fn word(&self) -> MutexGuard<'_, Option<Pinned>> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_op(&self) -> bool {
        self.op.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn take_allocation(&self) -> bool {
        self.memory.swap(false, Ordering::SeqCst) || self.no_memory.load(Ordering::SeqCst)
    }

    fn start_hold(&self) -> Result<()> {
        let gpu = self.gpu()?;
        let _current = gpu.enter()?;
        let mut word = self.word();
        if word.is_none() {
            *word = Some(Pinned::new(4).map_err(|refusal| gpu.failed("hold", refusal))?);
            self.hold.store(1, Ordering::SeqCst);
        } else if self.released(&word) {
            self.hold.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Ends a hold.
    pub(crate) fn release(&self) {
        // The word goes with the context.
        let Ok(_gpu) = self.gpu() else { return };
        if let Some(Pinned(start)) = *self.word() {
            // SAFETY: a word of pinned memory, which lives as long as the context; the device
            // reads it whole.
            unsafe { start.cast::<u32>().write_volatile(self.hold.load(Ordering::SeqCst)) };
        }
    }

    fn released(&self, word: &Option<Pinned>) -> bool {
        word.is_none_or(|Pinned(start)| {
            // SAFETY: as in `release`; only the host writes it, under the lock.
            let over = unsafe { start.cast::<u32>().read_volatile() };
            over >= self.hold.load(Ordering::SeqCst)
        })
    }

    /// Has a stream wait for the end of a hold before what it is given next; the context is
    /// current.
    pub(crate) fn gate(&self, gpu: &Gpu, state: &mut StreamState) -> Result<()> {
        let hold = self.hold.load(Ordering::SeqCst);
        if state.gate == hold {
            return Ok(());
        }
        let word = self.word();
        if let Some(Pinned(start)) = *word
            && !self.released(&word)
        {
            let flags = CUstreamWaitValue_flags_enum::CU_STREAM_WAIT_VALUE_GEQ as u32;
            // SAFETY: pinned memory has the same address on the device.
            let code = unsafe {
                sys::cuStreamWaitValue32_v2(state.raw()?, start.addr() as u64, hold, flags)
            };
            check("cuStreamWaitValue32", code).map_err(|refusal| gpu.failed("hold", refusal))?;
        }
        state.gate = hold;
        Ok(())
    }

    /// Runs a kernel that traps, which the driver reports as it does an illegal address.
    ///
    /// # Errors
    /// What the driver answers, e.g. that it has no compiler for the kernel.
    pub fn crash(&self) -> Result<()> {
        let gpu = self.gpu()?;
        let _current = gpu.enter()?;
        let failed = |refusal| gpu.failed("crash", refusal);
        let (mut module, mut function): (CUmodule, CUfunction) =
            (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the text ends in a zero.
        let code =
            unsafe { sys::cuModuleLoadData(&raw mut module, TRAP.as_ptr().cast::<c_void>()) };
        check("cuModuleLoadData", code).map_err(failed)?;
        // SAFETY: the module has been loaded.
        let code = unsafe {
            sys::cuModuleGetFunction(&raw mut function, module, c"twinlock_trap".as_ptr())
        };
        check("cuModuleGetFunction", code).map_err(failed)?;
        let stream = gpu.streams.take().map_err(failed)?;
        let none: *mut *mut c_void = std::ptr::null_mut();
        let raw: CUstream = stream.0;
        // SAFETY: the kernel has no parameters.
        let code = unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, raw, none, none) };
        check("cuLaunchKernel", code).map_err(failed)
    }
}

impl twinlock_api::Faults for Faults {
    /// It launches a kernel that no card takes.
    fn fail_next_op(&self) {
        self.op.store(true, Ordering::SeqCst);
    }

    fn fail_next_allocation(&self) {
        self.memory.store(true, Ordering::SeqCst);
    }

    fn refuse_allocations(&self, refused: bool) {
        self.no_memory.store(refused, Ordering::SeqCst);
    }

    fn hold(&self, held: bool) -> Result<()> {
        if held {
            return self.start_hold();
        }
        self.release();
        Ok(())
    }

    fn lose(&self) {
        if let Ok(gpu) = self.gpu() {
            gpu.lose("a fault that a test asked for".to_owned());
        }
        self.release();
    }
}
