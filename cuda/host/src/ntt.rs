//! Transforms over Fr, launch by launch.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::field::Fr;

unsafe extern "C" {
    fn twinlock_cuda_ntt_tables_len() -> u32;
    fn twinlock_cuda_ntt_tables(tables: *mut c_void);
    fn twinlock_cuda_ntt_pass(
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
        data: *mut c_void,
        tables: *const c_void,
        words: *const u32,
        factors: *const c_void,
    );
    fn twinlock_cuda_ntt_tiny(
        data: *mut c_void,
        tables: *const c_void,
        words: *const u32,
        factors: *const c_void,
    );
    fn twinlock_cuda_ntt_reverse(blocks: u32, data: *mut c_void, words: *const u32);
}

/// The tables that transforms read.
#[derive(Debug, Clone)]
pub struct Tables(Vec<Fr>);

impl Tables {
    /// Computes them.
    pub fn new() -> Self {
        // SAFETY: answers a constant.
        let len = unsafe { twinlock_cuda_ntt_tables_len() };
        let mut tables = vec![crate::field::Limbs([0; 8]); len as usize];
        // SAFETY: the function writes as many elements as it said.
        unsafe { twinlock_cuda_ntt_tables(tables.as_mut_ptr().cast()) };
        Self(tables)
    }

    /// Bytes they have.
    pub fn size_bytes(&self) -> u64 {
        size_of_val(self.0.as_slice()) as u64
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

/// A launch of one of the kernels.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Its name.
    pub kernel: &'a str,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block.
    pub shared_bytes: u32,
    /// Arguments that are words.
    pub words: &'a [u32],
    /// Arguments that are elements.
    pub factors: &'a [Fr],
}

/// Runs a launch on `data`; false if there is no such kernel, or its arguments are others or not
/// those of a domain of `data.len()` elements.
pub fn run(launch: Launch<'_>, data: &mut [Fr], tables: &Tables) -> bool {
    let Launch { kernel, blocks, threads, shared_bytes, words, factors } = launch;
    let fits = words.first().is_some_and(|lg| 1usize.checked_shl(*lg) == Some(data.len()));
    let data = data.as_mut_ptr().cast();
    let tables = tables.0.as_ptr().cast();
    // SAFETY: `data` has the elements of the domain that the first word names, the tables are
    // whole, and there are as many words and factors as the kernel takes. Elements outside of the
    // domain are addressed only by launches that do not fit the domain, which the planner's tests
    // exclude.
    unsafe {
        match (kernel, words.len(), factors.len(), fits) {
            ("ntt_pass", 6, 7, true) => {
                let (words, factors) = (words.as_ptr(), factors.as_ptr().cast());
                twinlock_cuda_ntt_pass(blocks, threads, shared_bytes, data, tables, words, factors);
            }
            ("ntt_tiny", 2, 1, true) => {
                twinlock_cuda_ntt_tiny(data, tables, words.as_ptr(), factors.as_ptr().cast());
            }
            ("ntt_reverse", 1, 0, true) => {
                twinlock_cuda_ntt_reverse(blocks, data, words.as_ptr());
            }
            _ => return false,
        }
    }
    true
}
