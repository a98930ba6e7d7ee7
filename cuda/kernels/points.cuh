// Points as parameter files hold them: x then y, each big-endian (of Fp2 the higher coefficient
// first), with Zcash's flags in the first byte's top three bits.
#pragma once

#include "curve.cuh"

namespace points {

TL_HD uint32_t swap_bytes(uint32_t word) {
#ifdef __CUDA_ARCH__
    return __byte_perm(word, 0, 0x0123);
#else
    return word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
#endif
}

// 48 bytes, big-endian.
TL_HD Fp read_fp(const void *at) {
    Fp out;
    TL_UNROLL
    for (int i = 0; i < 3; i++) {
        const Quad q = load_quad(static_cast<const char *>(at) + 16 * i);
        TL_UNROLL
        for (int k = 0; k < 4; k++) out.l[11 - 4 * i - k] = swap_bytes(q.w[k]);
    }
    return out;
}

TL_HD bool coordinates_below(const Fp &c) { return c.below_modulus(); }
TL_HD bool coordinates_below(const Fp2 &c) {
    return c.c0.below_modulus() && c.c1.below_modulus();
}

TL_HD Fp to_montgomery(const Fp &c) { return c.to_montgomery(); }
TL_HD Fp2 to_montgomery(const Fp2 &c) {
    return Fp2{c.c0.to_montgomery(), c.c1.to_montgomery()};
}

TL_HD void read(const char *at, Fp &out) { out = read_fp(at); }
TL_HD void read(const char *at, Fp2 &out) { out = Fp2{read_fp(at + 48), read_fp(at)}; }

// The limb that carries the flags.
TL_HD uint32_t &top(Fp &c) { return c.l[11]; }
TL_HD uint32_t &top(Fp2 &c) { return c.c1.l[11]; }

TL_HD void curve_b(Fp &out) {
    TL_UNROLL
    for (int i = 0; i < 12; i++) out.l[i] = G1_B[i];
}
TL_HD void curve_b(Fp2 &out) {
    TL_UNROLL
    for (int i = 0; i < 12; i++) {
        out.c0.l[i] = G2_B[i];
        out.c1.l[i] = G2_B[12 + i];
    }
}

// Decodes the point at `source`; false if it is malformed or, if that is asked for, off the curve.
// A bad point becomes infinity.
template <class F>
TL_HD bool decode(const char *source, bool on_curve, Affine<F> &out) {
    F x, y;
    read(source, x);
    read(source + sizeof(F), y);
    const uint32_t flags = top(x) >> 29;
    top(x) &= 0x1fffffffu;
    const bool zeros = x.is_zero() && y.is_zero();
    out = Affine<F>{F::zero(), F::zero()};
    // Infinity is its flag and zeros; zeros without it may not pass for infinity.
    if (zeros) return flags == 2;
    if (flags != 0 || !coordinates_below(x) || !coordinates_below(y)) return false;
    x = to_montgomery(x);
    y = to_montgomery(y);
    if (on_curve) {
        F b;
        curve_b(b);
        if (sqr(y) != sqr(x) * x + b) return false;
    }
    out = Affine<F>{x, y};
    return true;
}

} // namespace points
