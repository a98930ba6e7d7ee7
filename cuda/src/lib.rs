//! twinlock's CUDA kernels, compiled by nvcc for a list of architectures (`TWINLOCK_CUDA_ARCHS`,
//! default `80,90,120,compute_75`: `90` is machine code, `compute_75` PTX).

pub mod digits;
pub mod msm;
pub mod ntt;
pub mod sizes;

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// Whole words, for the driver.
#[repr(align(16))]
#[cfg_attr(not(feature = "nvcc"), expect(dead_code))]
struct Aligned<T>(T);

/// Each unit's name and fatbin; none without feature `nvcc`.
pub fn images() -> &'static [(&'static str, &'static [u8])] {
    IMAGES
}

/// The fatbin of the kernels that measure arithmetic, which no operation needs: a program that does
/// not ask for it does not contain it.
pub fn bench_image() -> Option<&'static [u8]> {
    BENCH_IMAGE
}
