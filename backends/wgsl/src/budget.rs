//! How much memory a device has, in the driver's words; where it has none, a setting and our own
//! regions have to do.
#![allow(unsafe_code)]

/// What is taken for a device's memory where nothing tells, in bytes.
const ASSUMED_BYTES: u64 = 4 << 30;

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// What one more allocation could get.
    pub(crate) free_bytes: u64,
    /// All of it.
    pub(crate) total_bytes: u64,
    /// What this process holds: our buffers, and all that wgpu and the driver need for themselves.
    pub(crate) used_bytes: u64,
}

/// Memory of an adapter that is not open.
pub(crate) fn total_bytes(adapter: &wgpu::Adapter) -> u64 {
    #[cfg(not(target_vendor = "apple"))]
    let total = vulkan::total_bytes(adapter);
    #[cfg(windows)]
    let total = total.or_else(|| dx12::budget(adapter).map(|budget| budget.total_bytes));
    #[cfg(target_vendor = "apple")]
    let total = metal::budget(adapter).map(|budget| budget.total_bytes);
    total.unwrap_or(ASSUMED_BYTES)
}

/// What the driver says of an adapter's memory, open or not, where it says anything.
pub(crate) fn of_adapter(adapter: &wgpu::Adapter) -> Option<Budget> {
    #[cfg(not(target_vendor = "apple"))]
    let budget = vulkan::budget(adapter);
    #[cfg(windows)]
    let budget = budget.or_else(|| dx12::budget(adapter));
    #[cfg(target_vendor = "apple")]
    let budget = metal::budget(adapter);
    budget
}

/// Why there is no Vulkan at all, if that is so.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn no_vulkan(instance: &wgpu::Instance) -> Option<String> {
    // SAFETY: the instance is only looked for.
    if unsafe { instance.as_hal::<wgpu::hal::api::Vulkan>() }.is_some() {
        return None;
    }
    // SAFETY: the loader's initialisation is all that runs, as it did when wgpu tried.
    if let Err(error) = unsafe { ash::Entry::load() } {
        return Some(format!(
            "no Vulkan loader ({error}); install the GPU's driver and the loader (on Debian: \
             libvulkan1)"
        ));
    }
    Some(
        "the Vulkan loader finds no driver that it can use: no ICD file of an installed driver \
         (see `vulkaninfo --summary`); Mesa's lavapipe would do as a software device"
            .to_owned(),
    )
}

#[cfg(not(target_vendor = "apple"))]
mod vulkan {
    use ash::vk;
    use wgpu::hal::api::Vulkan;

    use super::Budget;

    /// The device's own memory: its largest local heap. (A second, small one is the window through
    /// which the host sees the first.)
    fn local_heap(properties: &vk::PhysicalDeviceMemoryProperties) -> Option<(usize, u64)> {
        let heaps = properties.memory_heaps_as_slice().iter().enumerate();
        heaps
            .filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .map(|(at, heap)| (at, heap.size))
            .max_by_key(|(_, size)| *size)
    }

    pub(super) fn total_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
        // SAFETY: the handles are only used for a query, while the guard lives.
        let properties = unsafe {
            let adapter = adapter.as_hal::<Vulkan>()?;
            let instance = adapter.shared_instance().raw_instance();
            instance.get_physical_device_memory_properties(adapter.raw_physical_device())
        };
        local_heap(&properties).map(|(_, size)| size)
    }

    pub(super) fn budget(adapter: &wgpu::Adapter) -> Option<Budget> {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the handles are only used for a query, while the guard lives. The adapter has the
        // extension that gives the budget its meaning, and the instance the function, which is
        // looked at.
        unsafe {
            let adapter = adapter.as_hal::<Vulkan>()?;
            let capabilities = adapter.physical_device_capabilities();
            if !capabilities.supports_extension(ash::ext::memory_budget::NAME) {
                return None;
            }
            let instance = adapter.shared_instance().raw_instance();
            if instance.fp_v1_1().get_physical_device_memory_properties2 as usize == 0 {
                return None;
            }
            instance.get_physical_device_memory_properties2(
                adapter.raw_physical_device(),
                &mut properties,
            );
        }
        let (at, total_bytes) = local_heap(&properties.memory_properties)?;
        let (budget, used) = (budget.heap_budget.get(at)?, budget.heap_usage.get(at)?);
        Some(Budget {
            free_bytes: budget.saturating_sub(*used).min(total_bytes),
            total_bytes,
            used_bytes: *used,
        })
    }
}

/// DXGI's budget: what the system grants this process of the card's own memory.
#[cfg(windows)]
mod dx12 {
    use wgpu::hal::api::Dx12;

    use super::Budget;

    pub(super) fn budget(adapter: &wgpu::Adapter) -> Option<Budget> {
        // SAFETY: the adapter is only asked, while the guard lives.
        let adapter = unsafe { adapter.as_hal::<Dx12>()? };
        // The group of this value is the local one.
        let info = adapter.raw_adapter().query_video_memory_info(Default::default()).ok()?;
        Some(Budget {
            free_bytes: info.Budget.saturating_sub(info.CurrentUsage),
            total_bytes: info.Budget,
            used_bytes: info.CurrentUsage,
        })
    }
}

/// Metal's working set: what can be in use without paging; this process's own share is known.
#[cfg(target_vendor = "apple")]
mod metal {
    use objc2_metal::MTLDevice;
    use wgpu::hal::api::Metal;

    use super::Budget;

    pub(super) fn budget(adapter: &wgpu::Adapter) -> Option<Budget> {
        // SAFETY: the device is only asked, while the guard lives.
        let adapter = unsafe { adapter.as_hal::<Metal>()? };
        let device = adapter.raw_device();
        let total_bytes = device.recommendedMaxWorkingSetSize();
        let used_bytes = device.currentAllocatedSize() as u64;
        let free_bytes = total_bytes.saturating_sub(used_bytes);
        Some(Budget { free_bytes, total_bytes, used_bytes })
    }
}
