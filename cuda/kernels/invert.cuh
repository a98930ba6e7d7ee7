// Inversion in Fp by divsteps (Bernstein and Yang, https://eprint.iacr.org/2019/266, with delta
// from 1/2): a fixed number of steps without a branch, thirty at a time on the low words, whose
// 2x2 matrix is then applied to the whole numbers.
#pragma once

#include "fp2.cuh"

namespace inversion {

constexpr int LIMBS = 13;
constexpr int BITS = 30;
constexpr int32_t MASK = (1 << BITS) - 1;
// Enough for 381 bits: (45907 * 381 + 26313) / 19929 = 879 steps.
constexpr int ROUNDS = 30;

// A signed number: limbs of 30 bits, the top one signed.
struct Wide {
    int32_t v[LIMBS];

    static TL_HD Wide zero() {
        Wide out;
        TL_UNROLL
        for (int i = 0; i < LIMBS; i++) out.v[i] = 0;
        return out;
    }

    // `limb(i)` are the 32-bit limbs.
    template <class Limb>
    static TL_HD Wide from(Limb limb) {
        Wide out;
        TL_UNROLL
        for (int i = 0; i < LIMBS; i++) {
            const int word = i * BITS / 32, shift = i * BITS % 32;
            const uint64_t low = limb(word);
            const uint64_t high = word + 1 < Fp::N ? limb(word + 1) : 0;
            out.v[i] = int32_t((low | high << 32) >> shift) & MASK;
        }
        return out;
    }

    TL_HD bool is_negative() const { return v[LIMBS - 1] < 0; }

    TL_HD Wide negate_if(bool yes) const {
        Wide out;
        int32_t carry = 0;
        TL_UNROLL
        for (int i = 0; i < LIMBS; i++) {
            carry += yes ? -v[i] : v[i];
            out.v[i] = i + 1 < LIMBS ? carry & MASK : carry;
            carry >>= BITS;
        }
        return out;
    }

    TL_HD Wide add_if(bool yes, const Wide &b) const {
        Wide out;
        int32_t carry = 0;
        TL_UNROLL
        for (int i = 0; i < LIMBS; i++) {
            carry += v[i] + (yes ? b.v[i] : 0);
            out.v[i] = i + 1 < LIMBS ? carry & MASK : carry;
            carry >>= BITS;
        }
        return out;
    }

    // Of a number that is not negative.
    TL_HD Fp limbs() const {
        Fp out;
        TL_UNROLL
        for (int i = 0; i < Fp::N; i++) {
            const int at = i * 32 / BITS, shift = i * 32 % BITS;
            uint64_t bits = uint64_t(uint32_t(v[at])) | uint64_t(uint32_t(v[at + 1])) << BITS;
            if (at + 2 < LIMBS) bits |= uint64_t(uint32_t(v[at + 2])) << (2 * BITS);
            out.l[i] = uint32_t(bits >> shift);
        }
        return out;
    }
};

// (f, g) * 2^30 after thirty steps = matrix * (f, g).
struct Matrix {
    int32_t u, v, q, r;
};

// `delta` is twice the paper's.
TL_HD Matrix thirty_steps(int32_t &delta, uint32_t f, uint32_t g) {
    // Unsigned, for sums wrap on the way.
    uint32_t u = 1, v = 0, q = 0, r = 1;
    for (int i = 0; i < BITS; i++) {
        const bool odd = (g & 1) != 0;
        const bool swap = odd && delta > 0;
        const uint32_t f_in = f, u_in = u, v_in = v;
        f = swap ? g : f;
        u = swap ? q : u;
        v = swap ? r : v;
        const uint32_t add_f = swap ? 0 - f_in : f_in;
        const uint32_t add_u = swap ? 0 - u_in : u_in;
        const uint32_t add_v = swap ? 0 - v_in : v_in;
        g += odd ? add_f : 0;
        q += odd ? add_u : 0;
        r += odd ? add_v : 0;
        delta = (swap ? -delta : delta) + 2;
        g >>= 1;
        u <<= 1;
        v <<= 1;
    }
    return Matrix{int32_t(u), int32_t(v), int32_t(q), int32_t(r)};
}

// matrix * (f, g) / 2^30, which has no remainder.
TL_HD void apply(const Matrix &m, Wide &f, Wide &g) {
    int64_t carry_f = 0, carry_g = 0;
    TL_UNROLL
    for (int i = 0; i < LIMBS; i++) {
        carry_f += int64_t(m.u) * f.v[i] + int64_t(m.v) * g.v[i];
        carry_g += int64_t(m.q) * f.v[i] + int64_t(m.r) * g.v[i];
        if (i != 0) {
            f.v[i - 1] = int32_t(carry_f) & MASK;
            g.v[i - 1] = int32_t(carry_g) & MASK;
        }
        carry_f >>= BITS;
        carry_g >>= BITS;
    }
    f.v[LIMBS - 1] = int32_t(carry_f);
    g.v[LIMBS - 1] = int32_t(carry_g);
}

// matrix * (d, e) / 2^30 modulo p, both kept above -2 p and below p.
TL_HD void apply_modulo(const Matrix &m, const Wide &p, int32_t p_inverse, Wide &d, Wide &e) {
    const int32_t d_negative = d.v[LIMBS - 1] >> 31, e_negative = e.v[LIMBS - 1] >> 31;
    // Multiples of p: those that make d and e positive, less those that make sums divisible.
    int32_t times_d = (m.u & d_negative) + (m.v & e_negative);
    int32_t times_e = (m.q & d_negative) + (m.r & e_negative);
    int64_t carry_d = int64_t(m.u) * d.v[0] + int64_t(m.v) * e.v[0];
    int64_t carry_e = int64_t(m.q) * d.v[0] + int64_t(m.r) * e.v[0];
    times_d -= int32_t(uint32_t(p_inverse) * uint32_t(carry_d) + uint32_t(times_d)) & MASK;
    times_e -= int32_t(uint32_t(p_inverse) * uint32_t(carry_e) + uint32_t(times_e)) & MASK;
    carry_d = (carry_d + int64_t(p.v[0]) * times_d) >> BITS;
    carry_e = (carry_e + int64_t(p.v[0]) * times_e) >> BITS;
    TL_UNROLL
    for (int i = 1; i < LIMBS; i++) {
        carry_d += int64_t(m.u) * d.v[i] + int64_t(m.v) * e.v[i] + int64_t(p.v[i]) * times_d;
        carry_e += int64_t(m.q) * d.v[i] + int64_t(m.r) * e.v[i] + int64_t(p.v[i]) * times_e;
        d.v[i - 1] = int32_t(carry_d) & MASK;
        e.v[i - 1] = int32_t(carry_e) & MASK;
        carry_d >>= BITS;
        carry_e >>= BITS;
    }
    d.v[LIMBS - 1] = int32_t(carry_d);
    e.v[LIMBS - 1] = int32_t(carry_e);
}

} // namespace inversion

// 1 / a; 0 for 0. Costs about as much as 35 products.
TL_HD_CALL Fp invert(const Fp &a) {
    using namespace inversion;
    const Wide p = Wide::from([](int i) { return FpParams::modulus(i); });
    const int32_t p_inverse = int32_t(0 - FpParams::factor(0)) & MASK;
    Wide f = p;
    Wide g = Wide::from([&](int i) { return a.l[i]; });
    Wide d = Wide::zero();
    Wide e = Wide::zero();
    e.v[0] = 1;
    int32_t delta = 1;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t f_low = uint32_t(f.v[0]) | uint32_t(f.v[1]) << BITS;
        const uint32_t g_low = uint32_t(g.v[0]) | uint32_t(g.v[1]) << BITS;
        const Matrix m = thirty_steps(delta, f_low, g_low);
        apply(m, f, g);
        apply_modulo(m, p, p_inverse, d, e);
    }
    // f is 1 or -1, and a d = f.
    d = d.add_if(d.is_negative(), p).negate_if(f.is_negative());
    d = d.add_if(d.is_negative(), p);
    // From the inverse of a R to that of a, times R.
    return d.limbs().to_montgomery().to_montgomery();
}

TL_HD Fp2 invert(const Fp2 &a) {
    const Fp over_norm = invert(dot(a.c0, a.c0, a.c1, a.c1));
    return Fp2{a.c0 * over_norm, -(a.c1 * over_norm)};
}
