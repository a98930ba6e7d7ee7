//! One device of the pair, and the comparing of what the two hold.

use std::sync::Arc;
use std::time::Duration;

use twinlock_api::op::MsmReduce;
use twinlock_api::{Device, Error, Group, Region, Result, StagingKind, Stream, View};

use crate::oracle::{CurveOracle, G1, G2, combine};

/// Longest wait for one operation of either half.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes compared at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// A stream of one of the two devices, seen with the handles of the pair.
pub(super) struct Side<'a> {
    pub(super) device: &'a Arc<dyn Device>,
    pub(super) stream: Stream,
    pub(super) region: &'a dyn Fn(Region) -> Result<Region>,
}

impl Side<'_> {
    pub(super) fn view(&self, view: View) -> Result<View> {
        view.moved_to((self.region)(view.region())?)
    }

    pub(super) fn finish(&self) -> Result<()> {
        self.device.synchronize(&self.device.record(self.stream)?, TIMEOUT)
    }

    /// The bytes of a view of the pair.
    pub(super) fn bytes(&self, view: View) -> Result<Vec<u8>> {
        let (view, size) = (self.view(view)?, view.len_bytes());
        let mut staging =
            self.device.allocate_staging("dual", StagingKind::Download, size.max(4))?;
        self.device.download(self.stream, view, &mut *staging, 0)?;
        self.finish()?;
        let host = staging.host(TIMEOUT)?;
        host.get(..size as usize)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Error::invalid("a staging buffer smaller than asked for"))
    }

    /// Writes a view of the pair.
    pub(super) fn write(&self, view: View, bytes: &[u8]) -> Result<()> {
        let size = bytes.len() as u64;
        let mut staging = self.device.allocate_staging("dual", StagingKind::Upload, size.max(4))?;
        if let Some(host) = staging.host(TIMEOUT)?.get_mut(..bytes.len()) {
            host.copy_from_slice(bytes);
        }
        self.device.upload(self.stream, &mut *staging, 0, self.view(view)?.slice(0, size)?)?;
        self.finish()
    }
}

/// Compares a view bit for bit, in elements of `element_bytes`.
pub(super) fn compare_bits(
    name: &'static str,
    [oracle, subject]: [&Side<'_>; 2],
    view: View,
    element_bytes: u64,
) -> Result<()> {
    for start in (0..view.len_bytes()).step_by(PIECE_BYTES as usize) {
        let piece = view.slice(start, PIECE_BYTES.min(view.len_bytes() - start))?;
        let (expected, found) = (oracle.bytes(piece)?, subject.bytes(piece)?);
        if let Some(place) = expected.iter().zip(&found).position(|(a, b)| a != b) {
            let byte = start + place as u64;
            return Err(Error::KernelFailed {
                name,
                reason: format!(
                    "{} differs at element {} (byte {byte} of {}): {} has {:#04x}, {} has {:#04x}",
                    view.name(),
                    byte / element_bytes,
                    view.len_bytes(),
                    oracle.device.info().name,
                    expected[place],
                    subject.device.info().name,
                    found[place],
                ),
            });
        }
    }
    Ok(())
}

/// Runs a reduction on one side, which may have fewer windows than the pair: the rest is the
/// identity.
pub(super) fn reduce(side: &Side<'_>, op: &MsmReduce) -> Result<()> {
    let layout = side.device.msm_layout(op.group(), op.shape())?;
    let windows = side.view(op.windows())?;
    let used = u64::from(layout.num_windows) * op.group().jacobian_bytes();
    let own = MsmReduce::new(
        &layout,
        side.view(op.accumulator())?,
        windows.slice(0, used)?,
        side.view(op.workspace())?,
    )?;
    side.device.enqueue(side.stream, &twinlock_api::Op::MsmReduce(own))?;
    let rest = windows.slice(used, windows.len_bytes() - used)?;
    side.device.enqueue(side.stream, &twinlock_api::Op::Fill(twinlock_api::op::Fill::zero(rest)))
}

/// Compares window sums by what they combine to, then gives the oracle the subject's, for several
/// window sums stand for one point.
pub(super) fn compare_windows(
    name: &'static str,
    [oracle, subject]: [&Side<'_>; 2],
    op: &MsmReduce,
) -> Result<()> {
    let (expected, found) = (oracle.bytes(op.windows())?, subject.bytes(op.windows())?);
    let window_bits = op.shape().window_bits;
    let differ = match op.group() {
        Group::G1 => differ::<G1>(&expected, &found, window_bits),
        Group::G2 => differ::<G2>(&expected, &found, window_bits),
    };
    if let Some(reason) = differ {
        let view = op.windows().name();
        return Err(Error::KernelFailed { name, reason: format!("{view}: {reason}") });
    }
    oracle.write(op.windows(), &found)
}

fn differ<C: CurveOracle>(expected: &[u8], found: &[u8], window_bits: u32) -> Option<String> {
    let (expected, found) = match (C::decode_jacobian(expected), C::decode_jacobian(found)) {
        (Ok(expected), Ok(found)) => (expected, found),
        (Err(reason), _) | (_, Err(reason)) => return Some(reason),
    };
    if combine::<C>(&expected, window_bits) == combine::<C>(&found, window_bits) {
        return None;
    }
    let place = expected.iter().zip(&found).position(|(a, b)| a != b).unwrap_or(0);
    Some(format!("the window sums combine to different points; the first that differs is {place}"))
}
