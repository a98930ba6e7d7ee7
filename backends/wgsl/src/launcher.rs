//! Turns one operation into commands.

use std::num::NonZeroU64;

use twinlock_api::{DeviceInfo, Error, Region, Result, View};
use twinlock_shaders::Kernel;
use twinlock_shaders::kernels::element;

use crate::chunks::{BoundView, Buffers, Piece};
use crate::gpu::{Gpu, Scopes, words};
use crate::params::Params;
use crate::profile::PartProfile;
use crate::steps::{Steps, pieces};
use crate::timeline::{MAX_DISPATCHES, Part};

/// Encodes the commands of one operation: dispatches, clears and copies, which run in this order.
/// Errors of the API show when the operation is finished, and poison its stream.
pub(crate) struct Launcher<'g> {
    gpu: &'g Gpu,
    /// What failures are called by.
    name: &'static str,
    regions: Vec<(Region, Buffers)>,
    part: Option<OpenPart>,
    parts: Vec<Part>,
}

/// Commands being encoded, errors being caught.
struct OpenPart {
    // Dropped in this order: a pass ends before its encoder.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: wgpu::CommandEncoder,
    params: Option<Params>,
    dispatches: u32,
    profile: Option<PartProfile>,
    scopes: Scopes,
}

impl<'g> Launcher<'g> {
    /// For an operation on `regions`.
    pub(crate) const fn new(
        gpu: &'g Gpu,
        name: &'static str,
        regions: Vec<(Region, Buffers)>,
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

    /// How much one dispatch does.
    pub(crate) const fn steps(&self) -> Steps {
        self.gpu.steps
    }

    /// A view of one of the operation's regions, to bind.
    ///
    /// # Errors
    /// `InvalidArgument` for a region that the operation does not name.
    pub(crate) fn view(&self, view: View) -> Result<BoundView> {
        let found = self.regions.iter().find(|(region, _)| *region == view.region());
        let (_, buffers) = found.ok_or_else(|| {
            Error::invalid(format!("{}: its region is not the operation's", view.name()))
        })?;
        Ok(BoundView { buffers: buffers.clone(), view })
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
    /// `KernelFailed` when the kernel does not compile, or `views` or `params` do not fit it;
    /// `ExceedsLimit` when the views lie in more parts than the device can bind.
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
        let align = u64::from(gpu.limits.min_storage_buffer_offset_alignment).max(1);
        let bound: Vec<_> =
            views.iter().map(|view| view.bindings(align, gpu.chunks.binding_bytes)).collect();
        let parts = self.parts(name, bound.iter().map(|(pieces, _)| pieces.len()))?;
        let kernel = gpu.pipelines.get(gpu, kernel, parts)?;
        if views.len() != kernel.bindings.len() || params.len() != kernel.param_words {
            return Err(self.failed(format!(
                "{name} takes {} views and {} parameters, got {} and {}",
                kernel.bindings.len(),
                kernel.param_words,
                views.len(),
                params.len()
            )));
        }
        let mut words = Vec::with_capacity(views.len() + params.len());
        let mut entries = Vec::with_capacity(views.len() * parts as usize + 1);
        for ((bound, (pieces, rest)), binding) in views.iter().zip(bound).zip(&kernel.bindings) {
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
            // Nothing is reached past the last piece, so it can stand for those that are not there.
            let last = pieces.last().copied();
            for piece in pieces.into_iter().chain(last.into_iter().cycle()).take(parts as usize) {
                entries.push(wgpu::BindGroupEntry {
                    binding: entries.len() as u32,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: piece.buffer,
                        offset: piece.start_bytes,
                        size: NonZeroU64::new(piece.len_bytes),
                    }),
                });
            }
        }
        words.extend_from_slice(params);

        let part = self.part();
        let mut slot = None;
        if !kernel.immediates {
            let Params { buffer, bytes, .. } = part.params.get_or_insert_with(|| gpu.params.take());
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

    /// How many parts each binding of a kernel has, for views in so many pieces: one, or few
    /// different numbers, for each is a kernel of its own.
    fn parts(&self, name: &str, pieces: impl ExactSizeIterator<Item = usize>) -> Result<u32> {
        let bindings = pieces.len().max(1) as u64;
        let most = pieces.max().unwrap_or(1).max(1) as u64;
        let possible = u64::from(self.gpu.chunks.bindings);
        let parts = match most.next_power_of_two() {
            1 => 1,
            round if round * bindings <= possible => round,
            _ => most,
        };
        if parts > 1 && parts * bindings > possible {
            return Err(Error::ExceedsLimit {
                what: format!(
                    "storage buffers of {name}, whose views lie in up to {most} pieces of at most \
                     {} bytes",
                    self.gpu.chunks.binding_bytes
                ),
                requested: parts * bindings,
                limit: possible,
            });
        }
        Ok(parts as u32)
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
            return target.pieces().into_iter().try_for_each(|piece| self.clear(piece));
        }
        for (start, len_bytes) in pieces(len_bytes, self.steps().bytes) {
            let target = target.slice(start, len_bytes)?;
            let (words, groups) = self.word_groups(target.len_bytes())?;
            self.dispatch(&element::FILL, &[target], &[words, word], groups)?;
        }
        Ok(())
    }

    /// Zeroes a piece of a buffer, a multiple of 4 bytes.
    ///
    /// # Errors
    /// `KernelFailed` with the API's words.
    pub(crate) fn clear(&mut self, piece: Piece<'_>) -> Result<()> {
        let part = self.part();
        part.pass = None;
        part.encoder.clear_buffer(piece.buffer, piece.start_bytes, Some(piece.len_bytes));
        self.count()
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
            for (start, len_bytes) in pieces(len_bytes, self.steps().bytes) {
                let views = [source.slice(start, len_bytes)?, target.slice(start, len_bytes)?];
                let (words, groups) = self.word_groups(len_bytes)?;
                self.dispatch(&element::COPY, &views, &[words], groups)?;
            }
            return Ok(());
        }
        self.copy_pieces(&source.pieces(), &target.pieces())
    }

    /// Copies between pieces of buffers, multiples of 4 bytes, to the end of either.
    pub(crate) fn copy_pieces(
        &mut self,
        sources: &[Piece<'_>],
        targets: &[Piece<'_>],
    ) -> Result<()> {
        let (mut sources, mut targets) = (sources.iter().copied(), targets.iter().copied());
        let (mut source, mut target) = (sources.next(), targets.next());
        while let (Some(from), Some(to)) = (source, target) {
            let len_bytes = from.len_bytes.min(to.len_bytes);
            if len_bytes > 0 {
                let part = self.part();
                part.pass = None;
                part.encoder.copy_buffer_to_buffer(
                    from.buffer,
                    from.start_bytes,
                    to.buffer,
                    to.start_bytes,
                    len_bytes,
                );
                self.count()?;
            }
            source = from.after(len_bytes).or_else(|| sources.next());
            target = to.after(len_bytes).or_else(|| targets.next());
        }
        Ok(())
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
        let Params { buffer, .. } = self.gpu.params.take();
        let part = self.part();
        part.pass = None;
        // No offset is odd.
        part.encoder.clear_buffer(&buffer, 1, Some(4));
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
