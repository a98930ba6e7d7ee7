//! Opens an adapter.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use twinlock_api::{DeviceInfo, Error, Result};
use twinlock_shaders::Arithmetic;

use crate::adapters::Found;
use crate::budget;
use crate::choice::Choice;
use crate::chunks::Chunks;
use crate::faults::Faults;
use crate::gpu::Gpu;
use crate::measure::{self, Amount};
use crate::params::ParamPool;
use crate::pipelines::Pipelines;
use crate::profile::Profile;
use crate::settings::Settings;
use crate::timeline::Timeline;

/// Opens `found` with what it has of the features that kernels can use.
pub(crate) fn open(found: Found, settings: &Settings, faults: Arc<Faults>) -> Result<Arc<Gpu>> {
    let Found { adapter, discovered } = found;
    let mut info: DeviceInfo = discovered
        .usable
        .map_err(|reason| Error::Unsupported(format!("{}: {reason}", discovered.name)))?;
    let adapter_info = adapter.get_info();
    let wanted = wgpu::Features::SHADER_INT64
        | wgpu::Features::SUBGROUP
        | wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::IMMEDIATES
        | wgpu::Features::PIPELINE_CACHE;
    let features = adapter.features() & wanted;
    let mut limits = adapter.limits();
    if !features.contains(wgpu::Features::IMMEDIATES) || settings.portable {
        limits.max_immediate_size = 0;
    }
    let before_bytes = budget::of_adapter(&adapter).map(|budget| budget.used_bytes);
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some(&info.name),
        required_features: features,
        required_limits: limits.clone(),
        // Regions are large and have memory of their own; what is left is small.
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    });
    let (device, queue) = pollster::block_on(request)
        .map_err(|error| Error::Unsupported(format!("{}: {error}", info.name)))?;

    let timeline = Arc::new(Timeline::default());
    let lost = Arc::clone(&timeline);
    device.set_device_lost_callback(move |reason, message| {
        lost.lose(&format!("{reason:?} {message}"));
    });
    // Errors are caught in scopes; what is left (in maps, when a device goes) must not panic.
    let name = info.name.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        tracing::error!(device = name, error = %error, "an error outside of any operation");
    }));
    faults.attach(&device, &timeline);

    let software = adapter_info.device_type == wgpu::DeviceType::Cpu;
    let mut choice = choice(&adapter, settings);
    let arithmetic = match choice.arithmetic {
        Some(arithmetic) => arithmetic,
        None => measured(&device, &queue, &adapter_info),
    };
    choice.arithmetic = Some(arithmetic);
    info.driver = driver(&adapter_info, choice);

    let cache_file = features
        .contains(wgpu::Features::PIPELINE_CACHE)
        .then(|| cache_file(&adapter_info))
        .flatten();
    let profile = (settings.profile && features.contains(wgpu::Features::TIMESTAMP_QUERY))
        .then(|| Profile::new(&queue));
    let mut gpu = Gpu {
        overhead_bytes: 0,
        profile,
        params: ParamPool::new(&device, &limits),
        pipelines: Pipelines::new(&device, cache_file.as_deref()),
        chunks: Chunks::new(&limits, settings),
        steps: settings.steps,
        #[cfg(not(target_vendor = "apple"))]
        portable: settings.portable,
        immediate_bytes: limits.max_immediate_size,
        info,
        adapter,
        device,
        queue,
        limits,
        arithmetic,
        timeline,
        faults,
        polling: Mutex::default(),
    };
    tracing::debug!(
        device = gpu.info.name,
        ?arithmetic,
        params_bytes = gpu.params.size_bytes(),
        "opened"
    );
    // A software driver compiles at the first dispatch, and slowly: only what is used, then.
    if !software || settings.eager {
        let start = std::time::Instant::now();
        gpu.pipelines.compile_all(&gpu)?;
        tracing::debug!(ms = start.elapsed().as_millis() as u64, "kernels compiled");
        gpu.pipelines.launch_all(&gpu)?;
        if let Some(file) = &cache_file
            && let Err(error) = gpu.pipelines.save(file)
        {
            tracing::debug!(%error, "the compiled kernels are not kept");
        }
    }
    // Of the whole process: what its other devices on this adapter took meanwhile counts too.
    let after_bytes = budget::of_adapter(&gpu.adapter).map(|budget| budget.used_bytes);
    if let (Some(before), Some(after)) = (before_bytes, after_bytes) {
        gpu.overhead_bytes = after.saturating_sub(before);
        let overhead_bytes = gpu.overhead_bytes;
        tracing::debug!(device = gpu.info.name, overhead_bytes, "device memory taken by opening");
    }
    Ok(Arc::new(gpu))
}

/// The arithmetic of an adapter's kernels, as far as it is known before the adapter is open.
pub(crate) fn choice(adapter: &wgpu::Adapter, settings: &Settings) -> Choice {
    let info = adapter.get_info();
    let int64 = adapter.features().contains(wgpu::Features::SHADER_INT64);
    let software = info.device_type == wgpu::DeviceType::Cpu;
    let remembered = || choice_file(&info).as_deref().and_then(measure::remembered);
    Choice::new(settings.arithmetic, int64, software, remembered)
}

/// Driver, version and API, and the arithmetic.
pub(crate) fn driver(info: &wgpu::AdapterInfo, choice: Choice) -> String {
    let driver = [&*info.driver, &*info.driver_info]
        .into_iter()
        .filter(|text| !text.is_empty())
        .chain([&*format!("{:?}", info.backend)])
        .collect::<Vec<_>>()
        .join(" ");
    format!("{driver}, {}", choice.words())
}

/// The arithmetic that is the fastest, which is remembered.
fn measured(device: &wgpu::Device, queue: &wgpu::Queue, info: &wgpu::AdapterInfo) -> Arithmetic {
    let file = choice_file(info);
    let Some(arithmetic) =
        measure::fastest(device, queue, &Arithmetic::ALL, Amount::FULL, measure::TIMEOUT)
    else {
        return Arithmetic::Wide;
    };
    if let Some(file) = &file
        && let Err(error) = measure::remember(file, arithmetic)
    {
        tracing::debug!(%error, "the measured choice is not kept");
    }
    arithmetic
}

/// Driver and version, fit for a file's name.
fn version(info: &wgpu::AdapterInfo) -> String {
    format!("{} {}", info.driver, info.driver_info)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .take(100)
        .collect()
}

/// Where the measured arithmetic is kept: one file a kind of adapter, driver version and version
/// of ours, whose kernels may differ.
fn choice_file(info: &wgpu::AdapterInfo) -> Option<PathBuf> {
    let folder = cache_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    let name = format!(
        "arithmetic_{:?}_{}_{}_{}_{}_",
        info.backend,
        info.vendor,
        info.device,
        env!("CARGO_PKG_VERSION"),
        version(info)
    );
    Some(folder.join("twinlock").join(name))
}

/// Where the driver's compiled kernels are kept: one file an adapter and driver version.
fn cache_file(info: &wgpu::AdapterInfo) -> Option<PathBuf> {
    let key = wgpu::util::pipeline_cache_key(info)?;
    let folder = cache_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    Some(folder.join("twinlock").join(format!("{key}_{}", version(info))))
}

fn cache_folder(lookup: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    if cfg!(windows) {
        return lookup("LOCALAPPDATA").and_then(absolute);
    }
    lookup("XDG_CACHE_HOME").and_then(absolute).or_else(|| {
        let home = lookup("HOME").and_then(absolute)?;
        Some(home.join(if cfg!(target_vendor = "apple") { "Library/Caches" } else { ".cache" }))
    })
}
