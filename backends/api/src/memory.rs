//! Regions, views and staging buffers.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::layout::{ELEMENT_ALIGN_BYTES, FR_BYTES, Group, INDEX_BYTES};

/// Numbers for handles, unique in the process so that a foreign handle is always noticed.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryClass {
    /// Bases and index maps: read by MSMs and gathers.
    Resident,
    /// Everything that operations write.
    Work,
}

/// Device memory taken from the driver in one piece. A handle: [`crate::Device::free`] ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    id: u64,
    class: MemoryClass,
    size_bytes: u64,
}

impl Region {
    /// A handle that no other region of this process has. For backends.
    pub fn fresh(class: MemoryClass, size_bytes: u64) -> Self {
        Self { id: next_id(), class, size_bytes }
    }

    /// The handle's number.
    pub const fn id(self) -> u64 {
        self.id
    }

    /// What the region is for.
    pub const fn class(self) -> MemoryClass {
        self.class
    }

    /// Size in bytes.
    pub const fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// A view of `len_bytes` bytes from `offset_bytes`, both multiples of 4.
    ///
    /// # Errors
    /// `InvalidArgument` when it is misaligned or does not lie within the region.
    pub fn view(self, name: &'static str, offset_bytes: u64, len_bytes: u64) -> Result<View> {
        if !offset_bytes.is_multiple_of(4) || !len_bytes.is_multiple_of(4) {
            return Err(Error::invalid(format!(
                "view {name}: offset {offset_bytes} and length {len_bytes} must be multiples of 4"
            )));
        }
        match offset_bytes.checked_add(len_bytes) {
            Some(end) if end <= self.size_bytes => {
                Ok(View { region: self, name, offset_bytes, len_bytes })
            }
            _ => Err(Error::invalid(format!(
                "view {name}: offset {offset_bytes} and length {len_bytes} exceed {} bytes",
                self.size_bytes
            ))),
        }
    }

    /// A view of the whole region.
    ///
    /// # Errors
    /// `InvalidArgument` when the region's size is no multiple of 4.
    pub fn whole(self, name: &'static str) -> Result<View> {
        self.view(name, 0, self.size_bytes)
    }
}

/// A named range of bytes of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    region: Region,
    name: &'static str,
    offset_bytes: u64,
    len_bytes: u64,
}

impl View {
    /// The region it lies in.
    pub const fn region(self) -> Region {
        self.region
    }

    /// What it holds, for errors and logs.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Offset in bytes from the region's start.
    pub const fn offset_bytes(self) -> u64 {
        self.offset_bytes
    }

    /// Length in bytes.
    pub const fn len_bytes(self) -> u64 {
        self.len_bytes
    }

    /// End in bytes from the region's start.
    pub const fn end_bytes(self) -> u64 {
        self.offset_bytes + self.len_bytes
    }

    /// The same bytes under another name.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The same range in another region. For backends made of others.
    ///
    /// # Errors
    /// `InvalidArgument` when it does not lie within `region`.
    pub fn moved_to(self, region: Region) -> Result<Self> {
        region.view(self.name, self.offset_bytes, self.len_bytes)
    }

    /// `len_bytes` bytes from `start_bytes`, counted from this view's start.
    ///
    /// # Errors
    /// `InvalidArgument` when it is misaligned or does not lie within this view.
    pub fn slice(self, start_bytes: u64, len_bytes: u64) -> Result<Self> {
        match start_bytes.checked_add(len_bytes) {
            Some(end) if end <= self.len_bytes => {
                self.region.view(self.name, self.offset_bytes + start_bytes, len_bytes)
            }
            _ => Err(Error::invalid(format!(
                "slice of {}: start {start_bytes} and length {len_bytes} exceed {} bytes",
                self.name, self.len_bytes
            ))),
        }
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.region == other.region
            && self.offset_bytes < other.end_bytes()
            && other.offset_bytes < self.end_bytes()
    }

    /// Whether the two are the same bytes.
    pub fn same_bytes(self, other: Self) -> bool {
        self.region == other.region
            && self.offset_bytes == other.offset_bytes
            && self.len_bytes == other.len_bytes
    }
}

fn elements(view: View, element_bytes: u64, align_bytes: u64, what: &str) -> Result<()> {
    if view.len_bytes.is_multiple_of(element_bytes) && view.offset_bytes.is_multiple_of(align_bytes)
    {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "view {} of {what}: offset {} must be a multiple of {align_bytes}, length {} of \
         {element_bytes}",
        view.name, view.offset_bytes, view.len_bytes
    )))
}

macro_rules! element_view {
    ($(#[$doc:meta])* $name:ident, $bytes:expr, $align:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(View);

        impl $name {
            /// Takes the bytes of `view` as elements.
            ///
            /// # Errors
            /// `InvalidArgument` on a misaligned start or a partial last element.
            pub fn new(view: View) -> Result<Self> {
                elements(view, $bytes, $align, $what)?;
                Ok(Self(view))
            }

            /// The bytes.
            pub const fn view(self) -> View {
                self.0
            }

            /// Number of elements.
            pub const fn len(self) -> u64 {
                self.0.len_bytes / $bytes
            }

            /// Whether there are none.
            pub const fn is_empty(self) -> bool {
                self.0.len_bytes == 0
            }

            /// `len` elements from element `start`.
            ///
            /// # Errors
            /// `InvalidArgument` when they do not lie within this view.
            pub fn slice(self, start: u64, len: u64) -> Result<Self> {
                Self::new(self.0.slice(start.saturating_mul($bytes), len.saturating_mul($bytes))?)
            }
        }
    };
}

element_view!(
    /// A vector over Fr, 32 bytes an element.
    FrView, FR_BYTES, ELEMENT_ALIGN_BYTES, "Fr elements"
);
element_view!(
    /// A vector of `u32` indices.
    IndexView, INDEX_BYTES, INDEX_BYTES, "indices"
);

/// A vector of affine points, 96 (G1) or 192 (G2) bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointView {
    view: View,
    group: Group,
}

impl PointView {
    /// Takes the bytes of `view` as points of `group`.
    ///
    /// # Errors
    /// `InvalidArgument` on a misaligned start or a partial last point.
    pub fn new(view: View, group: Group) -> Result<Self> {
        elements(view, group.affine_bytes(), ELEMENT_ALIGN_BYTES, "points")?;
        Ok(Self { view, group })
    }

    /// The bytes.
    pub const fn view(self) -> View {
        self.view
    }

    /// The group.
    pub const fn group(self) -> Group {
        self.group
    }

    /// Number of points.
    pub const fn len(self) -> u64 {
        self.view.len_bytes / self.group.affine_bytes()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.view.len_bytes == 0
    }

    /// `len` points from point `start`.
    ///
    /// # Errors
    /// `InvalidArgument` when they do not lie within this view.
    pub fn slice(self, start: u64, len: u64) -> Result<Self> {
        let bytes = self.group.affine_bytes();
        Self::new(
            self.view.slice(start.saturating_mul(bytes), len.saturating_mul(bytes))?,
            self.group,
        )
    }
}

/// Which way a staging buffer's bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StagingKind {
    /// Host to device.
    Upload,
    /// Device to host.
    Download,
}

/// Host memory that the device copies from or to at full speed: pinned (CUDA), mapped (wgpu) or
/// plain (CPU). Made by [`crate::Device::allocate_staging`], freed when dropped (after the copies
/// that use it).
pub trait Staging: Send {
    /// Which way its bytes go.
    fn kind(&self) -> StagingKind;

    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// The bytes, once every enqueued copy that uses the buffer has run. After a download they
    /// are what the device wrote.
    ///
    /// # Errors
    /// `Timeout`, or what the copies failed with.
    fn host(&mut self, timeout: Duration) -> Result<&mut [u8]>;

    /// Overwrites with zeros what [`host`](Self::host) gives only a copy of, behind every copy that is
    /// enqueued, also where copies failed: what was downloaded may be secret. Waits for nothing.
    /// Nothing to do where the host reads what the device writes.
    ///
    /// # Errors
    /// What the device answers.
    fn wipe_copied(&mut self) -> Result<()> {
        Ok(())
    }

    /// For the backend, to find its own type again.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_stay_inside_and_aligned() {
        let region = Region::fresh(MemoryClass::Work, 1024);
        assert!(region.view("v", 0, 1024).is_ok());
        assert!(region.view("v", 4, 1024).is_err());
        assert!(region.view("v", 2, 4).is_err());
        assert!(region.view("v", u64::MAX - 3, 4).is_err());
        let view = region.view("v", 256, 512).unwrap();
        assert_eq!(view.slice(128, 384).unwrap().offset_bytes(), 384);
        assert!(view.slice(128, 385).is_err());
        assert!(view.slice(512, 0).is_ok());
        let fr = FrView::new(view).unwrap();
        assert_eq!(fr.len(), 16);
        assert_eq!(fr.slice(3, 2).unwrap().view().offset_bytes(), 256 + 96);
        assert!(fr.slice(u64::MAX, 1).is_err());
        assert!(FrView::new(view.slice(4, 32).unwrap()).is_err());
        assert!(PointView::new(view, Group::G1).is_err());
    }

    #[test]
    fn overlap_needs_a_shared_byte() {
        let region = Region::fresh(MemoryClass::Work, 1024);
        let a = region.view("a", 0, 256).unwrap();
        let b = region.view("b", 256, 256).unwrap();
        assert!(!a.overlaps(b));
        assert!(a.overlaps(region.view("c", 252, 8).unwrap()));
        let elsewhere = Region::fresh(MemoryClass::Work, 1024);
        assert!(!a.overlaps(elsewhere.whole("d").unwrap()));
    }
}
