// Atomic operations that tests on the host, one thread at a time, see as plain ones.
#pragma once

#include "device.cuh"

// The value before.
TL_HD uint32_t atomic_add(uint32_t *at, uint32_t value) {
#ifdef __CUDA_ARCH__
    return atomicAdd(at, value);
#else
    const uint32_t old = *at;
    *at += value;
    return old;
#endif
}
