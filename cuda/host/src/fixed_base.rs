//! A block of multiples of a fixed base, or of a table of bases. Bytes in the layout of device
//! memory.
#![allow(unsafe_code)]

use std::ffi::c_void;

unsafe extern "C" {
    fn twinlock_cuda_fixed_base_g1(
        len: u32,
        window_bits: u32,
        table: *const c_void,
        scalars: *const c_void,
        target: *mut c_void,
    );
    fn twinlock_cuda_fixed_base_g2(
        len: u32,
        window_bits: u32,
        table: *const c_void,
        scalars: *const c_void,
        target: *mut c_void,
    );
}

unsafe extern "C" {
    fn twinlock_cuda_base_table_g1(
        len: u32,
        doublings: u32,
        table: *const c_void,
        next: *mut c_void,
    );
    fn twinlock_cuda_base_table_g2(
        len: u32,
        doublings: u32,
        table: *const c_void,
        next: *mut c_void,
    );
}

/// Multiples of one block.
pub const BLOCK: usize = 128;

/// The multiples by `scalars` of the base that `table` belongs to, as the operation `FixedBase` has
/// it. `N` words a point: 24 in G1, 48 in G2.
///
/// # Panics
/// On a table of another length, a width other than 1 to 16 bits, more scalars than a block has, or
/// another `N`.
pub fn multiples<const N: usize>(
    window_bits: u32,
    table: &[crate::field::Limbs<N>],
    scalars: &[crate::field::Fr],
) -> Vec<crate::field::Limbs<N>> {
    assert!((1..=16).contains(&window_bits) && scalars.len() <= BLOCK);
    assert_eq!(table.len(), (256usize.div_ceil(window_bits as usize)) << (window_bits - 1));
    let run = match N {
        24 => twinlock_cuda_fixed_base_g1,
        48 => twinlock_cuda_fixed_base_g2,
        _ => panic!("points of {N} words"),
    };
    let mut target = vec![crate::field::Limbs([0; N]); scalars.len()];
    // SAFETY: the function reads a table of this length and so many scalars, and writes so many
    // points, of the kind that N stands for; all are aligned.
    unsafe {
        run(
            scalars.len() as u32,
            window_bits,
            table.as_ptr().cast(),
            scalars.as_ptr().cast(),
            target.as_mut_ptr().cast(),
        );
    }
    target
}

/// The table that follows on `table`: each point times 2^`doublings`. `N` words a point: 24 in G1,
/// 48 in G2.
///
/// # Panics
/// On more points than a block has, or another `N`.
pub fn next_table<const N: usize>(
    table: &[crate::field::Limbs<N>],
    doublings: u32,
) -> Vec<crate::field::Limbs<N>> {
    assert!(table.len() <= BLOCK);
    let run = match N {
        24 => twinlock_cuda_base_table_g1,
        48 => twinlock_cuda_base_table_g2,
        _ => panic!("points of {N} words"),
    };
    let mut next = vec![crate::field::Limbs([0; N]); table.len()];
    // SAFETY: the function reads and writes so many points of the kind that N stands for; all are
    // aligned.
    unsafe {
        run(table.len() as u32, doublings, table.as_ptr().cast(), next.as_mut_ptr().cast());
    }
    next
}
