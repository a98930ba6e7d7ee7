// One thread a multiple.
#include "fixed_base.cuh"

#define FIXED_BASE(name, F)                                                                   \
    extern "C" __global__ void __launch_bounds__(normalize::THREADS)                          \
        name(uint64_t len, uint32_t window_bits, const char *table, const char *scalars,      \
             char *target) {                                                                  \
        __shared__ alignas(16) char nodes[2 * normalize::THREADS * sizeof(F)];                \
        const normalize::Tree<F> tree{nodes};                                                 \
        const uint64_t i = uint64_t(blockIdx.x) * normalize::THREADS + threadIdx.x;           \
        Xyzz<F> sum = Xyzz<F>::identity();                                                    \
        if (i < len) {                                                                        \
            const Fr scalar = Fr::load_read_only(scalars + 32 * i);                           \
            sum = fixed_base::multiple<F>(table, window_bits, scalar);                        \
        }                                                                                     \
        NORMALIZE(tree, sum);                                                                 \
        if (i < len) tree.affine(sum, threadIdx.x).store(target + i * sizeof(Affine<F>));     \
    }

FIXED_BASE(fixed_base_g1, Fp)
FIXED_BASE(fixed_base_g2, Fp2)
