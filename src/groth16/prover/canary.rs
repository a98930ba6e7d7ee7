//! Whether a device that was opened again computes.

use std::time::Duration;

use blstrs::Scalar;
use ff::Field;
use rand::rngs::OsRng;
use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::Vector;
use twinlock_api::{Device, Error, FrView, MemoryClass, Op, Region, Result, StagingKind, Stream};

use crate::scheduler::locks::outside_mem;
use crate::views::as_bytes;

/// Random products are compared with the host's.
const PRODUCTS: usize = 256;
const BYTES: u64 = PRODUCTS as u64 * FR_BYTES;

/// Has `device` multiply random field elements.
///
/// # Errors
/// What the device answers; `KernelFailed` for a wrong product.
pub(super) fn probe(device: &dyn Device, timeout: Duration) -> Result<()> {
    outside_mem("having a device compute something known");
    let region = device.allocate("canary", MemoryClass::Work, 2 * BYTES)?;
    let probed = device.create_stream("canary").and_then(|stream| {
        let probed = multiply(device, stream, region, timeout);
        probed.and(device.destroy_stream(stream))
    });
    probed.and(device.free(region))
}

fn multiply(device: &dyn Device, stream: Stream, region: Region, timeout: Duration) -> Result<()> {
    let draw = || (0..PRODUCTS).map(|_| Scalar::random(OsRng)).collect::<Vec<_>>();
    let (left, right) = (draw(), draw());
    let mut staging = device.allocate_staging("canary", StagingKind::Upload, 2 * BYTES)?;
    let (first, second) = staging.host(timeout)?.split_at_mut(BYTES as usize);
    first.copy_from_slice(as_bytes(&left));
    second.get_mut(..BYTES as usize).ok_or_else(short)?.copy_from_slice(as_bytes(&right));
    device.upload(stream, staging.as_mut(), 0, region.view("canary", 0, 2 * BYTES)?)?;

    let a = FrView::new(region.view("canary_a", 0, BYTES)?)?;
    let b = FrView::new(region.view("canary_b", BYTES, BYTES)?)?;
    device.enqueue(stream, &Op::Vector(Vector::mul(a, b, a)?))?;

    let mut readback = device.allocate_staging("canary", StagingKind::Download, BYTES)?;
    device.download(stream, a.view(), readback.as_mut(), 0)?;
    let found = readback.host(timeout)?.get(..BYTES as usize).ok_or_else(short)?;
    let expected: Vec<Scalar> = left.iter().zip(&right).map(|(a, b)| a * b).collect();
    if found != as_bytes(&expected) {
        let reason = "wrong products after the device was opened again";
        return Err(Error::KernelFailed { name: "canary", reason: reason.into() });
    }
    Ok(())
}

fn short() -> Error {
    Error::invalid("a staging buffer is shorter than it says")
}

#[cfg(test)]
mod tests {
    use twinlock_api::OpenOptions;

    use super::*;
    use crate::scheduler::locks::noticed_under_mem;

    #[test]
    fn a_probe_under_mem_is_found_out() {
        let device = crate::registry::open("cpu", &OpenOptions::default()).unwrap();
        let (probed, noticed) = noticed_under_mem(|| probe(&*device, Duration::from_secs(30)));
        assert_eq!(probed, Ok(()));
        assert_eq!(noticed, ["having a device compute something known"]);
    }

    #[test]
    fn the_cpu_passes_and_leaves_nothing() {
        let device = crate::registry::open("cpu", &OpenOptions::default()).unwrap();
        probe(&*device, Duration::from_secs(30)).unwrap();
        assert_eq!(device.memory().unwrap().regions_bytes, 0);
    }
}
