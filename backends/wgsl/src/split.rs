//! Kernels for views that lie in several bindings.
//!
//! A view may cross from one buffer of its region into the next, or be longer than a binding may
//! be. Such a view is bound in parts, one after the other, and the kernel's text is written anew:
//! each access finds its part by the parts' lengths. Buffers end at multiples of 256 bytes, so no
//! array element, of 4 or 16 bytes, lies in two parts.

use std::collections::BTreeSet;
use std::fmt::Write;

use twinlock_shaders::{Access, Binding};

/// The text of a kernel with `parts` bindings in the place of each of `bindings`, in their order;
/// the uniform of its parameters, if it has one, comes after them.
pub(crate) fn split(wgsl: &str, bindings: &[Binding], parts: u32) -> String {
    let mut text = wgsl.to_owned();
    for (index, binding) in (0..).zip(bindings) {
        let whole = declaration(index, binding, binding.name);
        let in_parts: String = (0..parts)
            .map(|part| {
                let name = format!("{}_part{part}", binding.name);
                declaration(index * parts + part, binding, &name)
            })
            .collect();
        text = text.replace(&whole, &in_parts);
    }
    let uniform = |index: u32| format!("@group(0) @binding({index}) var<uniform>");
    let count = bindings.len() as u32;
    text = text.replace(&uniform(count), &uniform(count * parts));
    let mut accesses = Accesses { bindings, used: BTreeSet::new() };
    let body = accesses.rewrite(&text);
    let mut functions = String::new();
    for (name, how) in &accesses.used {
        if let Some(binding) = bindings.iter().find(|binding| binding.name == name) {
            functions += &function(binding, how, parts);
        }
    }
    body + &functions
}

fn element(binding: &Binding) -> &'static str {
    match (binding.unit_bytes, binding.atomic) {
        (_, true) => "atomic<u32>",
        (4, false) => "u32",
        _ => "vec4<u32>",
    }
}

/// As `twinlock_shaders` declares it.
fn declaration(index: u32, binding: &Binding, name: &str) -> String {
    let access = match binding.access {
        Access::Read => "read",
        Access::ReadWrite => "read_write",
    };
    let element = element(binding);
    format!("@group(0) @binding({index}) var<storage, {access}> {name}: array<{element}>;\n")
}

/// A function that reaches the element `at`, whichever part it lies in.
fn function(binding: &Binding, how: &How, parts: u32) -> String {
    let name = binding.name;
    let element = if binding.atomic { "u32" } else { element(binding) };
    let (takes, gives) = match how {
        How::Get => (String::new(), format!(" -> {element}")),
        How::Set => (format!(", value: {element}"), String::new()),
        How::Atomic(call) if call == "atomicLoad" => (String::new(), " -> u32".to_owned()),
        How::Atomic(call) if call == "atomicStore" => (", value: u32".to_owned(), String::new()),
        How::Atomic(_) => (", value: u32".to_owned(), " -> u32".to_owned()),
    };
    let reach = |part: u32| {
        let place = format!("{name}_part{part}[i]");
        match how {
            How::Get => format!("return {place};"),
            How::Set => format!("{place} = value; return;"),
            How::Atomic(call) if call == "atomicLoad" => format!("return {call}(&{place});"),
            How::Atomic(call) if call == "atomicStore" => {
                format!("{call}(&{place}, value); return;")
            }
            How::Atomic(call) => format!("return {call}(&{place}, value);"),
        }
    };
    let mut text = format!("fn {}(at: u32{takes}){gives} {{\n    var i = at;\n", how.called(name));
    for part in 0..parts.saturating_sub(1) {
        let _ = writeln!(
            text,
            "    let len{part} = arrayLength(&{name}_part{part});\n    if i < len{part} {{ {} }}\n    \
             i -= len{part};",
            reach(part)
        );
    }
    let _ = writeln!(text, "    {}\n}}", reach(parts.saturating_sub(1)));
    text
}

/// How an element is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Get,
    Set,
    /// By the atomic function of this name.
    Atomic(String),
}

impl How {
    /// The function that does so with elements of `name`.
    fn called(&self, name: &str) -> String {
        match self {
            Self::Get => format!("{name}_get"),
            Self::Set => format!("{name}_set"),
            Self::Atomic(call) => format!("{name}_{call}"),
        }
    }
}

struct Accesses<'b> {
    bindings: &'b [Binding],
    used: BTreeSet<(String, How)>,
}

impl Accesses<'_> {
    /// `text` with calls in the place of every `NAME[index]`.
    fn rewrite(&mut self, text: &str) -> String {
        let mut done = String::with_capacity(text.len() * 2);
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let (before, from) = rest.split_at(start);
            done += before;
            let len = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (word, after) = from.split_at(len.unwrap_or(from.len()));
            rest = after;
            let index = self
                .bindings
                .iter()
                .any(|binding| binding.name == word)
                .then(|| enclosed(after))
                .flatten();
            let Some((index, after)) = index else {
                done += word;
                continue;
            };
            rest = self.access(&mut done, word, index, after);
        }
        done + rest
    }

    /// Writes one access behind `done`; the text that is left of `after`.
    fn access<'t>(
        &mut self,
        done: &mut String,
        name: &str,
        index: &str,
        after: &'t str,
    ) -> &'t str {
        let index = self.rewrite(index);
        let assigned = after.trim_start().strip_prefix('=').filter(|value| !value.starts_with('='));
        let atomic = done.strip_suffix("(&").map(str::to_owned);
        let (how, rest) = if let Some(start) = atomic {
            let call = start.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
            let (start, call) = start.split_at(call);
            let how = How::Atomic(call.to_owned());
            let call = how.called(name);
            *done = format!("{start}{call}({index}");
            (how, after)
        } else if let Some((value, rest)) = assigned.and_then(|value| value.split_once(';')) {
            let value = self.rewrite(value);
            *done += &format!("{}({index}, {});", How::Set.called(name), value.trim());
            (How::Set, rest)
        } else {
            *done += &format!("{}({index})", How::Get.called(name));
            (How::Get, after)
        };
        self.used.insert((name.to_owned(), how));
        rest
    }
}

/// What is between the bracket that `text` starts with and its end, and what follows.
fn enclosed(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let mut depth = 1;
    for (at, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((inner.get(..at)?, inner.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use naga::back::{hlsl, msl, spv};
    use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
    use twinlock_shaders::{Arithmetic, all_kernels};

    #[test]
    fn accesses_become_calls() {
        let bindings = [
            Binding::words("a", Access::Read),
            Binding::words("b", Access::ReadWrite),
            Binding::atomics("c"),
        ];
        let mut accesses = Accesses { bindings: &bindings, used: BTreeSet::new() };
        let text =
            "b[a[i] + 1u] = a[b[2u]] + ab[3u];\nif a[0u] == b[1u] { x = atomicMin(&c[a[i]], 4u); }";
        assert_eq!(
            accesses.rewrite(text),
            "b_set(a_get(i) + 1u, a_get(b_get(2u)) + ab[3u]);\nif a_get(0u) == b_get(1u) { x = \
             c_atomicMin(a_get(i), 4u); }"
        );
        let used: Vec<_> = accesses.used.iter().map(|(name, how)| how.called(name)).collect();
        assert_eq!(used, ["a_get", "b_get", "b_set", "c_atomicMin"]);
    }

    fn validated(text: &str, arithmetic: Arithmetic, what: &str) -> (naga::Module, ModuleInfo) {
        let module = naga::front::wgsl::parse_str(text)
            .unwrap_or_else(|error| panic!("{what}: {}", error.emit_to_string(text)));
        let int64 = if arithmetic.needs_int64() {
            Capabilities::SHADER_INT64
        } else {
            Capabilities::empty()
        };
        let info = Validator::new(ValidationFlags::all(), int64 | Capabilities::IMMEDIATES)
            .validate(&module)
            .unwrap_or_else(|error| panic!("{what}: {}", error.emit_to_string(text)));
        (module, info)
    }

    fn translate(module: &naga::Module, info: &ModuleInfo, what: &str) {
        let words = spv::write_vec(module, info, &spv::Options::default(), None);
        words.unwrap_or_else(|error| panic!("{what} as SPIR-V: {error}"));
        let options = msl::Options {
            lang_version: (2, 4),
            fake_missing_bindings: true,
            ..Default::default()
        };
        msl::write_string(module, info, &options, &msl::PipelineOptions::default())
            .unwrap_or_else(|error| panic!("{what} as MSL: {error}"));
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_0,
            fake_missing_bindings: true,
            ..Default::default()
        };
        hlsl::Writer::new(&mut String::new(), &options, &hlsl::PipelineOptions::default())
            .write(module, info, None)
            .unwrap_or_else(|error| panic!("{what} as HLSL: {error}"));
    }

    /// The number of each storage binding, in order, and that of the uniform.
    fn numbers(module: &naga::Module) -> (Vec<u32>, Option<u32>) {
        let (mut storage, mut uniform) = (Vec::new(), None);
        for (_, variable) in module.global_variables.iter() {
            let number = variable.binding.as_ref().map(|place| place.binding);
            match variable.space {
                naga::AddressSpace::Storage { .. } => storage.extend(number),
                naga::AddressSpace::Uniform => uniform = number,
                _ => {}
            }
        }
        storage.sort_unstable();
        (storage, uniform)
    }

    /// Everything that can be compiled in parts is valid, can be had in every API's language, and
    /// has its bindings where the launcher puts them.
    #[test]
    fn every_kernel_can_be_split() {
        for arithmetic in Arithmetic::ALL {
            for kernel in all_kernels(arithmetic) {
                for parts in [2, 3, 4, 9] {
                    let what = format!("{} {arithmetic:?} in {parts} parts", kernel.name);
                    let text = split(&kernel.wgsl, &kernel.bindings, parts);
                    let (module, info) = validated(&text, arithmetic, &what);
                    if parts < 4 {
                        translate(&module, &info, &what);
                    }
                    let bindings = kernel.bindings.len() as u32 * parts;
                    let expected = (0..bindings).collect::<Vec<_>>();
                    assert_eq!(numbers(&module), (expected.clone(), Some(bindings)), "{what}");
                    let text = split(&kernel.wgsl_with_immediates(), &kernel.bindings, parts);
                    let (module, _) = validated(&text, arithmetic, &what);
                    assert_eq!(numbers(&module), (expected, None), "{what}, immediates");
                }
            }
        }
    }
}
