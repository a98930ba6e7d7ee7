//! Which adapters there are, and whether they can be used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use twinlock_api::layout::FR_BYTES;
use twinlock_api::{DeviceInfo, Discovered};
use twinlock_shaders::Arithmetic;
use twinlock_shaders::kernels::ntt;

use crate::budget;
use crate::chunks::Chunks;
use crate::open;
use crate::settings::Settings;

/// The backend's name.
pub(crate) const NAME: &str = "wgsl";
/// Ends the model of a device that is a program on the CPU.
const SOFTWARE: &str = " (software)";

/// What every kernel may count on.
const MIN_BINDING_BYTES: u64 = 128 << 20;
const MIN_STORAGE_BUFFERS: u32 = 8;
const MIN_WORKGROUP_THREADS: u32 = 256;
const MIN_WORKGROUP_BYTES: u32 = 16 << 10;

/// Whether a device of this backend is a program on the CPU, slower than the CPU backend.
pub fn is_software(info: &DeviceInfo) -> bool {
    info.model.ends_with(SOFTWARE)
}

/// An adapter, its name here, and whether it can be used.
pub(crate) struct Found {
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) discovered: Discovered,
}

fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: BACKENDS,
            // Validation layers and the like only where `WGPU_VALIDATION` or `WGPU_DEBUG` ask.
            flags: wgpu::InstanceFlags::empty().with_env(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        })
    })
}

/// OpenGL has no compute worth having.
const BACKENDS: wgpu::Backends =
    wgpu::Backends::VULKAN.union(wgpu::Backends::METAL).union(wgpu::Backends::DX12);

/// GPUs before programs, larger kinds first; the order of drivers otherwise.
fn rank(info: &wgpu::AdapterInfo) -> u32 {
    match info.device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// Every adapter, the preferred first.
pub(crate) fn find(settings: &Settings) -> Vec<Found> {
    // Drivers are other people's code.
    let listed = catch_unwind(AssertUnwindSafe(|| {
        pollster::block_on(instance().enumerate_adapters(BACKENDS))
    }));
    let mut adapters: Vec<_> = listed
        .unwrap_or_default()
        .into_iter()
        .map(|adapter| (adapter.get_info(), adapter))
        .collect();
    // The same GPU through DX12 too: once is enough.
    let vulkan: Vec<_> = adapters
        .iter()
        .filter(|(info, _)| info.backend == wgpu::Backend::Vulkan)
        .map(|(info, _)| (info.vendor, info.device))
        .collect();
    adapters.retain(|(info, _)| {
        info.backend != wgpu::Backend::Dx12 || !vulkan.contains(&(info.vendor, info.device))
    });
    adapters.sort_by_key(|(info, _)| rank(info));
    adapters
        .into_iter()
        .enumerate()
        .map(|(at, (info, adapter))| {
            let name = format!("{NAME}:{at}");
            let usable = usable(name.clone(), &info, &adapter, settings);
            Found { adapter, discovered: Discovered { name, usable } }
        })
        .collect()
}

/// Says what was looked for, when there is no adapter at all.
pub(crate) fn nothing_found() -> String {
    #[cfg(not(target_vendor = "apple"))]
    if let Some(no_loader) = budget::no_vulkan(instance()) {
        return no_loader;
    }
    if cfg!(target_vendor = "apple") {
        "Metal lists no GPU".to_owned()
    } else {
        "Vulkan is installed but lists no device: no driver's ICD file was found, or the driver \
         sees no GPU (see `vulkaninfo --summary`); Mesa's lavapipe would do as a software device"
            .to_owned()
    }
}

fn usable(
    name: String,
    adapter_info: &wgpu::AdapterInfo,
    adapter: &wgpu::Adapter,
    settings: &Settings,
) -> Result<DeviceInfo, String> {
    let limits = adapter.limits();
    let flags = adapter.get_downlevel_capabilities().flags;
    let software = adapter_info.device_type == wgpu::DeviceType::Cpu;
    let model = format!("{}{}", adapter_info.name, if software { SOFTWARE } else { "" });
    check(&limits, flags).map_err(|reason| format!("{model}: {reason}"))?;
    let int64 = adapter.features().contains(wgpu::Features::SHADER_INT64);
    if settings.arithmetic.is_some_and(Arithmetic::needs_int64) && !int64 {
        let reason = "wide or sparse arithmetic is asked for, but its shaders have no u64";
        return Err(format!("{model}: {reason}"));
    }
    let driver = open::driver(adapter_info, open::choice(adapter, settings));
    let memory_bytes = settings.memory_bytes.unwrap_or_else(|| budget::total_bytes(adapter));
    let max_region_bytes = Chunks::new(&limits, settings).max_region_bytes().min(memory_bytes);
    let max_lg_domain = (max_region_bytes / FR_BYTES).checked_ilog2().unwrap_or(0);
    if max_lg_domain == 0 {
        return Err(format!("{model}: {memory_bytes} bytes of memory"));
    }
    Ok(DeviceInfo {
        name,
        backend: NAME,
        model,
        driver,
        memory_bytes,
        max_region_bytes,
        // Kernels count in 32 bits.
        max_lg_domain: max_lg_domain.min(ntt::MAX_LG),
    })
}

fn check(limits: &wgpu::Limits, flags: wgpu::DownlevelFlags) -> Result<(), String> {
    if !flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return Err("it has no compute shaders".to_owned());
    }
    let wanted = [
        ("bytes of a storage binding", limits.max_storage_buffer_binding_size, MIN_BINDING_BYTES),
        ("bytes of a buffer", limits.max_buffer_size, MIN_BINDING_BYTES),
        (
            "storage buffers of a kernel",
            limits.max_storage_buffers_per_shader_stage.into(),
            MIN_STORAGE_BUFFERS.into(),
        ),
        (
            "threads of a workgroup",
            limits
                .max_compute_invocations_per_workgroup
                .min(limits.max_compute_workgroup_size_x)
                .into(),
            MIN_WORKGROUP_THREADS.into(),
        ),
        (
            "bytes of workgroup memory",
            limits.max_compute_workgroup_storage_size.into(),
            MIN_WORKGROUP_BYTES.into(),
        ),
    ];
    match wanted.into_iter().find(|(_, has, needs)| has < needs) {
        None => Ok(()),
        Some((what, has, needs)) => Err(format!("{has} {what}, {needs} needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_limits_are_named() {
        let good = wgpu::Limits::default();
        let compute = wgpu::DownlevelFlags::all();
        assert_eq!(check(&good, compute), Ok(()));
        assert!(check(&good, wgpu::DownlevelFlags::empty()).is_err());
        let small = wgpu::Limits { max_compute_workgroup_storage_size: 8192, ..good.clone() };
        let reason = check(&small, compute).expect_err("too small");
        assert!(reason.contains("8192") && reason.contains("16384"), "{reason}");
        let small = wgpu::Limits { max_storage_buffer_binding_size: 4, ..good };
        assert!(check(&small, compute).expect_err("too small").contains("binding"));
    }
}
