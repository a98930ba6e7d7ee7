//! Field products a second on the first card, each kernel of `bench.cu`:
//! `cargo run --release -p twinlock-cuda --features kernels --example products [-- STEPS]`.
//!
//! Every multiprocessor gets 16 blocks of 128 threads; a thread keeps four chains of STEPS (2,000
//! if not told) products or squares going, two over Fp2. Prints the median of five runs in
//! billions a second. Chains with a closed form are checked.
#![allow(unsafe_code, clippy::print_stdout)]

use std::ffi::CString;
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUresult};
use twinlock_fields::{FP, FR, Field};

type Error = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Error>;

const THREADS: u32 = 128;
const BLOCKS_PER_SM: u32 = 16;
const RUNS: usize = 5;

/// What a chain computes of its first value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Chain {
    /// Its product with (x_0 + x_1)^steps.
    Product,
    /// Its power to 2^steps.
    Square,
    /// Nothing that is checked.
    Other,
}

/// Name, words of an element, chains a thread, the field, and what is computed.
const KERNELS: [(&str, usize, usize, Field, Chain); 9] = [
    ("bench_fr_mul", 8, 4, FR, Chain::Product),
    ("bench_fr_mul_plain", 8, 4, FR, Chain::Product),
    ("bench_fr_mul_known", 8, 4, FR, Chain::Other),
    ("bench_fr_sqr", 8, 4, FR, Chain::Square),
    ("bench_fr_butterfly", 8, 4, FR, Chain::Other),
    ("bench_fp_mul", 12, 4, FP, Chain::Product),
    ("bench_fp_sqr", 12, 4, FP, Chain::Square),
    ("bench_fp2_mul", 24, 2, FP, Chain::Other),
    ("bench_fp2_sqr", 24, 2, FP, Chain::Other),
];

fn check(call: &str, code: CUresult) -> Result<()> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(format!("{call}: {code:?}").into()) }
}

fn main() -> Result<()> {
    let steps: u32 = std::env::args().nth(1).map_or(Ok(2_000), |steps| steps.parse())?;
    let image = twinlock_cuda_kernels::bench_image();
    let image = image.ok_or("there are no kernels: build with --features kernels")?;
    // SAFETY: asks whether the driver's library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no CUDA driver".into());
    }
    let (mut device, mut context, mut module, mut sm_count) = (0, null_mut(), null_mut(), 0);
    // SAFETY: each call writes one value; the context stays current and nothing is freed.
    unsafe {
        check("cuInit", sys::cuInit(0))?;
        check("cuDeviceGet", sys::cuDeviceGet(&raw mut device, 0))?;
        let code = sys::cuDevicePrimaryCtxRetain(&raw mut context, device);
        check("cuDevicePrimaryCtxRetain", code)?;
        check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
        let code = sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast());
        check("cuModuleLoadData", code)?;
        let which = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let code = sys::cuDeviceGetAttribute(&raw mut sm_count, which, device);
        check("cuDeviceGetAttribute", code)?;
    }
    let blocks = u32::try_from(sm_count)? * BLOCKS_PER_SM;
    println!("{sm_count} multiprocessors, {blocks} blocks of {THREADS} threads, {steps} steps");
    for (name, words, chains, field, chain) in KERNELS {
        let mut function = null_mut();
        let symbol = CString::new(name)?;
        // SAFETY: writes one handle; the name ends in a zero.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut function, module, symbol.as_ptr()) };
        check(name, code)?;
        let count = blocks as usize * THREADS as usize * chains;
        let values: Vec<u32> = (0..count * words).map(|i| value(i, &field)).collect();
        let (found, mut times) = run(function, blocks, steps, &values)?;
        times.sort_by(f32::total_cmp);
        let products = count as f64 * f64::from(steps);
        println!("{name:20} {:8.2} G/s", products / f64::from(times[RUNS / 2]) / 1e6);
        verify(name, &field, chain, steps, &values[..2 * words], &found[..words])?;
    }
    Ok(())
}

/// Limbs of numbers below the modulus.
fn value(i: usize, field: &Field) -> u32 {
    let word = (i as u32).wrapping_mul(0x9e37_79b9) ^ 0x5851_f42d;
    if i % field.limbs == field.limbs - 1 { word >> 4 } else { word }
}

/// The first chain's result, and milliseconds of each run.
fn run(
    function: sys::CUfunction,
    blocks: u32,
    steps: u32,
    values: &[u32],
) -> Result<(Vec<u32>, Vec<f32>)> {
    let bytes = size_of_val(values);
    let (mut data, mut events) = (0, [null_mut(); 2]);
    let (mut found, mut times) = (vec![0u32; values.len()], vec![0f32; RUNS]);
    // SAFETY: the memory has as many bytes as are copied and as the kernel's threads have
    // elements, the parameters are those of the kernels, and all has run before it is freed.
    unsafe {
        check("cuMemAlloc", sys::cuMemAlloc_v2(&raw mut data, bytes))?;
        for event in &mut events {
            check("cuEventCreate", sys::cuEventCreate(event, 0))?;
        }
        for time in &mut times {
            let code = sys::cuMemcpyHtoD_v2(data, values.as_ptr().cast(), bytes);
            check("cuMemcpyHtoD", code)?;
            let (mut count, mut address) = (steps, data);
            let mut params = [(&raw mut count).cast(), (&raw mut address).cast()];
            check("cuEventRecord", sys::cuEventRecord(events[0], null_mut()))?;
            let (stream, params, extra) = (null_mut(), params.as_mut_ptr(), null_mut());
            let code = sys::cuLaunchKernel(
                function, blocks, 1, 1, THREADS, 1, 1, 0, stream, params, extra,
            );
            check("cuLaunchKernel", code)?;
            check("cuEventRecord", sys::cuEventRecord(events[1], null_mut()))?;
            check("cuEventSynchronize", sys::cuEventSynchronize(events[1]))?;
            let code = sys::cuEventElapsedTime_v2(time, events[0], events[1]);
            check("cuEventElapsedTime", code)?;
        }
        let code = sys::cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), data, bytes);
        check("cuMemcpyDtoH", code)?;
        check("cuMemFree", sys::cuMemFree_v2(data))?;
    }
    Ok((found, times))
}

/// Compares the first chain with exact arithmetic, from the first two values.
fn verify(
    name: &str,
    field: &Field,
    chain: Chain,
    steps: u32,
    values: &[u32],
    found: &[u32],
) -> Result<()> {
    let standard: Vec<_> =
        values.chunks(field.limbs).map(|value| field.from_montgomery(value)).collect();
    let expected = match chain {
        Chain::Product => {
            let factor = field.add(&standard[0], &standard[1]);
            field.mul(&standard[0], &field.pow(&factor, &[steps]))
        }
        Chain::Square => (0..steps).fold(standard[0].clone(), |x, _| field.mul(&x, &x)),
        Chain::Other => return Ok(()),
    };
    if field.to_montgomery(&expected) != found {
        return Err(format!("{name}: the first chain's result is wrong").into());
    }
    Ok(())
}
