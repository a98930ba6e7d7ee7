//! A plan in the caller's buffer, under a seal that says what it was made for.

use super::shape::Shape;
use crate::error::KernelError;
use crate::workspace::{carve, carved_bytes, cast};
use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;

/// The first word of a sealed plan.
const MAGIC: u64 = u64::from_le_bytes(*b"cpu-plan");

/// What stands in front of a plan. The entries are too many to be summed up as well; whoever
/// reads them bounds the indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Seal {
    magic: u64,
    window_bits: u64,
    max_len: u64,
    len: u64,
    num_entries: u64,
    offsets_checksum: u64,
}

impl Seal {
    /// The seal of a plan of `shape` with these offsets.
    fn of(shape: &Shape, offsets: &[u32]) -> Self {
        let (num_entries, offsets_checksum) = summary(shape, offsets);
        Self {
            magic: MAGIC,
            window_bits: shape.window_bits().into(),
            max_len: shape.max_len() as u64,
            len: shape.len() as u64,
            num_entries,
            offsets_checksum,
        }
    }

    /// Whether this is the seal of a plan of `shape` with these offsets.
    fn check(&self, shape: &Shape, offsets: &[u32]) -> Result<(), KernelError> {
        if self.magic != MAGIC {
            return Err(KernelError::BrokenPlan { reason: "no digits wrote it" });
        }
        let numbers = [
            ("window_bits", self.window_bits, shape.window_bits().into()),
            ("max_len", self.max_len, shape.max_len() as u64),
            ("len", self.len, shape.len() as u64),
        ];
        for (what, got, expected) in numbers {
            if got != expected {
                return Err(KernelError::ForeignPlan { what, got, expected });
            }
        }
        if *self != Self::of(shape, offsets) {
            return Err(KernelError::BrokenPlan { reason: "overwritten since digits wrote it" });
        }
        Ok(())
    }
}

/// How many entries the windows have together, and a checksum of all offsets that depends on
/// their order.
fn summary(shape: &Shape, offsets: &[u32]) -> (u64, u64) {
    // An odd constant without pattern: 2^64 over the golden ratio.
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let windows: Vec<_> = offsets
        .par_chunks(shape.num_buckets() + 1)
        .map(|offsets| {
            let sum = offsets.iter().fold(MAGIC, |sum, offset| mix(sum, (*offset).into()));
            (u64::from(offsets.last().copied().unwrap_or(0)), sum)
        })
        .collect();
    windows
        .into_iter()
        .fold((0, 0), |(total, sum), (entries, window)| (total + entries, mix(sum, window)))
}

/// A plan's parts, in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    shape: Shape,
    offsets: &'a [u32],
    entries: &'a [u32],
}

impl<'a> Plan<'a> {
    /// The plan that `digits` left in `bytes` for this shape.
    ///
    /// # Errors
    /// Bytes too few, or written by anything but `digits` for an equal shape.
    pub fn from_bytes(shape: Shape, bytes: &'a [u8]) -> Result<Self, KernelError> {
        let expected = shape.plan_bytes();
        let short = || KernelError::Length { what: "plan bytes", got: bytes.len(), expected };
        let mut rest = bytes;
        let mut part = |size_bytes: usize, carved: usize| {
            let (front, after) = rest.split_at_checked(carved).ok_or_else(short)?;
            rest = after;
            front.get(..size_bytes).ok_or_else(short)
        };
        let of_u32 = |len: usize| (len * size_of::<u32>(), carved_bytes::<u32>(len));
        let seal = part(size_of::<Seal>(), carved_bytes::<Seal>(1))?;
        let (size_bytes, carved) = of_u32(shape.num_offsets());
        let offsets = part(size_bytes, carved)?;
        let (size_bytes, carved) = of_u32(shape.num_entries());
        let entries = part(size_bytes, carved)?;
        let seal: &[Seal] = cast("plan bytes", seal)?;
        let offsets = cast("plan bytes", offsets)?;
        let entries = cast("plan bytes", entries)?;
        seal.first().ok_or_else(short)?.check(&shape, offsets)?;
        Ok(Self { shape, offsets, entries })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A window's offsets, one more than there are buckets, and its entries. The entries are under
    /// no seal: readers bound every index.
    pub(crate) fn window(&self, window: usize) -> (&'a [u32], &'a [u32]) {
        let (n, stride) = (self.shape.len(), self.shape.num_buckets() + 1);
        let offsets = self.offsets.get(window * stride..(window + 1) * stride).unwrap_or(&[]);
        let entries = self.entries.get(window * n..(window + 1) * n).unwrap_or(&[]);
        let used = offsets.last().map_or(0, |end| (*end as usize).min(n));
        (offsets, entries.get(..used).unwrap_or(&[]))
    }
}

/// A plan being written: under no seal until `seal`, so that half a plan is none.
pub(super) struct Draft<'a> {
    seal: &'a mut [Seal],
    pub(super) offsets: &'a mut [u32],
    pub(super) entries: &'a mut [u32],
}

impl<'a> Draft<'a> {
    /// Breaks the seal of what `bytes` held.
    pub(super) fn new(shape: &Shape, bytes: &'a mut [u8]) -> Result<Self, KernelError> {
        let (what, mut bytes) = ("plan bytes", bytes);
        let seal: &mut [Seal] = carve(what, &mut bytes, 1)?;
        let offsets = carve(what, &mut bytes, shape.num_offsets())?;
        let entries = carve(what, &mut bytes, shape.num_entries())?;
        seal.fill(Seal::zeroed());
        Ok(Self { seal, offsets, entries })
    }

    /// Says that offsets and entries are those of a plan of `shape`.
    pub(super) fn seal(self, shape: &Shape) {
        self.seal.fill(Seal::of(shape, self.offsets));
    }
}

impl Shape {
    /// Bytes of a plan.
    pub fn plan_bytes(&self) -> usize {
        carved_bytes::<Seal>(1)
            + carved_bytes::<u32>(self.num_offsets())
            + carved_bytes::<u32>(self.num_entries())
    }
}
