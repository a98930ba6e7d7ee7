// Vectors over Fr: one thread an element. `target` may be the same bytes as any input.
#include "field.cuh"

namespace {

__device__ __forceinline__ uint64_t element() {
    return uint64_t(blockIdx.x) * elements::THREADS + threadIdx.x;
}

__device__ __forceinline__ Fr at(const char *elements, uint64_t i) {
    return Fr::load(elements + 32 * i);
}

} // namespace

#define ELEMENT_KERNEL extern "C" __global__ void __launch_bounds__(elements::THREADS)

// target[i] = source[indices[i]], zero for an index past the source.
ELEMENT_KERNEL element_gather(uint64_t len, uint64_t source_len, const char *source,
                              const uint32_t *indices, char *target) {
    const uint64_t i = element();
    if (i >= len) return;
    const uint64_t index = indices[i];
    Fr value = Fr::zero();
    if (index < source_len) value = Fr::load_read_only(source + 32 * index);
    value.store(target + 32 * i);
}

ELEMENT_KERNEL element_add(uint64_t len, const char *a, const char *b, char *target) {
    const uint64_t i = element();
    if (i < len) (at(a, i) + at(b, i)).store(target + 32 * i);
}

ELEMENT_KERNEL element_sub(uint64_t len, const char *a, const char *b, char *target) {
    const uint64_t i = element();
    if (i < len) (at(a, i) - at(b, i)).store(target + 32 * i);
}

ELEMENT_KERNEL element_mul(uint64_t len, const char *a, const char *b, char *target) {
    const uint64_t i = element();
    if (i < len) (at(a, i) * at(b, i)).store(target + 32 * i);
}

ELEMENT_KERNEL element_scale(uint64_t len, const char *a, Fr factor, char *target) {
    const uint64_t i = element();
    if (i < len) (at(a, i) * factor).store(target + 32 * i);
}

// target = (a b - c) factor.
ELEMENT_KERNEL element_mul_sub_scale(uint64_t len, const char *a, const char *b, const char *c,
                                     Fr factor, char *target) {
    const uint64_t i = element();
    if (i < len) ((at(a, i) * at(b, i) - at(c, i)) * factor).store(target + 32 * i);
}

// Integers to Montgomery form; `status` is lowered to the first index that is not below r.
ELEMENT_KERNEL element_to_montgomery(uint64_t len, const char *source, char *target,
                                     uint32_t *status) {
    const uint64_t i = element();
    if (i >= len) return;
    const Fr value = at(source, i);
    if (!value.below_modulus()) atomicMin(status, uint32_t(i));
    value.to_montgomery().store(target + 32 * i);
}

ELEMENT_KERNEL element_from_montgomery(uint64_t len, const char *source, char *target) {
    const uint64_t i = element();
    if (i < len) at(source, i).from_montgomery().store(target + 32 * i);
}
