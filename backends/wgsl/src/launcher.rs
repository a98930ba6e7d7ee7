//! Turns one operation into commands.

use std::num::NonZeroU64;

use twinlock_api::{DeviceInfo, Error, Region, Result, View};
use twinlock_shaders::Kernel;
use twinlock_shaders::kernels::element;

use crate::gpu::{Gpu, Scopes, words};
use crate::profile::PartProfile;
use crate::timeline::{MAX_DISPATCHES, Part};

/// A view with the buffer that it lies in.
#[derive(Debug, Clone)]
pub(crate) struct BoundView {
    buffer: wgpu::Buffer,
    view: View,
}

impl BoundView {
    /// Length in bytes.
    pub(crate) const fn len_bytes(&self) -> u64 {
        self.view.len_bytes()
    }

    /// The buffer, and where the view starts in it, in bytes.
    pub(crate) const fn place(&self) -> (&wgpu::Buffer, u64) {
        (&self.buffer, self.view.offset_bytes())
    }

    /// What of the buffer is bound (offset and size), and where the view starts in it, in bytes.
    fn placed(&self, align: u64) -> (u64, u64, u64) {
        if self.view.len_bytes() == 0 {
            // Nothing reads it, and there may be nothing behind it to bind.
            return (0, MIN_BINDING_BYTES, 0);
        }
        let start = self.view.offset_bytes() / align * align;
        let rest = self.view.offset_bytes() - start;
        // Whole elements of 16 bytes; buffers are longer than their regions for this.
        (start, (rest + self.view.len_bytes()).next_multiple_of(MIN_BINDING_BYTES), rest)
    }
}

/// The size of the largest array element that kernels declare.
const MIN_BINDING_BYTES: u64 = 16;

/// Encodes the commands of one operation: dispatches, clears and copies, which run in this order.
/// Errors of the API show when the operation is finished, and poison its stream.
pub(crate) struct Launcher<'g> {
    gpu: &'g Gpu,
    /// What failures are called by.
    name: &'static str,
    regions: Vec<(Region, wgpu::Buffer)>,
    part: Option<OpenPart>,
    parts: Vec<Part>,
}

/// Commands being encoded, errors being caught.
struct OpenPart {
    // Dropped in this order: a pass ends before its encoder.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: wgpu::CommandEncoder,
    params: Option<(wgpu::Buffer, Vec<u8>)>,
    dispatches: u32,
    profile: Option<PartProfile>,
    scopes: Scopes,
}

impl<'g> Launcher<'g> {
    /// For an operation on `regions`.
    pub(crate) const fn new(
        gpu: &'g Gpu,
        name: &'static str,
        regions: Vec<(Region, wgpu::Buffer)>,
    ) -> Self {
        Self { gpu, name, regions, part: None, parts: Vec::new() }
    }

    /// The device.
    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    /// The device's limits.
    pub(crate) const fn limits(&self) -> &wgpu::Limits {
        &self.gpu.limits
    }

    /// A view of one of the operation's regions, to bind.
    ///
    /// # Errors
    /// `InvalidArgument` for a region that the operation does not name.
    pub(crate) fn view(&self, view: View) -> Result<BoundView> {
        let found = self.regions.iter().find(|(region, _)| *region == view.region());
        let (_, buffer) = found.ok_or_else(|| {
            Error::invalid(format!("{}: its region is not the operation's", view.name()))
        })?;
        Ok(BoundView { buffer: buffer.clone(), view })
    }

    fn failed(&self, reason: String) -> Error {
        Error::KernelFailed { name: self.name, reason }
    }

    fn part(&mut self) -> &mut OpenPart {
        let device = &self.gpu.device;
        let label = Some(self.name);
        let profiled = self.gpu.profile.is_some();
        self.part.get_or_insert_with(|| OpenPart {
            scopes: Scopes::push(device),
            pass: None,
            encoder: device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label }),
            params: None,
            dispatches: 0,
            profile: profiled.then(|| PartProfile::new(device)),
        })
    }

    /// Runs `groups` workgroups of a kernel. `views` are its bindings in order, `params` its own
    /// parameters behind the offsets, which are put in front of them here.
    ///
    /// # Errors
    /// `KernelFailed` when the kernel does not compile, or `views` or `params` do not fit it.
    pub(crate) fn dispatch(
        &mut self,
        kernel: &Kernel,
        views: &[BoundView],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<()> {
        if groups.contains(&0) {
            return Ok(());
        }
        let gpu = self.gpu;
        let most = gpu.limits.max_compute_workgroups_per_dimension;
        if groups.iter().any(|count| *count > most) {
            return Err(self.failed(format!("{groups:?} workgroups, {most} possible")));
        }
        let name = kernel.name;
        let kernel = gpu.pipelines.get(gpu, kernel)?;
        if views.len() != kernel.bindings.len() || params.len() != kernel.param_words {
            return Err(self.failed(format!(
                "{name} takes {} views and {} parameters, got {} and {}",
                kernel.bindings.len(),
                kernel.param_words,
                views.len(),
                params.len()
            )));
        }
        let align = u64::from(gpu.limits.min_storage_buffer_offset_alignment).max(1);
        let mut words = Vec::with_capacity(views.len() + params.len());
        let mut entries = Vec::with_capacity(views.len() + 1);
        for ((bound, binding), at) in views.iter().zip(&kernel.bindings).zip(0..) {
            let (offset, size, rest) = bound.placed(align);
            let unit = u64::from(binding.unit_bytes).max(1);
            if !rest.is_multiple_of(unit) {
                return Err(self.failed(format!(
                    "{} starts at byte {}, {} counts in {unit}",
                    bound.view.name(),
                    bound.view.offset_bytes(),
                    binding.name
                )));
            }
            words.push((rest / unit) as u32);
            entries.push(wgpu::BindGroupEntry {
                binding: at,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &bound.buffer,
                    offset,
                    size: NonZeroU64::new(size),
                }),
            });
        }
        words.extend_from_slice(params);

        let part = self.part();
        let mut slot = None;
        if !kernel.immediates {
            let (buffer, bytes) =
                part.params.get_or_insert_with(|| (gpu.params.take(&gpu.device), Vec::new()));
            let start = bytes.len();
            bytes.extend_from_slice(bytemuck::cast_slice(&words));
            bytes.resize(start + gpu.params.slot_bytes() as usize, 0);
            slot = Some(start as u32);
            entries.push(wgpu::BindGroupEntry {
                binding: entries.len() as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset: 0,
                    size: NonZeroU64::new((words.len() as u64 * 4).next_multiple_of(16)),
                }),
            });
        }
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &kernel.layout,
            entries: &entries,
        });
        if part.profile.is_some() {
            part.pass = None;
        }
        let pass = part.pass.get_or_insert_with(|| {
            let timestamp_writes = part.profile.as_mut().map(|profile| profile.next(name));
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            part.encoder.begin_compute_pass(&descriptor).forget_lifetime()
        });
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &group, slot.as_slice());
        if kernel.immediates {
            pass.set_immediates(0, bytemuck::cast_slice(&words));
        }
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        self.count()
    }

    /// Sets all words of a view.
    ///
    /// # Errors
    /// As [`Launcher::dispatch`].
    pub(crate) fn fill(&mut self, target: &BoundView, word: u32) -> Result<()> {
        let len_bytes = target.len_bytes();
        if len_bytes == 0 {
            return Ok(());
        }
        if word == 0 {
            let part = self.part();
            part.pass = None;
            part.encoder.clear_buffer(&target.buffer, target.view.offset_bytes(), Some(len_bytes));
            return self.count();
        }
        let views = std::slice::from_ref(target);
        let (words, groups) = self.word_groups(len_bytes)?;
        self.dispatch(&element::FILL, views, &[words, word], groups)
    }

    /// Words of `len_bytes`, and the workgroups for them.
    fn word_groups(&self, len_bytes: u64) -> Result<(u32, [u32; 3])> {
        let words = len_bytes / 4;
        let groups = element::groups(words).zip(u32::try_from(words).ok());
        let ([x, y], words) =
            groups.ok_or_else(|| self.failed(format!("{len_bytes} bytes in one dispatch")))?;
        Ok((words, [x, y, 1]))
    }

    /// Copies one view over another of the same length that it does not overlap.
    ///
    /// # Errors
    /// As [`Launcher::dispatch`].
    pub(crate) fn copy(&mut self, source: &BoundView, target: &BoundView) -> Result<()> {
        let len_bytes = target.len_bytes().min(source.len_bytes());
        if len_bytes == 0 {
            return Ok(());
        }
        if source.view.region() == target.view.region() {
            let views = [source.clone(), target.clone()];
            let (words, groups) = self.word_groups(len_bytes)?;
            return self.dispatch(&element::COPY, &views, &[words], groups);
        }
        let from = (&source.buffer, source.view.offset_bytes());
        self.copy_buffers(from, (&target.buffer, target.view.offset_bytes()), len_bytes)
    }

    /// Copies between two buffers (with offsets in bytes), multiples of 4 bytes.
    pub(crate) fn copy_buffers(
        &mut self,
        source: (&wgpu::Buffer, u64),
        target: (&wgpu::Buffer, u64),
        len_bytes: u64,
    ) -> Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        let part = self.part();
        part.pass = None;
        part.encoder.copy_buffer_to_buffer(source.0, source.1, target.0, target.1, len_bytes);
        self.count()
    }

    /// Ends the part when it is as long as a submission may be.
    fn count(&mut self) -> Result<()> {
        let part = self.part();
        part.dispatches += 1;
        if part.dispatches >= MAX_DISPATCHES { self.end_part() } else { Ok(()) }
    }

    fn end_part(&mut self) -> Result<()> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let OpenPart { pass, mut encoder, params, dispatches, profile, scopes } = part;
        drop(pass);
        if let Some(profile) = &profile {
            profile.resolve(&mut encoder);
        }
        let commands = encoder.finish();
        match scopes.pop() {
            None => {
                self.parts.push(Part { commands, params, dispatches, profile });
                Ok(())
            }
            Some(wgpu::Error::OutOfMemory { .. }) => Err(Error::OutOfMemory {
                what: format!("the driver, for {}", self.name),
                requested_bytes: 0,
                free_bytes: None,
            }),
            Some(error) => Err(self.failed(words(&error))),
        }
    }

    /// Encodes a command that is not valid, for tests.
    pub(crate) fn break_it(&mut self) {
        let buffer = self.gpu.params.take(&self.gpu.device);
        let part = self.part();
        part.pass = None;
        // No offset is odd.
        part.encoder.clear_buffer(&buffer, 1, Some(4));
        self.gpu.params.give_back(vec![buffer]);
    }

    /// The commands, ready to be submitted.
    ///
    /// # Errors
    /// What was wrong with them.
    pub(crate) fn finish(mut self) -> Result<Vec<Part>> {
        self.end_part()?;
        Ok(self.parts)
    }
}
