//! The WGSL backend: any GPU that wgpu reaches through Vulkan, Metal or DX12.

mod ops;
