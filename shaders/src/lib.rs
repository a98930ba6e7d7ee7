//! WGSL kernels for BLS12-381, assembled from one description of each field.
//!
//! [`field`] writes the arithmetic, [`formula`] and [`curve`] the points' formulas, [`kernels`]
//! the stages. A [`Kernel`] is built into a [`Module`]: the text and how to bind it.
//!
//! # What a launcher has to know
//! * Every binding is one storage buffer of group 0, numbered from 0 in the order of
//!   [`Module::bindings`]; the uniform [`Module::params`] follows them.
//! * The uniform is a struct of `u32`: first `NAME_offset` for each binding in order, in units of
//!   that binding's element (4 or 16 bytes) from where the buffer is bound to where the view
//!   starts; then the kernel's own, in the order of [`Module::params`].
//! * Two bindings of one dispatch may be ranges of one buffer, the same range even: kernels
//!   neither rely on a range being apart from another nor need it, unless their docs say so.
//! * The grid is x by y workgroups of [`Module::workgroup_size`]: kernels number their workgroups
//!   by `y * grid.x + x`, so any split of the groups over x and y will do; surplus ones end at once.

pub mod curve;
pub mod field;
pub mod formula;
pub mod kernels;
mod module;

pub use field::{accessors, literal, loose, prelude};
pub use module::{Access, Binding, Kernel, Module};

/// How field elements are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// 32-bit limbs, products and carries in `u64`.
    Wide,
    /// 29-bit (Fr) and 28-bit (Fp) limbs, whose products add up in `u64` without carries: more
    /// products, fewer additions.
    Sparse,
    /// 13-bit limbs, whose products add up in 32 bits.
    Narrow,
}

impl Arithmetic {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Wide, Self::Sparse, Self::Narrow];

    /// Whether it needs `SHADER_INT64`.
    pub const fn needs_int64(self) -> bool {
        !matches!(self, Self::Narrow)
    }
}

/// Every kernel, built.
pub fn all_kernels(arithmetic: Arithmetic) -> Vec<Module> {
    kernels::ALL.iter().copied().flatten().map(|kernel| kernel.build(arithmetic)).collect()
}
