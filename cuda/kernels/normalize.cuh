// Points of a block to affine form, by one inversion.
#pragma once

#include "curve.cuh"

namespace normalize {

// 1 / a = a^(p - 2) (Fermat); of zero, zero.
static TL_HD Called<Fp> inverse(const Called<Fp> &a) {
    Called<Fp> out = Fp::one();
    for (int i = 32 * Fp::N - 1; i >= 0; i--) {
        // The lowest limb is above 2.
        const uint32_t limb = FpParams::modulus(i / 32) - (i / 32 == 0 ? 2 : 0);
        out = sqr(out);
        if ((limb >> (i % 32)) & 1) out = out * a;
    }
    return out;
}

static TL_HD Called<Fp2> inverse(const Called<Fp2> &a) {
    const Called<Fp> c0 = a.c0, c1 = a.c1;
    const Called<Fp> over_norm = inverse(sqr(c0) + sqr(c1));
    return Fp2{c0 * over_norm, -(c1 * over_norm)};
}

// One inversion for a block: a tree of products over the threads' denominators, upside down once
// its root is inverted. Phases with a barrier between them. Shared: 2 * THREADS elements.
template <class F>
struct Tree {
    using C = Called<F>;

    char *nodes;

    TL_HD char *node(uint32_t i) const { return nodes + i * sizeof(F); }
    TL_HD C value(uint32_t i) const { return F::load(node(i)); }

    TL_HD void leaf(const Xyzz<F> &point, uint32_t thread) const {
        (point.is_identity() ? F::one() : point.zzz).store(node(THREADS + thread));
    }
    // For width = THREADS / 2, THREADS / 4, ..., 1.
    TL_HD void up(uint32_t width, uint32_t thread) const {
        if (thread >= width) return;
        const uint32_t i = width + thread;
        (value(2 * i) * value(2 * i + 1)).store(node(i));
    }
    TL_HD void turn(uint32_t thread) const {
        if (thread == 0) inverse(value(1)).store(node(1));
    }
    // For width = 1, 2, ..., THREADS / 2.
    TL_HD void down(uint32_t width, uint32_t thread) const {
        if (thread >= width) return;
        const uint32_t i = width + thread;
        const C over = value(i);
        const C left = value(2 * i), right = value(2 * i + 1);
        (over * right).store(node(2 * i));
        (over * left).store(node(2 * i + 1));
    }
    // With zz = z^2 and zzz = z^3: 1 / zz = (zz / zzz)^2.
    TL_HD Affine<F> affine(const Xyzz<F> &point, uint32_t thread) const {
        if (point.is_identity()) return Affine<F>{F::zero(), F::zero()};
        const C over_zzz = value(THREADS + thread);
        const C over_z = over_zzz * point.zz;
        return Affine<F>{sqr(over_z) * point.x, over_zzz * point.y};
    }
};

}  // namespace normalize

// The phases, for one point a thread: afterwards `tree.affine(sum, threadIdx.x)` is its affine form.
#define NORMALIZE(tree, sum)                                                     \
    do {                                                                         \
        tree.leaf(sum, threadIdx.x);                                             \
        for (uint32_t width = normalize::THREADS / 2; width != 0; width /= 2) {  \
            __syncthreads();                                                     \
            tree.up(width, threadIdx.x);                                         \
        }                                                                        \
        __syncthreads();                                                         \
        tree.turn(threadIdx.x);                                                  \
        for (uint32_t width = 1; width < normalize::THREADS; width *= 2) {       \
            __syncthreads();                                                     \
            tree.down(width, threadIdx.x);                                       \
        }                                                                        \
        __syncthreads();                                                         \
    } while (0)
