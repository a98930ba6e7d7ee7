// What lets the same headers compile for a device and as plain C++.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TL_HD __host__ __device__ __forceinline__
#define TL_HD_CALL __host__ __device__ __noinline__
#else
#define TL_HD inline
#define TL_HD_CALL inline
#endif

// On the host a table is read from ordinary memory.
#ifdef __CUDA_ARCH__
#define TL_CONSTANT __constant__
#else
#define TL_CONSTANT [[maybe_unused]] static const
#endif

#ifdef __CUDACC__
#define TL_UNROLL _Pragma("unroll")
#define TL_NO_UNROLL _Pragma("unroll 1")
#else
#define TL_UNROLL
#define TL_NO_UNROLL
#endif

// A quad of words as one access.
struct alignas(16) Quad {
    uint32_t w[4];
};

TL_HD Quad load_quad(const void *at) {
#ifdef __CUDA_ARCH__
    const uint4 v = *static_cast<const uint4 *>(at);
    return Quad{{v.x, v.y, v.z, v.w}};
#else
    return *static_cast<const Quad *>(at);
#endif
}

// The same through the read-only path, for what no thread of the kernel writes.
TL_HD Quad load_quad_read_only(const void *at) {
#ifdef __CUDA_ARCH__
    const uint4 v = __ldg(static_cast<const uint4 *>(at));
    return Quad{{v.x, v.y, v.z, v.w}};
#else
    return load_quad(at);
#endif
}

TL_HD void store_quad(void *at, const Quad &q) {
#ifdef __CUDA_ARCH__
    *static_cast<uint4 *>(at) = make_uint4(q.w[0], q.w[1], q.w[2], q.w[3]);
#else
    *static_cast<Quad *>(at) = q;
#endif
}
