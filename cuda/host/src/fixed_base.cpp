// A block of multiples of a fixed base, or of a table of bases, its threads one after the other
// between barriers.
#include <vector>

#include "base_tables.cuh"
#include "fixed_base.cuh"

namespace {

// Stores the points in affine form.
template <class F>
void store(std::vector<Xyzz<F>> points, char *target) {
    using namespace normalize;
    alignas(16) char nodes[2 * THREADS * sizeof(F)];
    const Tree<F> tree{nodes};
    const size_t len = points.size();
    points.resize(THREADS, Xyzz<F>::identity());
    const auto all = [](auto phase) {
        for (uint32_t thread = 0; thread < THREADS; thread++) phase(thread);
    };
    all([&](uint32_t thread) { tree.leaf(points[thread], thread); });
    for (uint32_t width = THREADS / 2; width != 0; width /= 2)
        all([&](uint32_t thread) { tree.up(width, thread); });
    all([&](uint32_t thread) { tree.turn(thread); });
    for (uint32_t width = 1; width < THREADS; width *= 2)
        all([&](uint32_t thread) { tree.down(width, thread); });
    for (uint32_t i = 0; i < len; i++)
        tree.affine(points[i], i).store(target + i * sizeof(Affine<F>));
}

template <class F>
void multiples(uint32_t len, uint32_t window_bits, const char *table, const char *scalars,
               char *target) {
    std::vector<Xyzz<F>> points;
    for (uint32_t i = 0; i < len; i++)
        points.push_back(
            fixed_base::multiple<F>(table, window_bits, Fr::load(scalars + 32 * i)));
    store(points, target);
}

template <class F>
void next_table(uint32_t len, uint32_t doublings, const char *table, char *next) {
    std::vector<Xyzz<F>> points;
    for (uint32_t i = 0; i < len; i++) {
        const auto base = Affine<F>::load_read_only(table + i * sizeof(Affine<F>));
        points.push_back(base_tables::shifted<F>(base, doublings));
    }
    store(points, next);
}

} // namespace

extern "C" {
void twinlock_cuda_fixed_base_g1(uint32_t len, uint32_t window_bits, const void *table,
                                 const void *scalars, void *target) {
    multiples<Fp>(len, window_bits, static_cast<const char *>(table),
                  static_cast<const char *>(scalars), static_cast<char *>(target));
}
void twinlock_cuda_fixed_base_g2(uint32_t len, uint32_t window_bits, const void *table,
                                 const void *scalars, void *target) {
    multiples<Fp2>(len, window_bits, static_cast<const char *>(table),
                   static_cast<const char *>(scalars), static_cast<char *>(target));
}
void twinlock_cuda_base_table_g1(uint32_t len, uint32_t doublings, const void *table, void *next) {
    next_table<Fp>(len, doublings, static_cast<const char *>(table), static_cast<char *>(next));
}
void twinlock_cuda_base_table_g2(uint32_t len, uint32_t doublings, const void *table, void *next) {
    next_table<Fp2>(len, doublings, static_cast<const char *>(table), static_cast<char *>(next));
}
}
