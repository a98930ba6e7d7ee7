//! Compiled kernels, each made once.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use twinlock_api::{Error, Result};
use twinlock_shaders::{Access, Binding, Kernel, kernels};

use crate::cache_file;
use crate::gpu::{Gpu, Scopes, words};
use crate::params::MAX_PARAM_BYTES;
use crate::split::split;

/// The longest that all kernels may take for nothing.
const FIRST_LAUNCH: Duration = Duration::from_secs(60);

/// A kernel, ready to run.
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) bindings: Vec<Binding>,
    /// Words of the kernel's own parameters.
    pub(crate) param_words: usize,
    /// Whether parameters are immediates; else they lie in a uniform.
    pub(crate) immediates: bool,
}

type Slot = Arc<OnceLock<Result<Arc<Pipeline>>>>;

/// A device's kernels.
#[derive(Default)]
pub(crate) struct Pipelines {
    /// By name, for names are unique, and the number of each binding's parts.
    made: Mutex<HashMap<(&'static str, u32), Slot>>,
    cache: Option<wgpu::PipelineCache>,
}

impl Pipelines {
    /// With the driver's cache, as it was left at `file`.
    pub(crate) fn new(device: &wgpu::Device, file: Option<&Path>) -> Self {
        let cache = file.map(|file| {
            let data = std::fs::read(file).ok();
            // SAFETY: the file's name says adapter and driver version, and only `save` writes it,
            // whole or not at all; the driver checks its own header, and starts anew on others.
            unsafe {
                device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                    label: Some("twinlock"),
                    data: data.as_deref(),
                    fallback: true,
                })
            }
        });
        Self { made: Mutex::default(), cache }
    }

    /// Writes the driver's cache to `file`, in one step.
    pub(crate) fn save(&self, file: &Path) -> std::io::Result<()> {
        let Some(data) = self.cache.as_ref().and_then(wgpu::PipelineCache::get_data) else {
            return Ok(());
        };
        cache_file::replace(file, &data)
    }

    /// A kernel whose bindings have so many parts each, compiled if it has not been.
    ///
    /// # Errors
    /// `KernelFailed` with the driver's words, each time.
    pub(crate) fn get(&self, gpu: &Gpu, kernel: &Kernel, parts: u32) -> Result<Arc<Pipeline>> {
        let slot = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry((kernel.name, parts)).or_default())
        };
        // Outside the lock, so that kernels compile side by side.
        slot.get_or_init(|| self.compile(gpu, kernel, parts).map(Arc::new)).clone()
    }

    /// Compiles every kernel, on several threads.
    pub(crate) fn compile_all(&self, gpu: &Gpu) -> Result<()> {
        let all: Vec<_> = kernels::ALL.iter().copied().flatten().collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(16);
        std::thread::scope(|scope| {
            let work = || {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(kernel) = all.get(at) else { return Ok(()) };
                    self.get(gpu, kernel, 1)?;
                }
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                let panicked =
                    || Error::DeviceLost { reason: "a compiling thread panicked".into() };
                thread.join().unwrap_or_else(|_| Err(panicked()))
            })
        })
    }

    /// Launches every kernel once, with nothing to do, so that the driver allocates nothing at a
    /// first launch later.
    pub(crate) fn launch_all(&self, gpu: &Gpu) -> Result<()> {
        let failed = |reason: String| Error::KernelFailed { name: "first launch", reason };
        let scopes = Scopes::push(&gpu.device);
        let buffer = |usage| {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("first launch"),
                size: MAX_PARAM_BYTES,
                usage,
                mapped_at_creation: false,
            })
        };
        // wgpu's buffers are zeros at first.
        let scratch = buffer(wgpu::BufferUsages::STORAGE);
        let params = buffer(wgpu::BufferUsages::UNIFORM);
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for kernel in kernels::ALL.iter().copied().flatten() {
                let kernel = self.get(gpu, kernel, 1)?;
                let words = kernel.bindings.len() + kernel.param_words;
                let mut buffers = vec![&scratch; kernel.bindings.len()];
                if !kernel.immediates {
                    buffers.push(&params);
                }
                let entries: Vec<_> = buffers
                    .into_iter()
                    .zip(0..)
                    .map(|(buffer, binding)| wgpu::BindGroupEntry {
                        binding,
                        resource: buffer.as_entire_binding(),
                    })
                    .collect();
                let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &kernel.layout,
                    entries: &entries,
                });
                pass.set_pipeline(&kernel.pipeline);
                let offsets: &[u32] = if kernel.immediates { &[] } else { &[0] };
                pass.set_bind_group(0, &group, offsets);
                if kernel.immediates {
                    pass.set_immediates(0, bytemuck::cast_slice(&vec![0u32; words]));
                }
                pass.dispatch_workgroups(1, 1, 1);
            }
        }
        let commands = encoder.finish();
        if let Some(error) = scopes.pop() {
            return Err(failed(words(&error)));
        }
        let submission_index = Some(gpu.queue.submit([commands]));
        let timeout = Some(FIRST_LAUNCH);
        if gpu.poll(wgpu::PollType::Wait { submission_index, timeout })? {
            return Ok(());
        }
        Err(failed(format!("not done after {FIRST_LAUNCH:?}")))
    }

    fn compile(&self, gpu: &Gpu, kernel: &Kernel, parts: u32) -> Result<Pipeline> {
        let start = std::time::Instant::now();
        let module = kernel.build(gpu.arithmetic);
        let name = kernel.name;
        let failed = |reason: String| Error::KernelFailed { name, reason };
        let param_bytes = module.params_words() as u64 * 4;
        let immediates = param_bytes <= u64::from(gpu.immediate_bytes);
        if param_bytes > MAX_PARAM_BYTES {
            return Err(failed(format!(
                "{param_bytes} bytes of parameters, {MAX_PARAM_BYTES} possible"
            )));
        }
        let wgsl = if immediates { module.wgsl_with_immediates() } else { module.wgsl };
        let wgsl = if parts > 1 { split(&wgsl, &module.bindings, parts) } else { wgsl };
        let scopes = Scopes::push(&gpu.device);
        // SAFETY: every kernel has been parsed and validated by naga (again here), its loops end,
        // and its indices are bounded by its parameters, which the operations' shapes bound.
        let shader = unsafe {
            gpu.device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: Some(name),
                    source: wgpu::ShaderSource::Wgsl(wgsl.into()),
                },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let mut entries: Vec<_> = module
            .bindings
            .iter()
            .flat_map(|binding| std::iter::repeat_n(binding, parts as usize))
            .zip(0..)
            .map(|(binding, at)| {
                let read_only = binding.access == Access::Read;
                entry(at, wgpu::BufferBindingType::Storage { read_only }, false)
            })
            .collect();
        if !immediates {
            entries.push(entry(entries.len() as u32, wgpu::BufferBindingType::Uniform, true));
        }
        let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(name),
            entries: &entries,
        });
        let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: if immediates { param_bytes as u32 } else { 0 },
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module: &shader,
            entry_point: Some(module.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: self.cache.as_ref(),
        });
        if let Some(error) = scopes.pop() {
            return Err(failed(words(&error)));
        }
        tracing::debug!(kernel = name, parts, ms = start.elapsed().as_millis() as u64, "compiled");
        Ok(Pipeline {
            pipeline,
            layout,
            bindings: module.bindings,
            param_words: module.params.len(),
            immediates,
        })
    }
}

fn entry(
    binding: u32,
    ty: wgpu::BufferBindingType,
    has_dynamic_offset: bool,
) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
        count: None,
    }
}
