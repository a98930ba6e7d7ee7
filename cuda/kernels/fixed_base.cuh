// Multiples of one point by a table of its multiples; see the operation `FixedBase`.
#pragma once

#include "curve.cuh"

namespace fixed_base {

constexpr uint32_t THREADS = 128;

// Digits within -2^(c-1)..=2^(c-1), lowest first, by carries: unlike an MSM's, they do not rest on
// the point's order.
class Digits {
    uint32_t l[9];
    uint32_t c, carry;

  public:
    TL_HD Digits(const Fr &scalar, uint32_t window_bits) : c(window_bits), carry(0) {
        const Fr value = scalar.from_montgomery();
        TL_UNROLL
        for (int i = 0; i < 8; i++) l[i] = value.l[i];
        l[8] = 0;
    }

    TL_HD int32_t next() {
        const uint32_t value = (l[0] & ((1u << c) - 1)) + carry;
        carry = value > (1u << (c - 1)) ? 1 : 0;
        TL_UNROLL
        for (int i = 0; i < 8; i++)
            l[i] = uint32_t(((uint64_t(l[i + 1]) << 32) | l[i]) >> c);
        return int32_t(value) - int32_t(carry << c);
    }
};

template <class F>
static TL_HD Xyzz<F> multiple(const char *table, uint32_t window_bits, const Fr &scalar) {
    const uint32_t row = 1u << (window_bits - 1);
    const uint32_t num_windows = (256 + window_bits - 1) / window_bits;
    Digits digits(scalar, window_bits);
    Xyzz<F> sum = Xyzz<F>::identity();
    for (uint32_t window = 0; window < num_windows; window++) {
        const int32_t digit = digits.next();
        if (digit == 0) continue;
        const uint32_t magnitude = uint32_t(digit < 0 ? -digit : digit);
        const uint64_t at = uint64_t(window) * row + magnitude - 1;
        const Affine<F> entry = Affine<F>::load_read_only(table + at * sizeof(Affine<F>));
        sum.add(digit < 0 ? -entry : entry);
    }
    return sum;
}

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

}  // namespace fixed_base
