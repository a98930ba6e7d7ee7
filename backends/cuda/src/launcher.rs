//! Turns one operation into launches on a stream.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUstream};
use twinlock_api::{Error, Region, Result, View};

use crate::card::Card;
use crate::driver::{Refusal, check};
use crate::gpu::Gpu;

/// A kernel's argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arg {
    /// A device address: any pointer.
    Pointer(u64),
    /// `uint32_t`.
    U32(u32),
    /// `uint64_t`.
    U64(u64),
    /// `Fr`, its eight words as they lie in memory.
    Fr([u32; 8]),
}

impl Arg {
    const fn size_bytes(&self) -> usize {
        match self {
            Self::U32(_) => 4,
            Self::Pointer(_) | Self::U64(_) => 8,
            Self::Fr(_) => 32,
        }
    }

    /// Where its bytes are.
    const fn address(&self) -> *mut c_void {
        let address: *const c_void = match self {
            Self::U32(value) => (&raw const *value).cast(),
            Self::Pointer(value) | Self::U64(value) => (&raw const *value).cast(),
            Self::Fr(words) => (&raw const *words).cast(),
        };
        address.cast_mut()
    }
}

/// Enqueues what one operation consists of; it runs in this order. The context is current, and
/// the stream this operation's alone.
pub(crate) struct Launcher<'g> {
    gpu: &'g Gpu,
    /// What failures are called by.
    name: &'static str,
    stream: CUstream,
    places: Vec<(Region, u64)>,
    /// Whether something has been put on the stream.
    begun: bool,
}

impl<'g> Launcher<'g> {
    /// For an operation on regions that start at these addresses.
    pub(crate) const fn new(
        gpu: &'g Gpu,
        name: &'static str,
        stream: CUstream,
        places: Vec<(Region, u64)>,
    ) -> Self {
        Self { gpu, name, stream, places, begun: false }
    }

    /// Whether something has been put on the stream.
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// The card: multiprocessors and sizes.
    pub(crate) const fn info(&self) -> &Card {
        &self.gpu.card
    }

    /// The device address of a view of one of the operation's regions.
    ///
    /// # Errors
    /// `InvalidArgument` for a region that the operation does not name.
    pub(crate) fn pointer(&self, view: View) -> Result<u64> {
        let found = self.places.iter().find(|(region, _)| *region == view.region());
        let (_, start) = found.ok_or_else(|| {
            Error::invalid(format!("{}: its region is not the operation's", view.name()))
        })?;
        Ok(start + view.offset_bytes())
    }

    /// The device address of a constant table.
    ///
    /// # Errors
    /// `KernelFailed` for one that no family asked for.
    pub(crate) fn table(&self, name: &'static str) -> Result<u64> {
        Ok(self.gpu.tables.address + self.gpu.tables.places.offset_bytes(name)?)
    }

    fn kernel(&self, name: &'static str) -> Result<&'g crate::modules::Kernel> {
        self.gpu.modules.get(name).ok_or_else(|| Error::KernelFailed {
            name,
            reason: "there is no such kernel in this build".to_owned(),
        })
    }

    /// Launches a kernel of `grid` blocks of `threads` threads with `shared_bytes` of dynamic
    /// shared memory. An empty grid launches nothing.
    ///
    /// # Errors
    /// `KernelFailed` when there is no such kernel, its arguments are others, or the driver
    /// refuses the launch; `DeviceLost`.
    pub(crate) fn launch(
        &mut self,
        kernel: &'static str,
        grid: [u32; 3],
        threads: u32,
        shared_bytes: u32,
        args: &[Arg],
    ) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        let loaded = self.kernel(kernel)?;
        let refused = |reason: String| Err(Error::KernelFailed { name: kernel, reason });
        let given = args.iter().map(Arg::size_bytes);
        if !given.clone().eq(loaded.param_bytes.iter().copied()) {
            let given: Vec<_> = given.collect();
            return refused(format!(
                "its arguments have {:?} bytes, got {given:?}",
                loaded.param_bytes
            ));
        }
        if threads > loaded.max_threads || shared_bytes > loaded.max_dynamic_shared_bytes {
            return refused(format!(
                "{threads} threads and {shared_bytes} bytes of shared memory, {} and {} possible",
                loaded.max_threads, loaded.max_dynamic_shared_bytes
            ));
        }
        let mut params: Vec<*mut c_void> = args.iter().map(Arg::address).collect();
        let [x, y, z] = grid;
        let gpu = self.gpu;
        let stream = self.stream;
        self.begun = true;
        let code = gpu.timed(kernel, stream, || {
            // SAFETY: the function belongs to the current context, the stream is alive, and each
            // parameter points to as many bytes as the kernel takes, which the driver copies now.
            unsafe {
                sys::cuLaunchKernel(
                    loaded.function,
                    x,
                    y,
                    z,
                    threads,
                    1,
                    1,
                    shared_bytes,
                    stream,
                    params.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        });
        check("cuLaunchKernel", code).map_err(|refusal| {
            tracing::debug!(kernel, ?grid, threads, shared_bytes, %refusal, "a launch is refused");
            self.failed(kernel, refusal)
        })
    }

    /// Sets all words of a view.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub(crate) fn fill(&mut self, target: View, word: u32) -> Result<()> {
        let words = (target.len_bytes() / 4) as usize;
        if words == 0 {
            return Ok(());
        }
        let start = self.pointer(target)?;
        let stream = self.stream;
        self.begun = true;
        // SAFETY: so many words lie there, in memory that lives until they are set.
        let code = self
            .gpu
            .timed("fill", stream, || unsafe { sys::cuMemsetD32Async(start, word, words, stream) });
        check("cuMemsetD32Async", code).map_err(|refusal| self.failed(self.name, refusal))
    }

    /// Copies one view over another of the same length that it does not overlap.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub(crate) fn copy(&mut self, source: View, target: View) -> Result<()> {
        let len_bytes = source.len_bytes().min(target.len_bytes()) as usize;
        if len_bytes == 0 {
            return Ok(());
        }
        let (from, to) = (self.pointer(source)?, self.pointer(target)?);
        let stream = self.stream;
        self.begun = true;
        // SAFETY: both ranges lie in memory that lives until they are copied.
        let code = self.gpu.timed("copy", stream, || unsafe {
            sys::cuMemcpyDtoDAsync_v2(to, from, len_bytes, stream)
        });
        check("cuMemcpyDtoDAsync", code).map_err(|refusal| self.failed(self.name, refusal))
    }

    /// Makes a call that the driver refuses, for tests.
    pub(crate) fn break_it(&mut self) -> Result<()> {
        // SAFETY: no word starts at an odd address, so the driver refuses it.
        let code = unsafe { sys::cuMemsetD32Async(1, 0, 1, self.stream) };
        check("cuMemsetD32Async", code).map_err(|refusal| self.failed(self.name, refusal))
    }

    fn failed(&self, name: &'static str, refusal: Refusal) -> Error {
        self.gpu.failed(name, refusal)
    }
}
