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

// Adds one to a key's count for each thread that `is_counted`; the count before, in any order of
// the threads. All threads of a warp come here together. Shared memory takes a warp's additions to
// one address one by one: where many threads have the same key, one of them adds for all.
TL_HD uint32_t count_key(uint32_t *counts, uint32_t key, bool is_counted) {
    uint32_t before = 0;
#ifdef __CUDA_ARCH__
    constexpr uint32_t ALL = ~0u;
    constexpr int MANY = 8;
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t left = __ballot_sync(ALL, is_counted); left != 0;) {
        const uint32_t first = __ffs(left) - 1;
        const uint32_t same = left & __ballot_sync(ALL, key == __shfl_sync(ALL, key, first));
        if (__popc(same) < MANY) break;
        uint32_t sum = 0;
        if (lane == first) sum = atomicAdd(&counts[key], uint32_t(__popc(same)));
        sum = __shfl_sync(ALL, sum, first);
        if ((same >> lane & 1) != 0) {
            before = sum + __popc(same & ((1u << lane) - 1));
            is_counted = false;
        }
        left &= ~same;
    }
#endif
    if (is_counted) before = atomic_add(&counts[key], 1);
    return before;
}
