//! How regions are cut: into buffers, for a driver's buffers have a limit, and views of them into
//! what is bound at once, for bindings have one too. Nobody above sees it.

use std::sync::Arc;

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Result, View};

use crate::settings::Settings;

/// Most storage bindings of a kernel.
pub(crate) const MAX_BINDINGS: u32 = 7;
/// Every kernel declares elements of this size or smaller ones, in bytes.
const MAX_ELEMENT_BYTES: u64 = 16;

/// A device's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// Bytes of each buffer of a region but the last.
    pub(crate) buffer_bytes: u64,
    /// Bytes that are bound at once, at most.
    pub(crate) binding_bytes: u64,
    /// Storage bindings that a kernel may have.
    pub(crate) bindings: u32,
}

impl Chunks {
    pub(crate) fn new(limits: &wgpu::Limits, settings: &Settings) -> Self {
        let within = |limit: u64, setting: Option<u64>| {
            let bytes = setting.map_or(limit, |setting| setting.min(limit));
            (bytes / ARENA_ALIGN_BYTES).max(1) * ARENA_ALIGN_BYTES
        };
        let binding_bytes = within(limits.max_storage_buffer_binding_size, settings.binding_bytes);
        let bindings = limits.max_storage_buffers_per_shader_stage;
        let mut chunks = Self {
            buffer_bytes: within(limits.max_buffer_size, settings.buffer_bytes),
            binding_bytes,
            bindings,
        };
        if !chunks.can_split() {
            chunks.buffer_bytes = chunks.buffer_bytes.min(binding_bytes);
        }
        chunks
    }

    /// Whether every kernel can have its views in two parts each, which is what views no longer
    /// than a binding need.
    const fn can_split(&self) -> bool {
        self.bindings >= 2 * MAX_BINDINGS
    }

    /// The longest region in bytes: one buffer where kernels cannot have their views in parts.
    pub(crate) const fn max_region_bytes(&self) -> u64 {
        if self.can_split() {
            u64::MAX / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES
        } else {
            self.buffer_bytes
        }
    }
}

/// A region's buffers, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    buffers: Arc<[wgpu::Buffer]>,
    /// Bytes of all but the last.
    each_bytes: u64,
}

/// Bytes of one buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'b> {
    pub(crate) buffer: &'b wgpu::Buffer,
    pub(crate) start_bytes: u64,
    pub(crate) len_bytes: u64,
}

impl Piece<'_> {
    /// What is left behind its first `len_bytes` bytes, if anything is.
    pub(crate) fn after(self, len_bytes: u64) -> Option<Self> {
        let rest = self.len_bytes.saturating_sub(len_bytes);
        let start_bytes = self.start_bytes + len_bytes;
        (rest > 0).then_some(Self { start_bytes, len_bytes: rest, ..self })
    }
}

impl Buffers {
    pub(crate) fn new(buffers: Vec<wgpu::Buffer>, each_bytes: u64) -> Self {
        Self { buffers: buffers.into(), each_bytes }
    }

    /// Where `len_bytes` bytes from `start_bytes` lie, in order, in pieces of at most `most_bytes`.
    fn pieces(&self, start_bytes: u64, len_bytes: u64, most_bytes: u64) -> Vec<Piece<'_>> {
        cut(self.each_bytes, start_bytes, len_bytes, most_bytes)
            .filter_map(|(at, start_bytes, len_bytes)| {
                let buffer = self.buffers.get(usize::try_from(at).ok()?)?;
                Some(Piece { buffer, start_bytes, len_bytes })
            })
            .collect()
    }
}

/// Buffer, start and length of each piece.
fn cut(
    each_bytes: u64,
    start_bytes: u64,
    len_bytes: u64,
    most_bytes: u64,
) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut at, end) = (start_bytes, start_bytes.saturating_add(len_bytes));
    std::iter::from_fn(move || {
        let start = at % each_bytes;
        let len = (end - at).min(each_bytes - start).min(most_bytes);
        let piece = (at / each_bytes, start, len);
        at += len;
        (len > 0).then_some(piece)
    })
}

/// A view with the buffers that it lies in.
#[derive(Debug, Clone)]
pub(crate) struct BoundView {
    pub(crate) buffers: Buffers,
    pub(crate) view: View,
}

impl BoundView {
    /// Length in bytes.
    pub(crate) const fn len_bytes(&self) -> u64 {
        self.view.len_bytes()
    }

    /// A part of the view.
    ///
    /// # Errors
    /// As [`View::slice`].
    pub(crate) fn slice(&self, start_bytes: u64, len_bytes: u64) -> Result<Self> {
        let view = self.view.slice(start_bytes, len_bytes)?;
        Ok(Self { buffers: self.buffers.clone(), view })
    }

    /// Where its bytes lie.
    pub(crate) fn pieces(&self) -> Vec<Piece<'_>> {
        self.buffers.pieces(self.view.offset_bytes(), self.view.len_bytes(), u64::MAX)
    }

    /// What is bound, and where the view starts in it, in bytes: pieces that start at multiples of
    /// `align_bytes`.
    pub(crate) fn bindings(&self, align_bytes: u64, most_bytes: u64) -> (Vec<Piece<'_>>, u64) {
        if self.view.len_bytes() == 0 {
            // Nothing reads it, and there may be nothing behind it to bind.
            return (self.buffers.pieces(0, MAX_ELEMENT_BYTES, most_bytes), 0);
        }
        let start = self.view.offset_bytes() / align_bytes * align_bytes;
        let rest = self.view.offset_bytes() - start;
        // Whole elements; the last buffer is longer than its region for this.
        let len = (rest + self.view.len_bytes()).next_multiple_of(MAX_ELEMENT_BYTES);
        (self.buffers.pieces(start, len, most_bytes), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlock_shaders::{Arithmetic, all_kernels};

    fn limits(buffer: u64, binding: u64, bindings: u32) -> wgpu::Limits {
        wgpu::Limits {
            max_buffer_size: buffer,
            max_storage_buffer_binding_size: binding,
            max_storage_buffers_per_shader_stage: bindings,
            ..wgpu::Limits::default()
        }
    }

    #[test]
    fn no_kernel_has_more_bindings() {
        let kernels = all_kernels(Arithmetic::Narrow);
        let most = kernels.iter().map(|kernel| kernel.bindings.len()).max();
        assert_eq!(most, Some(MAX_BINDINGS as usize));
    }

    #[test]
    fn limits_are_rounded_down() {
        let settings = Settings::default();
        let (buffer, binding) = ((4 << 30) - (2 << 20), (2 << 30) - 4);
        let chunks = Chunks::new(&limits(buffer, binding, 64), &settings);
        assert_eq!((chunks.buffer_bytes, chunks.binding_bytes), (buffer, (2 << 30) - 256));
        assert!(chunks.max_region_bytes() > 1 << 50);
        // Too few bindings to have parts: a region can be bound whole.
        let chunks = Chunks::new(&limits(buffer, binding, 8), &settings);
        assert_eq!(
            (chunks.buffer_bytes, chunks.max_region_bytes()),
            ((2 << 30) - 256, (2 << 30) - 256)
        );
        let settings = Settings { buffer_bytes: Some(4096), binding_bytes: Some(1), ..settings };
        let chunks = Chunks::new(&limits(buffer, binding, 64), &settings);
        assert_eq!((chunks.buffer_bytes, chunks.binding_bytes), (4096, 256));
    }

    #[test]
    fn pieces_end_with_buffers_and_bindings() {
        let cut = |start, len, most| cut(1024, start, len, most).collect::<Vec<_>>();
        assert_eq!(cut(0, 1024, u64::MAX), [(0, 0, 1024)]);
        assert_eq!(cut(1000, 48, u64::MAX), [(0, 1000, 24), (1, 0, 24)]);
        assert_eq!(cut(1024, 2048, 768), [(1, 0, 768), (1, 768, 256), (2, 0, 768), (2, 768, 256)]);
        assert_eq!(cut(5000, 0, 768), []);
    }
}
