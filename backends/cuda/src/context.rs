//! A context of our own on a card, current only while a call runs.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use cudarc::driver::sys::{self, CUcontext, CUctx_flags_enum, CUdevice};

use crate::driver::{Refusal, check};

/// A context. Destroyed when dropped, with the streams, events, modules and pinned memory that
/// were made in it, and after the work that runs in it.
pub(crate) struct Context(CUcontext);

// SAFETY: a context may be made current on any thread.
unsafe impl Send for Context {}
// SAFETY: as above, and the driver locks within its calls.
unsafe impl Sync for Context {}

impl Context {
    /// A context on a card; not current.
    pub(crate) fn new(device: CUdevice) -> Result<Self, Refusal> {
        let mut raw: CUcontext = std::ptr::null_mut();
        // No thread spins for the device: nobody waits for it inside the driver in the steady state.
        let flags = CUctx_flags_enum::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: writes one handle; no parameters means a plain context.
        let code =
            unsafe { sys::cuCtxCreate_v4(&raw mut raw, std::ptr::null_mut(), flags, device) };
        check("cuCtxCreate", code)?;
        let context = Self(raw);
        // It was made current; the thread's own comes back.
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: pops what was just pushed.
        check("cuCtxPopCurrent", unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) })?;
        Ok(context)
    }

    /// Makes it current on this thread until the guard goes.
    pub(crate) fn enter(&self) -> Result<Current<'_>, Refusal> {
        // SAFETY: the context is alive while it is borrowed.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.0) })?;
        Ok(Current(PhantomData))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody borrows it, so no guard is left.
        let outcome = check("cuCtxDestroy", unsafe { sys::cuCtxDestroy_v2(self.0) });
        if let Err(refusal) = outcome {
            tracing::warn!(%refusal, "a context could not be destroyed");
        }
    }
}

/// The context is current on this thread.
pub(crate) struct Current<'c>(PhantomData<(&'c Context, *const ())>);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: guards end in the reverse order of their making on a thread, for each is a local
        // variable, so this pops what the guard pushed.
        unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
    }
}
