//! Runs one module on the first adapter.

use std::time::Duration;

use twinlock_shaders::{Access, Arithmetic, Module};

/// A device, or `None` (said on stderr) where there is none and `TWINLOCK_REQUIRE` does not ask for
/// one.
pub fn open(arithmetic: Arithmetic) -> Option<Gpu> {
    match pollster::block_on(Gpu::open(arithmetic)) {
        Ok(gpu) => Some(gpu),
        Err(reason) => {
            let required = std::env::var("TWINLOCK_REQUIRE").unwrap_or_default();
            let asked = required.split(',').any(|name| name.trim().starts_with("wgsl"));
            assert!(!asked, "wgsl is required: {reason}");
            eprintln!("skipped: {reason}");
            None
        }
    }
}

/// An adapter's device.
pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
}

impl Gpu {
    async fn open(arithmetic: Arithmetic) -> Result<Self, String> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::PRIMARY;
        let instance = wgpu::Instance::new(descriptor);
        let adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
        let adapter = adapters.into_iter().next().ok_or("no adapter")?;
        let features = if arithmetic.needs_int64() {
            wgpu::Features::SHADER_INT64
        } else {
            wgpu::Features::empty()
        };
        if !adapter.features().contains(features) {
            return Err(format!("{} lacks {features:?}", adapter.get_info().name));
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) =
            adapter.request_device(&descriptor).await.map_err(|error| error.to_string())?;
        Ok(Self { device, queue })
    }

    /// Compiles `module`.
    pub fn pipeline(&self, module: &Module) -> wgpu::ComputePipeline {
        let shader = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(module.name),
            source: wgpu::ShaderSource::Wgsl(module.wgsl.as_str().into()),
        });
        let storage = module.bindings.iter().map(|binding| wgpu::BufferBindingType::Storage {
            read_only: binding.access == Access::Read,
        });
        let entries: Vec<_> = storage
            .chain([wgpu::BufferBindingType::Uniform])
            .zip(0..)
            .map(|(ty, binding)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty,
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        });
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(module.name),
            layout: Some(&layout),
            module: &shader,
            entry_point: Some(module.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[],
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        })
    }

    /// A storage buffer of `words`.
    pub fn buffer(&self, words: &[u32]) -> wgpu::Buffer {
        self.filled(words, wgpu::BufferUsages::STORAGE)
    }

    fn filled(&self, words: &[u32], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: (words.len() as u64 * 4).max(16),
            usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        buffer
    }

    /// Dispatches `groups` with a whole buffer for each binding. `params` begins with the offsets.
    pub fn dispatch(
        &self,
        pipeline: &wgpu::ComputePipeline,
        buffers: &[&wgpu::Buffer],
        params: &[u32],
        groups: [u32; 2],
    ) {
        let params = self.filled(params, wgpu::BufferUsages::UNIFORM);
        let entries: Vec<_> = buffers
            .iter()
            .copied()
            .chain([&params])
            .zip(0..)
            .map(|(buffer, binding)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(groups[0], groups[1], 1);
        }
        self.queue.submit([encoder.finish()]);
    }

    /// The words of `buffer` after all that was dispatched.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Vec<u32> {
        let host = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: buffer.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &host, 0, buffer.size());
        self.queue.submit([encoder.finish()]);
        host.map_async(wgpu::MapMode::Read, .., |result| result.expect("mapped"));
        let wait = wgpu::PollType::Wait {
            submission_index: None,
            timeout: Some(Duration::from_secs(1800)),
        };
        self.device.poll(wait).expect("done in half an hour");
        let mapped = host.slice(..).get_mapped_range().expect("mapped");
        bytemuck::cast_slice(&mapped).to_vec()
    }
}
