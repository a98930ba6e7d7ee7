//! Host memory that a Vulkan device copies from: cached, and never the device's own. For buffers
//! that the host writes wgpu prefers the window into the device's memory, which takes room there
//! and is slow to fill.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use twinlock_api::{Error, Result};
use wgpu::hal;

/// A mapped buffer in host memory. Freed by whichever goes last, wgpu's buffer or the staging
/// buffer, for a lost device destroys its buffers under their users.
pub(crate) struct HostMemory {
    device: ash::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: the mapping is plain memory, and handles may be used from any thread.
unsafe impl Send for HostMemory {}
// SAFETY: shared references give the pointer only.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// The first byte; [`HostMemory::size_bytes`] of them are mapped, and were zeroed.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Size in bytes.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn new(device: &hal::vulkan::Device, size_bytes: u64) -> Option<Result<Self, vk::Result>> {
        let raw = device.raw_device().clone();
        let instance = device.shared_instance().raw_instance();
        let size = usize::try_from(size_bytes).ok()?;
        let create = vk::BufferCreateInfo::default()
            .size(size_bytes)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the device is alive while it is borrowed, and the size is not 0.
        let (types, buffer) = unsafe {
            let physical = device.raw_physical_device();
            let types = instance.get_physical_device_memory_properties(physical);
            (types, raw.create_buffer(&create, None))
        };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: it has just been made by this device.
        let needs = unsafe { raw.get_buffer_memory_requirements(buffer) };
        let Some(type_index) = host_type(&types, needs.memory_type_bits) else {
            // SAFETY: nobody else has it.
            unsafe { raw.destroy_buffer(buffer, None) };
            return None;
        };
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(type_index);
        // SAFETY: the type is one of the device's that suits the buffer.
        let memory = match unsafe { raw.allocate_memory(&allocate, None) } {
            Ok(memory) => memory,
            Err(error) => {
                // SAFETY: nobody else has it.
                unsafe { raw.destroy_buffer(buffer, None) };
                return Some(Err(error));
            }
        };
        let mut host =
            Self { device: raw, buffer, memory, start: NonNull::dangling(), size_bytes: size };
        // SAFETY: the memory is large enough for the buffer, can be mapped, is not mapped yet, and
        // nobody knows of it.
        let mapped = unsafe {
            host.device.bind_buffer_memory(buffer, memory, 0).and_then(|()| {
                host.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
            })
        };
        Some(mapped.and_then(|start| {
            host.start = NonNull::new(start.cast()).ok_or(vk::Result::ERROR_MEMORY_MAP_FAILED)?;
            // SAFETY: so many bytes are mapped there, and nobody else has them.
            unsafe { host.start.write_bytes(0, size) };
            Ok(host)
        }))
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: neither wgpu nor a staging buffer uses it any more, so no copy does, and the
        // device is alive: the one that goes last runs in it or holds it.
        unsafe {
            self.device.destroy_buffer(self.buffer, None);
            self.device.free_memory(self.memory, None);
        }
    }
}

/// The memory type of `allowed` that the host writes fastest.
fn host_type(types: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<u32> {
    use vk::MemoryPropertyFlags as Flags;
    let suits = |(index, _): &(u32, &vk::MemoryType)| allowed >> index & 1 == 1;
    let rank =
        |flags: Flags| (!flags.contains(Flags::DEVICE_LOCAL), flags.contains(Flags::HOST_CACHED));
    (0..)
        .zip(types.memory_types_as_slice())
        .filter(suits)
        .map(|(index, memory_type)| (index, memory_type.property_flags))
        .filter(|(_, flags)| flags.contains(Flags::HOST_VISIBLE | Flags::HOST_COHERENT))
        .max_by_key(|(_, flags)| rank(*flags))
        .map(|(index, _)| index)
}

/// A buffer to copy from, in host memory. `None` where the device is not Vulkan's or has no such
/// memory.
///
/// # Errors
/// `OutOfMemory`, or `KernelFailed` with the driver's words.
pub(crate) fn upload_buffer(
    device: &wgpu::Device,
    name: &'static str,
    size_bytes: u64,
) -> Option<Result<(wgpu::Buffer, Arc<HostMemory>)>> {
    let memory = {
        // SAFETY: it is used while the guard lives, and what is made of it is kept apart.
        let hal_device = unsafe { device.as_hal::<hal::api::Vulkan>()? };
        HostMemory::new(&hal_device, size_bytes)?
    };
    let memory = match memory {
        Ok(memory) => Arc::new(memory),
        Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) => {
            return Some(Err(Error::OutOfMemory {
                what: name.to_owned(),
                requested_bytes: size_bytes,
                free_bytes: None,
            }));
        }
        Err(error) => {
            let reason = format!("{name} of {size_bytes} bytes: {error}");
            return Some(Err(Error::KernelFailed { name: "allocate", reason }));
        }
    };
    let held = Arc::clone(&memory);
    let descriptor = wgpu::BufferDescriptor {
        label: Some(name),
        size: size_bytes,
        usage: wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    };
    // SAFETY: the buffer was made by this device with this size for copies from it, its bytes are
    // set, and it lives until wgpu has dropped the callback.
    let buffer = unsafe {
        let raw = hal::vulkan::Buffer::from_raw_externally_owned(
            memory.buffer,
            Box::new(move || drop(held)),
        );
        device.create_buffer_from_hal::<hal::api::Vulkan>(raw, &descriptor)
    };
    Some(Ok((buffer, memory)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::MemoryPropertyFlags as Flags;

    fn types(flags: &[Flags]) -> vk::PhysicalDeviceMemoryProperties {
        let mut types = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: flags.len() as u32,
            ..Default::default()
        };
        for (slot, flags) in types.memory_types.iter_mut().zip(flags) {
            slot.property_flags = *flags;
        }
        types
    }

    #[test]
    fn cached_host_memory_is_preferred_to_the_window() {
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let gpu = types(&[
            Flags::DEVICE_LOCAL,
            host,
            host | Flags::HOST_CACHED,
            host | Flags::DEVICE_LOCAL,
        ]);
        assert_eq!(host_type(&gpu, !0), Some(2));
        assert_eq!(host_type(&gpu, 0b1011), Some(1));
        assert_eq!(host_type(&gpu, 0b1001), Some(3));
        assert_eq!(host_type(&gpu, 0b0001), None);
        // Memory that is not coherent would have to be flushed.
        assert_eq!(host_type(&types(&[Flags::HOST_VISIBLE | Flags::HOST_CACHED]), !0), None);
    }
}
