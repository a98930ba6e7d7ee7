// One thread a point: from each table to the next.
#include "base_tables.cuh"

#define BASE_TABLE(name, F)                                                                   \
    extern "C" __global__ void __launch_bounds__(normalize::THREADS)                          \
        name(uint64_t len, uint32_t doublings, const char *table, char *next) {               \
        __shared__ alignas(16) char nodes[2 * normalize::THREADS * sizeof(F)];                \
        const normalize::Tree<F> tree{nodes};                                                 \
        const uint64_t i = uint64_t(blockIdx.x) * normalize::THREADS + threadIdx.x;           \
        Xyzz<F> point = Xyzz<F>::identity();                                                  \
        if (i < len) {                                                                        \
            const Affine<F> base = Affine<F>::load_read_only(table + i * sizeof(Affine<F>));  \
            point = base_tables::shifted<F>(base, doublings);                                 \
        }                                                                                     \
        NORMALIZE(tree, point);                                                               \
        if (i < len) tree.affine(point, threadIdx.x).store(next + i * sizeof(Affine<F>));     \
    }

BASE_TABLE(base_table_g1, Fp)
BASE_TABLE(base_table_g2, Fp2)
