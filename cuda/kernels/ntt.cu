// Transforms: one block a tile, 8 elements a thread.
#include "ntt.cuh"

using namespace ntt;

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 3)
    ntt_pass(char *data, const char *tables, uint32_t lg, uint32_t bits, uint32_t at,
             uint32_t cols, uint32_t weight, uint32_t flags, Fr scale, Fr scale_quotient, Fr w8,
             Fr w8_quotient, Fr w4, Fr w4_quotient, Fr w83, Fr w83_quotient) {
    extern __shared__ __align__(16) char shared[];
    const Pass pass{data, tables, lg, bits, at, cols, weight, flags};
    const uint32_t tile = blockIdx.x, thread = threadIdx.x;
    Fr v[8];
    const uint32_t row = pass.row(thread), steps = pass.steps();
    pass.load(tile, thread, v);
    pass.prepare(shared, tile, thread, Known{scale, scale_quotient});
    if (pass.load_staged()) {
        pass.write(shared, thread, pass.places(0, row), v);
        __syncthreads();
        pass.read(shared, thread, pass.reversed_places(0, row), v);
    }
    __syncthreads();
    // There is one copy of this code, of each kind of product one: more than that does not fit the
    // instruction cache.
#pragma unroll 1
    for (uint32_t round = 0; round <= steps; round++) {
        if (round != 0)
            transform(v, pass.levels(round - 1), Known{w8, w8_quotient},
                      FourthRoot{{w4, w4_quotient}, pass.has(FOURTH_ROOT_NEGATED)},
                      Known{w83, w83_quotient});
        const uint32_t factors = pass.factor_count(round);
#pragma unroll 1
        for (uint32_t f = 0; f < factors; f++)
            pass.multiply(pass.factor(shared, round, f, thread), v);
        if (!pass.exchanges(round)) continue;
        pass.write(shared, thread, pass.places(round - 1, row), v);
        __syncthreads();
        pass.read(shared, thread, pass.places(round == steps ? 0 : round, row), v);
    }
    if (pass.factor_count(steps) == 0) reduce(v);
    pass.store(tile, thread, v);
}

extern "C" __global__ void __launch_bounds__(1)
    ntt_tiny(char *data, const char *tables, uint32_t lg, uint32_t flags, Fr scale,
             Fr scale_quotient) {
    tiny(Pass{data, tables, lg, lg, 0, 0, 0, flags}, Known{scale, scale_quotient});
}

extern "C" __global__ void __launch_bounds__(Reversal::THREADS)
    ntt_reverse(char *data, uint32_t lg) {
    __shared__ __align__(16) char shared[Reversal::SHARED_BYTES];
    const Reversal reversal{data, lg, blockIdx.x};
    if (reversal.idle()) return;
    reversal.read(shared, threadIdx.x);
    __syncthreads();
    reversal.write(shared, threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS) ntt_tables(char *tables) {
    const uint32_t i = blockIdx.x * MAX_THREADS + threadIdx.x;
    if (i < TABLES_LEN) table_entry(i).store(tables + 32 * size_t(i));
}
