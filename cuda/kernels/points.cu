// Decodes points, one a thread, in place or not. `status` is lowered to the first bad index.
#include "points.cuh"

namespace {

template <class F>
__device__ __forceinline__ void decode(uint64_t len, uint32_t on_curve, const char *source,
                                       char *target, uint32_t *status) {
    const uint64_t i = uint64_t(blockIdx.x) * points::THREADS + threadIdx.x;
    if (i >= len) return;
    Affine<F> point;
    const uint64_t at = i * sizeof(point);
    if (!points::decode(source + at, on_curve != 0, point)) atomicMin(status, uint32_t(i));
    point.store(target + at);
}

} // namespace

extern "C" __global__ void __launch_bounds__(points::THREADS)
    points_decode_g1(uint64_t len, uint32_t on_curve, const char *source, char *target,
                     uint32_t *status) {
    decode<Fp>(len, on_curve, source, target, status);
}

extern "C" __global__ void __launch_bounds__(points::THREADS)
    points_decode_g2(uint64_t len, uint32_t on_curve, const char *source, char *target,
                     uint32_t *status) {
    decode<Fp2>(len, on_curve, source, target, status);
}
