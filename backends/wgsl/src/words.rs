//! Kernels over 32-bit words: fill, and copy within one region, which the API's own copy refuses.

use std::borrow::Cow;

use crate::kernel::{Access, Binding, Module};

/// Threads of a workgroup.
const WIDTH: u32 = 256;
/// Workgroups of the largest grid; each thread strides over the rest.
const MAX_GROUPS: u32 = 16_384;

/// What is done with words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordKernel {
    /// Bindings: target. Parameters: count, word.
    Fill,
    /// Bindings: source, target. Parameters: count.
    Copy,
}

impl WordKernel {
    pub(crate) const ALL: [Self; 2] = [Self::Fill, Self::Copy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Copy => "copy",
        }
    }

    /// Workgroups for `words` words.
    pub(crate) fn groups(words: u64) -> [u32; 3] {
        let groups = words.div_ceil(u64::from(WIDTH)).min(u64::from(MAX_GROUPS));
        [groups as u32, 1, 1]
    }

    pub(crate) fn module(self) -> Module {
        let (names, own, body): (&[&'static str], &[&str], &str) = match self {
            Self::Fill => (
                &["target_words"],
                &["count", "word"],
                "target_words[params.target_words_offset + i] = params.word;",
            ),
            Self::Copy => (
                &["source_words", "target_words"],
                &["count"],
                "target_words[params.target_words_offset + i] = \
                 source_words[params.source_words_offset + i];",
            ),
        };
        let mut wgsl = String::from("struct Params {\n");
        for name in names {
            wgsl += &format!("    {name}_offset: u32,\n");
        }
        for name in own {
            wgsl += &format!("    {name}: u32,\n");
        }
        wgsl += "}\n";
        for (at, name) in names.iter().enumerate() {
            wgsl +=
                &format!("@group(0) @binding({at}) var<storage, read_write> {name}: array<u32>;\n");
        }
        wgsl += &format!("@group(0) @binding({}) var<uniform> params: Params;\n", names.len());
        wgsl += &format!(
            "
@compute @workgroup_size({WIDTH})
fn main(
    @builtin(global_invocation_id) thread: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {{
    let stride = groups.x * {WIDTH}u;
    for (var i = thread.x; i < params.count; i += stride) {{
        {body}
    }}
}}
"
        );
        let binding = |name: &&'static str| Binding {
            name: Cow::Borrowed(*name),
            access: Access::ReadWrite,
            unit_bytes: 4,
        };
        Module {
            wgsl,
            entry: "main",
            workgroup_size: [WIDTH, 1, 1],
            bindings: names.iter().map(binding).collect(),
            param_words: own.len() as u32,
        }
    }
}
