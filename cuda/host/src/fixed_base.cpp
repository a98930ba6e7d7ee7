// A block of multiples of a fixed base, its threads one after the other between barriers.
#include <vector>

#include "fixed_base.cuh"

namespace {

template <class F>
void block(uint32_t len, uint32_t window_bits, const char *table, const char *scalars,
           char *target) {
    using namespace fixed_base;
    alignas(16) static char nodes[2 * THREADS * sizeof(F)];
    const Tree<F> tree{nodes};
    std::vector<Xyzz<F>> sums(THREADS, Xyzz<F>::identity());
    for (uint32_t i = 0; i < len; i++)
        sums[i] = multiple<F>(table, window_bits, Fr::load(scalars + 32 * i));
    const auto all = [](auto phase) {
        for (uint32_t thread = 0; thread < THREADS; thread++) phase(thread);
    };
    all([&](uint32_t thread) { tree.leaf(sums[thread], thread); });
    for (uint32_t width = THREADS / 2; width != 0; width /= 2)
        all([&](uint32_t thread) { tree.up(width, thread); });
    all([&](uint32_t thread) { tree.turn(thread); });
    for (uint32_t width = 1; width < THREADS; width *= 2)
        all([&](uint32_t thread) { tree.down(width, thread); });
    for (uint32_t i = 0; i < len; i++)
        tree.affine(sums[i], i).store(target + i * sizeof(Affine<F>));
}

} // namespace

extern "C" {
void twinlock_cuda_fixed_base_g1(uint32_t len, uint32_t window_bits, const void *table,
                                 const void *scalars, void *target) {
    block<Fp>(len, window_bits, static_cast<const char *>(table),
              static_cast<const char *>(scalars), static_cast<char *>(target));
}
void twinlock_cuda_fixed_base_g2(uint32_t len, uint32_t window_bits, const void *table,
                                 const void *scalars, void *target) {
    block<Fp2>(len, window_bits, static_cast<const char *>(table),
               static_cast<const char *>(scalars), static_cast<char *>(target));
}
}
