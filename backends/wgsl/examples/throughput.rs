//! Field products a second on the first adapter, for each field and arithmetic:
//! `cargo run --release -p twinlock-wgsl --example throughput [-- ROUNDS]`.
//!
//! Each of 2^18 threads multiplies in a chain, `x, y = y, x * y`, or squares, `x = x^2`, ROUNDS times
//! (2,000 if not told). The first threads' results are checked. Prints billions of products a second
//! and the time to compile, which includes the first run.
#![allow(unsafe_code, clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use twinlock_fields::{FP, FR, Field};
use twinlock_shaders::{Access, Arithmetic, Binding, Module, accessors, prelude};

const LG_THREADS: u32 = 18;
const GROUP: u32 = 128;
const RUNS: u32 = 3;

/// What is repeated.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Product,
    Square,
}

fn module(field: &Field, arithmetic: Arithmetic, step: Step) -> Module {
    let f = field.name;
    let quads = field.limbs / 4;
    let body = prelude(field, arithmetic) + &accessors(field, "data", true, arithmetic);
    let step = match step {
        Step::Product => format!("{f}_mul(x, y)"),
        Step::Square => format!("{f}_sqr(y)"),
    };
    let main = format!(
        "    let at = id * {quads}u;
    var x = {f}_load_data(at);
    var y = x;
    for (var round = 0u; round < params.rounds; round++) {{
        let z = {step};
        x = y;
        y = z;
    }}
    {f}_store_data(at, y);"
    );
    let bindings = vec![Binding::elements("data", Access::ReadWrite)];
    Module::assemble("throughput", GROUP, bindings, vec!["rounds"], &body, &main)
}

/// What [`module`] makes of a value, slowly; `R` is the radix of memory.
fn expected(field: &Field, step: Step, value: &[u32], rounds: u32) -> Vec<u32> {
    let standard = field.from_montgomery(value);
    let (mut x, mut y) = (standard.clone(), standard);
    for _ in 0..rounds {
        let z = match step {
            Step::Product => field.mul(&x, &y),
            Step::Square => field.mul(&y, &y),
        };
        (x, y) = (y, z);
    }
    field.to_montgomery(&y)
}

struct Bench {
    device: wgpu::Device,
    queue: wgpu::Queue,
}

impl Bench {
    fn buffer(&self, words: &[u32], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: words.len() as u64 * 4,
            usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        buffer
    }

    fn wait(&self) -> Result<(), wgpu::PollError> {
        let timeout = Some(Duration::from_secs(120));
        self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout }).map(drop)
    }

    fn pipeline(&self, module: &Module) -> wgpu::ComputePipeline {
        // SAFETY: the text's only loop ends after `rounds`, its indices lie within the buffer that
        // `main` binds, one element a thread.
        let shader = unsafe {
            self.device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: None,
                    source: wgpu::ShaderSource::Wgsl(module.wgsl.as_str().into()),
                },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &shader,
            entry_point: Some(module.entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn run(
        &self,
        pipeline: &wgpu::ComputePipeline,
        data: &wgpu::Buffer,
        rounds: u32,
    ) -> Result<Duration, wgpu::PollError> {
        let params = self.buffer(&[0, rounds, 0, 0], wgpu::BufferUsages::UNIFORM);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: data.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: params.as_entire_binding() },
            ],
        });
        self.queue.submit([]);
        self.wait()?;
        let start = Instant::now();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups((1 << LG_THREADS) / GROUP, 1, 1);
        }
        self.queue.submit([encoder.finish()]);
        self.wait()?;
        Ok(start.elapsed())
    }

    /// The first `words` words of `data`.
    fn read(&self, data: &wgpu::Buffer, words: usize) -> Result<Vec<u32>, Box<dyn Error>> {
        let host = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: words as u64 * 4,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(data, 0, &host, 0, host.size());
        self.queue.submit([encoder.finish()]);
        host.map_async(wgpu::MapMode::Read, .., |_| ());
        self.wait()?;
        Ok(bytemuck::cast_slice(&host.slice(..).get_mapped_range()?).to_vec())
    }

    fn measure(
        &self,
        field: &Field,
        arithmetic: Arithmetic,
        step: Step,
        rounds: u32,
    ) -> Result<(), Box<dyn Error>> {
        let values: Vec<_> = (0..64)
            .scan(field.r_squared(), |value, _| {
                *value = field.add(value, &field.power_of_two(-5));
                Some(value.clone())
            })
            .collect();
        let words: Vec<u32> = (0..1usize << LG_THREADS)
            .flat_map(|thread| values[thread % values.len()].iter().copied())
            .collect();
        let start = Instant::now();
        let pipeline = self.pipeline(&module(field, arithmetic, step));
        let data = self.buffer(&words, wgpu::BufferUsages::STORAGE);
        self.run(&pipeline, &data, 3)?;
        let compile = start.elapsed();
        let found = self.read(&data, 64 * field.limbs)?;
        for (value, found) in values.iter().zip(found.chunks(field.limbs)) {
            if expected(field, step, value, 3) != found {
                return Err(format!("{} {arithmetic:?}: a wrong {step:?}", field.name).into());
            }
        }
        let mut best = Duration::MAX;
        for _ in 0..RUNS {
            best = best.min(self.run(&pipeline, &data, rounds)?);
        }
        let products = f64::from(rounds) * f64::from(1u32 << LG_THREADS);
        println!(
            "{} {arithmetic:?} {step:?}: {:.4} G/s ({:.1} ms; compiled in {:.2} s)",
            field.name,
            products / best.as_secs_f64() / 1e9,
            best.as_secs_f64() * 1e3,
            compile.as_secs_f64()
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(2000), |rounds| rounds.parse())?;
    let descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    let adapter = adapters.into_iter().next().ok_or("no adapter")?;
    println!("{}", adapter.get_info().name);
    let required_features = adapter.features() & wgpu::Features::SHADER_INT64;
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_features,
        required_limits: adapter.limits(),
        ..Default::default()
    }))?;
    let bench = Bench { device, queue };
    for field in [FR, FP] {
        for arithmetic in Arithmetic::ALL {
            if arithmetic.needs_int64() && required_features.is_empty() {
                println!("{} {arithmetic:?}: no 64-bit integers", field.name);
                continue;
            }
            for step in [Step::Product, Step::Square] {
                bench.measure(&field, arithmetic, step, rounds)?;
            }
        }
    }
    Ok(())
}
