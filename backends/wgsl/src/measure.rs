//! Which arithmetic is the fastest on a device: measured at its first use, then remembered.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use twinlock_shaders::Arithmetic;
use twinlock_shaders::kernels::measure::{ADDITIONS, POINTS, THREADS};

use crate::cache_file;
use crate::gpu::Scopes;

/// How much a run does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Chains of additions, whole workgroups.
    chains: u32,
    /// Additions of a chain.
    rounds: u32,
}

impl Amount {
    /// Fills a large GPU for a millisecond or two; one that is a hundred times slower is done within
    /// a second.
    pub(crate) const FULL: Self = Self { chains: 1 << 16, rounds: 16 };
}

/// Each arithmetic runs so often, in turn, after a first time that does not count.
const RUNS: usize = 3;
/// A run that takes longer is no candidate's.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
const WORDS_PER_POINT: u32 = 48;

/// An arithmetic's name in settings and files.
pub(crate) const fn name(arithmetic: Arithmetic) -> &'static str {
    match arithmetic {
        Arithmetic::Wide => "wide",
        Arithmetic::Sparse => "sparse",
        Arithmetic::Narrow => "narrow",
    }
}

/// What `file` remembers, if anything.
pub(crate) fn remembered(file: &Path) -> Option<Arithmetic> {
    let text = std::fs::read_to_string(file).ok()?;
    Arithmetic::ALL.into_iter().find(|arithmetic| name(*arithmetic) == text.trim())
}

/// Remembers a choice in `file`, in one step.
pub(crate) fn remember(file: &Path, arithmetic: Arithmetic) -> std::io::Result<()> {
    cache_file::replace(file, name(arithmetic).as_bytes())
}

/// The fastest of `candidates`; `None` where none ends a run within `timeout`.
pub(crate) fn fastest(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    candidates: &[Arithmetic],
    amount: Amount,
    timeout: Duration,
) -> Option<Arithmetic> {
    let run = |arithmetic| Run::new(device, queue, arithmetic, amount);
    let mut runs: Vec<_> = candidates
        .iter()
        .filter_map(|arithmetic| Some((*arithmetic, run(*arithmetic)?)))
        .map(|(arithmetic, run)| (arithmetic, run, Duration::MAX))
        .collect();
    for round in 0..=RUNS {
        runs.retain_mut(|(_, run, best)| match run.time(device, queue, timeout) {
            Some(time) if round > 0 => {
                *best = time.min(*best);
                true
            }
            time => time.is_some(),
        });
    }
    for (arithmetic, _, best) in &runs {
        tracing::debug!(?arithmetic, us = best.as_micros() as u64, "measured");
    }
    runs.into_iter().min_by_key(|(_, _, best)| *best).map(|(arithmetic, ..)| arithmetic)
}

/// The kernel with what it runs on.
struct Run {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    groups: u32,
}

impl Run {
    /// `None` where it does not compile, or its buffers find no memory.
    fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        arithmetic: Arithmetic,
        amount: Amount,
    ) -> Option<Self> {
        let Amount { chains, rounds } = amount;
        let module = ADDITIONS.build(arithmetic);
        let scopes = Scopes::push(device);
        // SAFETY: the kernel has been validated by naga, its loop ends after `rounds`, and its
        // indices lie within the buffer that is bound here, by `total`.
        let shader = unsafe {
            device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: Some(module.name),
                    source: wgpu::ShaderSource::Wgsl(module.wgsl.as_str().into()),
                },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(module.name),
            layout: None,
            module: &shader,
            entry_point: Some(module.entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffer = |size: u64, usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(module.name),
                size,
                usage: usage | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        // Any values below the modulus, whose top word is larger.
        let words: Vec<u32> = (0..POINTS * WORDS_PER_POINT)
            .map(|i| {
                i.wrapping_add(1).wrapping_mul(0x9e37_79b9) >> if i % 12 == 11 { 4 } else { 0 }
            })
            .collect();
        let points = u64::from(POINTS + chains);
        let data = buffer(points * u64::from(WORDS_PER_POINT) * 4, wgpu::BufferUsages::STORAGE);
        queue.write_buffer(&data, 0, bytemuck::cast_slice(&words));
        // The offset of the data, total, rounds.
        let params = buffer(16, wgpu::BufferUsages::UNIFORM);
        queue.write_buffer(&params, 0, bytemuck::cast_slice(&[0, chains, rounds, 0]));
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(module.name),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: data.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: params.as_entire_binding() },
            ],
        });
        match scopes.pop() {
            None => Some(Self { pipeline, group, groups: chains / THREADS }),
            Some(error) => {
                tracing::debug!(?arithmetic, %error, "not measured");
                None
            }
        }
    }

    fn time(
        &self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        timeout: Duration,
    ) -> Option<Duration> {
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            pass.dispatch_workgroups(self.groups, 1, 1);
        }
        let commands = encoder.finish();
        let start = Instant::now();
        let submission_index = Some(queue.submit([commands]));
        let wait = wgpu::PollType::Wait { submission_index, timeout: Some(timeout) };
        // wgpu panics when a device is lost in here.
        let waited = catch_unwind(AssertUnwindSafe(|| device.poll(wait))).ok()?;
        waited.ok().filter(wgpu::PollStatus::wait_finished)?;
        Some(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every arithmetic that the first adapter has, where there is one.
    #[test]
    fn a_fastest_is_found() {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::PRIMARY;
        let instance = wgpu::Instance::new(descriptor);
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let Some(adapter) = adapters.into_iter().next() else {
            let required = std::env::var("TWINLOCK_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name == "wgsl"), "no adapter");
            eprintln!("not tested: no adapter");
            return;
        };
        let required_features = adapter.features() & wgpu::Features::SHADER_INT64;
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features,
            required_limits: adapter.limits(),
            ..Default::default()
        }))
        .expect("a device");
        let candidates: Vec<_> = Arithmetic::ALL
            .into_iter()
            .filter(|arithmetic| !arithmetic.needs_int64() || !required_features.is_empty())
            .collect();
        let amount = Amount { chains: THREADS, rounds: 2 };
        // The first run compiles on some devices.
        let timeout = Duration::from_secs(600);
        let found = fastest(&device, &queue, &candidates, amount, timeout);
        assert!(found.is_some_and(|found| candidates.contains(&found)), "{found:?}");
        assert_eq!(fastest(&device, &queue, &[], amount, timeout), None);
    }

    #[test]
    fn choices_are_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("device_1.2");
        assert_eq!(remembered(&file), None);
        for arithmetic in Arithmetic::ALL {
            remember(&file, arithmetic).expect("writes");
            assert_eq!(remembered(&file), Some(arithmetic));
        }
        std::fs::write(&file, "quick").expect("writes");
        assert_eq!(remembered(&file), None);
    }
}
