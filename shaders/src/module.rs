//! A kernel's text and its interface.

use std::fmt::Write;

use crate::Arithmetic;

/// How a kernel uses a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`: the buffer must not be bound read-write in the same dispatch.
    Read,
    /// `var<storage, read_write>`, whether it writes or not.
    ReadWrite,
}

/// One storage buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The variable's name.
    pub name: &'static str,
    /// How it is declared.
    pub access: Access,
    /// Bytes of an element of its array, and the unit of its offset: 4 for `u32`, 16 for
    /// `vec4<u32>`.
    pub unit_bytes: u32,
    /// Whether the elements are `atomic<u32>`.
    pub atomic: bool,
}

impl Binding {
    /// Field elements, as `array<vec4<u32>>`.
    pub const fn elements(name: &'static str, access: Access) -> Self {
        Self { name, access, unit_bytes: 16, atomic: false }
    }

    /// Words, as `array<u32>`.
    pub const fn words(name: &'static str, access: Access) -> Self {
        Self { name, access, unit_bytes: 4, atomic: false }
    }

    /// Words for atomic operations, as `array<atomic<u32>>`.
    pub const fn atomics(name: &'static str) -> Self {
        Self { name, access: Access::ReadWrite, unit_bytes: 4, atomic: true }
    }
}

/// A kernel by name. Names are unique.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Its name, for keys, errors and logs.
    pub name: &'static str,
    /// Writes it.
    pub source: fn(Arithmetic) -> Module,
}

impl Kernel {
    /// Writes the kernel.
    pub fn build(&self, arithmetic: Arithmetic) -> Module {
        (self.source)(arithmetic)
    }
}

/// A kernel, ready to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The kernel's name.
    pub name: &'static str,
    /// The text.
    pub wgsl: String,
    /// The entry point.
    pub entry: &'static str,
    /// Threads of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Storage buffers, binding 0 first.
    pub bindings: Vec<Binding>,
    /// The kernel's own parameters, after one offset for each binding.
    pub params: Vec<&'static str>,
}

impl Module {
    /// Declarations for `bindings` and `params`, then `body`, then an entry point `main` of
    /// `workgroup_size` threads whose statements are `main`.
    ///
    /// They may use `local` (the thread in its workgroup), `group` (the workgroup's number, over x
    /// and y), `id = group * workgroup_size + local` and `threads` (of the whole grid).
    pub fn assemble(
        name: &'static str,
        workgroup_size: u32,
        bindings: Vec<Binding>,
        params: Vec<&'static str>,
        body: &str,
        main: &str,
    ) -> Self {
        let mut wgsl = String::from("struct Params {\n");
        for binding in &bindings {
            let _ = writeln!(wgsl, "    {}_offset: u32,", binding.name);
        }
        for param in &params {
            let _ = writeln!(wgsl, "    {param}: u32,");
        }
        wgsl.push_str("}\n");
        for (index, Binding { name, access, unit_bytes, atomic }) in bindings.iter().enumerate() {
            let access = match access {
                Access::Read => "read",
                Access::ReadWrite => "read_write",
            };
            let element = match (unit_bytes, atomic) {
                (_, true) => "atomic<u32>",
                (4, false) => "u32",
                _ => "vec4<u32>",
            };
            let _ = writeln!(
                wgsl,
                "@group(0) @binding({index}) var<storage, {access}> {name}: array<{element}>;"
            );
        }
        let _ = writeln!(wgsl, "{}", uniform(bindings.len()));
        let _ = write!(
            wgsl,
            "{body}
@compute @workgroup_size({workgroup_size})
fn main(
    @builtin(workgroup_id) group_xyz: vec3<u32>,
    @builtin(num_workgroups) groups_xyz: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let group = group_xyz.y * groups_xyz.x + group_xyz.x;
    let id = group * {workgroup_size}u + local;
    let threads = groups_xyz.x * groups_xyz.y * {workgroup_size}u;
{main}
}}
"
        );
        Self { name, wgsl, entry: "main", workgroup_size: [workgroup_size, 1, 1], bindings, params }
    }

    /// Words of the params uniform: the offsets, then the kernel's own.
    pub fn params_words(&self) -> usize {
        self.bindings.len() + self.params.len()
    }

    /// The text with the params as immediates (push constants) instead of a uniform.
    pub fn wgsl_with_immediates(&self) -> String {
        self.wgsl.replace(&uniform(self.bindings.len()), "var<immediate> params: Params;")
    }
}

fn uniform(binding: usize) -> String {
    format!("@group(0) @binding({binding}) var<uniform> params: Params;")
}
