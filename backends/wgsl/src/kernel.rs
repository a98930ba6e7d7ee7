//! What the launcher has to know of a kernel.

use std::borrow::Cow;

/// How a kernel uses a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`: for `Resident` regions, or ones that no other binding writes.
    Read,
    /// `var<storage, read_write>`: for everything in `Work` regions, read or written.
    ReadWrite,
}

/// A storage buffer of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its name in the text.
    pub name: Cow<'static, str>,
    /// How it is declared.
    pub access: Access,
    /// The unit that `NAME_offset` counts in: the size of an array element in bytes, 4 or 16.
    pub unit_bytes: u32,
}

/// A kernel's text and its interface.
///
/// Group 0 holds `bindings` in order and, as the last binding, `var<uniform> params`: a struct of
/// `u32` words, first one `NAME_offset` a binding in the same order (where the view starts behind
/// the start of what is bound, in units of that binding), then the kernel's own parameters.
#[derive(Debug, Clone)]
pub struct Module {
    /// The text.
    pub wgsl: String,
    /// The entry point.
    pub entry: &'static str,
    /// Threads of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Storage buffers.
    pub bindings: Vec<Binding>,
    /// Words of the kernel's own parameters.
    pub param_words: u32,
}

impl Module {
    /// Words of the whole params struct.
    pub fn uniform_words(&self) -> usize {
        self.bindings.len() + self.param_words as usize
    }
}

pub use crate::settings::{Arithmetic, Style};
use crate::words::WordKernel;

/// A kernel and the variant of it: what pipelines are kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// Fill and copy by words.
    Words(WordKernel),
}

impl KernelKey {
    /// Every kernel.
    pub fn all() -> Vec<Self> {
        WordKernel::ALL.into_iter().map(Self::Words).collect()
    }

    /// Its name, for errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words(kernel) => kernel.name(),
        }
    }

    /// Its text.
    pub fn module(self, _arithmetic: Arithmetic, _style: Style) -> Module {
        match self {
            Self::Words(kernel) => kernel.module(),
        }
    }
}
