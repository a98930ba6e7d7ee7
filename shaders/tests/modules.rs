//! Every kernel is valid WGSL and can be had in every backend's language.

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use twinlock_shaders::{Arithmetic, Module, all_kernels, kernels};

fn validated(text: &str, arithmetic: Arithmetic, what: &str) -> (naga::Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{what}: {}", error.emit_to_string(text)));
    let capabilities =
        if arithmetic.needs_int64() { Capabilities::SHADER_INT64 } else { Capabilities::empty() };
    let info = Validator::new(ValidationFlags::all(), capabilities | Capabilities::IMMEDIATES)
        .validate(&module)
        .unwrap_or_else(|error| panic!("{what}: {}", error.emit_to_string(text)));
    (module, info)
}

fn translate(kernel: &Module, module: &naga::Module, info: &ModuleInfo) {
    let what = kernel.name;
    let options = spv::Options::default();
    let words = spv::write_vec(module, info, &options, None);
    let words = words.unwrap_or_else(|error| panic!("{what} as SPIR-V: {error}"));
    assert!(words.len() > 5, "{what}: no SPIR-V");
    let options =
        msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    let (text, _) = msl::write_string(module, info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|error| panic!("{what} as MSL: {error}"));
    assert!(text.contains("kernel void"), "{what}: no MSL kernel");
    let options = hlsl::Options {
        shader_model: hlsl::ShaderModel::V6_0,
        fake_missing_bindings: true,
        ..Default::default()
    };
    let pipeline = hlsl::PipelineOptions::default();
    let mut text = String::new();
    hlsl::Writer::new(&mut text, &options, &pipeline)
        .write(module, info, None)
        .unwrap_or_else(|error| panic!("{what} as HLSL: {error}"));
    assert!(text.contains("numthreads"), "{what}: no HLSL kernel");
}

#[test]
fn every_kernel_is_valid_and_translates() {
    for arithmetic in Arithmetic::ALL {
        let measure = kernels::measure::ADDITIONS.build(arithmetic);
        for kernel in all_kernels(arithmetic).into_iter().chain([measure]) {
            let what = format!("{} {arithmetic:?}", kernel.name);
            let (module, info) = validated(&kernel.wgsl, arithmetic, &what);
            translate(&kernel, &module, &info);
            let immediates = kernel.wgsl_with_immediates();
            assert_ne!(immediates, kernel.wgsl, "{what}");
            validated(&immediates, arithmetic, &what);
            assert!(
                module.entry_points.iter().any(|entry| entry.name == kernel.entry
                    && entry.workgroup_size == kernel.workgroup_size),
                "{what}: the entry point differs from the description"
            );
        }
    }
}

#[test]
fn names_are_unique() {
    let kernels = all_kernels(Arithmetic::Narrow);
    for (i, kernel) in kernels.iter().enumerate() {
        assert!(kernels[..i].iter().all(|other| other.name != kernel.name), "{}", kernel.name);
    }
}
