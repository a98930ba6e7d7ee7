//! Sizes of workspaces for a device without arithmetic: those of a typical GPU backend, so that
//! plans made on it have the right proportions.

use twinlock_api::op::{DigitsLayout, DigitsShape, MsmLayout, NttLayout};
use twinlock_api::{DeviceInfo, Error, Group, Result};

use crate::cost::{buckets, num_digits, num_windows};

/// Widest window.
const MAX_WINDOW_BITS: u32 = 24;
/// Partial sums that a large card keeps in flight.
const PARTIALS: u64 = 132 * 512;

pub(crate) fn check_lg_domain(info: &DeviceInfo, lg_domain: u32) -> Result<()> {
    if lg_domain <= info.max_lg_domain {
        return Ok(());
    }
    Err(Error::ExceedsLimit {
        what: "lg of the domain".into(),
        requested: lg_domain.into(),
        limit: info.max_lg_domain.into(),
    })
}

/// In place, with twiddles of two levels.
pub(crate) fn ntt(lg_domain: u32) -> NttLayout {
    NttLayout { lg_domain, workspace_bytes: (2 * 32) << lg_domain.div_ceil(2).min(32) }
}

pub(crate) fn window_bits(len: u64) -> u32 {
    // About a dozen entries a bucket.
    len.max(1).ilog2().saturating_sub(4).clamp(6, 20)
}

/// The product, or an error that names what is too large.
fn product(info: &DeviceInfo, what: &str, factors: &[u64]) -> Result<u64> {
    let exact = factors.iter().try_fold(1u64, |product, factor| product.checked_mul(*factor));
    exact.filter(|bytes| *bytes <= info.memory_bytes).ok_or_else(|| Error::ExceedsLimit {
        what: format!("bytes of {what}"),
        requested: exact.unwrap_or(u64::MAX),
        limit: info.memory_bytes,
    })
}

pub(crate) fn digits(info: &DeviceInfo, shape: DigitsShape) -> Result<DigitsLayout> {
    if !(1..=MAX_WINDOW_BITS).contains(&shape.window_bits) {
        return Err(Error::Unsupported(format!(
            "windows of {} bits, only 1 to {MAX_WINDOW_BITS}",
            shape.window_bits
        )));
    }
    if shape.tables == 0 {
        return Err(Error::Unsupported("no table of bases".into()));
    }
    // A signed index for each digit, and where each bucket starts.
    let indices = product(info, "a plan", &[shape.max_len, 4, num_digits(shape)])?;
    let starts = product(info, "a plan", &[buckets(shape), 4])?;
    // One window's keys and indices, twice.
    let workspace = product(info, "a plan's workspace", &[shape.max_len, 16, shape.tables.into()])?;
    Ok(DigitsLayout {
        shape,
        plan_bytes: (indices + starts).next_multiple_of(256),
        workspace_bytes: workspace.next_multiple_of(256),
    })
}

pub(crate) fn msm(info: &DeviceInfo, group: Group, shape: DigitsShape) -> Result<MsmLayout> {
    digits(info, shape)?;
    // XYZZ: four coordinates.
    let bucket_bytes = group.affine_bytes() * 2;
    let accumulator_bytes = product(info, "an accumulator", &[buckets(shape), bucket_bytes])?;
    Ok(MsmLayout {
        shape,
        group,
        accumulator_bytes,
        accumulate_workspace_bytes: PARTIALS * bucket_bytes,
        reduce_workspace_bytes: PARTIALS.min(buckets(shape)) * 2 * bucket_bytes,
        num_windows: num_windows(shape),
    })
}
