//! Transforms over Fr, launch by launch.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::field::Fr;

unsafe extern "C" {
    fn twinlock_cuda_ntt_tables_len() -> u32;
    fn twinlock_cuda_ntt_tables(tables: *mut c_void);
    fn twinlock_cuda_ntt_pass(
        first: u32,
        end: u32,
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
    fn twinlock_cuda_ntt_reverse(first: u32, end: u32, data: *mut c_void, words: *const u32);
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

/// So many zeros, whose pages the system gives as they are touched.
#[derive(Debug)]
pub struct Zeros(Vec<u128>);

impl Zeros {
    /// `len` elements.
    pub fn new(len: usize) -> Self {
        // One half more, for elements are aligned to two.
        Self(vec![0; 2 * len + 1])
    }

    /// The elements.
    pub fn elements(&mut self) -> &mut [Fr] {
        let len = self.0.len() / 2;
        // SAFETY: any bits are limbs, and any limbs bits.
        let (_, elements, _) = unsafe { self.0.align_to_mut::<Fr>() };
        &mut elements[..len]
    }
}

/// Runs a launch on `data`; false if there is no such kernel, or its arguments are others or not
/// those of a domain of `data.len()` elements.
pub fn run(launch: Launch<'_>, data: &mut [Fr], tables: &Tables) -> bool {
    run_blocks(launch, 0..launch.blocks, data, tables)
}

/// [`run`], of these blocks alone.
pub fn run_blocks(
    launch: Launch<'_>,
    blocks: Range<u32>,
    data: &mut [Fr],
    tables: &Tables,
) -> bool {
    let fits = fits(&launch, data);
    if fits {
        // SAFETY: it fits, and nobody else has the data.
        unsafe { play(launch, blocks, data.as_mut_ptr().cast(), tables) };
    }
    fits
}

/// [`run`] by so many threads, each of which takes blocks as it comes to them.
pub fn run_on(threads: usize, launch: Launch<'_>, data: &mut [Fr], tables: &Tables) -> bool {
    /// Blocks that are taken at once.
    const SHARE: u32 = 64;
    if !fits(&launch, data) {
        return false;
    }
    let next = AtomicU32::new(0);
    let start = data.as_mut_ptr() as usize;
    let work = || {
        loop {
            let first = next.fetch_add(SHARE, Ordering::Relaxed);
            if first >= launch.blocks {
                return;
            }
            let blocks = first..(first + SHARE).min(launch.blocks);
            // SAFETY: it fits, and as on a device no block touches what another one does; the
            // threads end before the borrow of the data.
            unsafe { play(launch, blocks, start as *mut c_void, tables) };
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    true
}

/// Whether there is such a kernel, for a domain of `data.len()` elements.
fn fits(launch: &Launch<'_>, data: &[Fr]) -> bool {
    let Launch { kernel, words, factors, .. } = *launch;
    let of_the_domain = words.first().is_some_and(|lg| 1usize.checked_shl(*lg) == Some(data.len()));
    let known = matches!(
        (kernel, words.len(), factors.len()),
        ("ntt_pass", 6, 8) | ("ntt_tiny", 2, 2) | ("ntt_reverse", 1, 0)
    );
    of_the_domain && known
}

/// Blocks of a launch, one after the other.
///
/// # Safety
/// `data` has the elements of the domain that the launch is of, which [`fits`] sees to. Elements
/// outside of it are addressed only by launches that no plan has, which the planner's tests exclude.
unsafe fn play(launch: Launch<'_>, blocks: Range<u32>, data: *mut c_void, tables: &Tables) {
    let Launch { kernel, threads, shared_bytes, words, factors, .. } = launch;
    let (words, factors) = (words.as_ptr(), factors.as_ptr().cast());
    let tables = tables.0.as_ptr().cast();
    let Range { start, end } = blocks;
    // SAFETY: as above; the tables are whole, and there are as many words and factors as the kernel
    // takes.
    unsafe {
        match kernel {
            "ntt_pass" => twinlock_cuda_ntt_pass(
                start,
                end,
                threads,
                shared_bytes,
                data,
                tables,
                words,
                factors,
            ),
            "ntt_tiny" => twinlock_cuda_ntt_tiny(data, tables, words, factors),
            _ => twinlock_cuda_ntt_reverse(start, end, data, words),
        }
    }
}
