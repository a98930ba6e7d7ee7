// Fp2 = Fp[i] / (i^2 + 1).
#pragma once

#include "field.cuh"

struct Fp2 {
    static constexpr uint32_t QUADS = sizeof(Fp) * 2 / sizeof(Quad);
    static constexpr bool HAS_DOT = false;

    Fp c0, c1;

    static TL_HD Fp2 zero() { return Fp2{Fp::zero(), Fp::zero()}; }
    static TL_HD Fp2 one() { return Fp2{Fp::one(), Fp::zero()}; }

    static TL_HD Fp2 load(const void *at) {
        return Fp2{Fp::load(at), Fp::load(static_cast<const char *>(at) + sizeof(Fp))};
    }
    static TL_HD Fp2 load_read_only(const void *at) {
        return Fp2{Fp::load_read_only(at),
                   Fp::load_read_only(static_cast<const char *>(at) + sizeof(Fp))};
    }
    TL_HD void store(void *at) const {
        c0.store(at);
        c1.store(static_cast<char *>(at) + sizeof(Fp));
    }

    static TL_HD Fp2 load_apart(const char *at, uint32_t stride) {
        return Fp2{Fp::load_apart(at, stride), Fp::load_apart(at + QUADS / 2 * stride, stride)};
    }
    TL_HD void store_apart(char *at, uint32_t stride) const {
        c0.store_apart(at, stride);
        c1.store_apart(at + QUADS / 2 * stride, stride);
    }

    TL_HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
    TL_HD bool operator==(const Fp2 &b) const { return c0 == b.c0 && c1 == b.c1; }
    TL_HD bool operator!=(const Fp2 &b) const { return !(*this == b); }

    TL_HD Fp2 operator+(const Fp2 &b) const { return Fp2{c0 + b.c0, c1 + b.c1}; }
    TL_HD Fp2 operator-(const Fp2 &b) const { return Fp2{c0 - b.c0, c1 - b.c1}; }
    TL_HD Fp2 operator-() const { return Fp2{-c0, -c1}; }
    TL_HD Fp2 dbl() const { return Fp2{c0.dbl(), c1.dbl()}; }

    // Karatsuba's three products and two reductions.
    TL_HD Fp2 operator*(const Fp2 &b) const {
        const Fp::Wide low = c0.wide(b.c0), high = c1.wide(b.c1);
        const Fp real = (low - high).reduced();
        const Fp::Wide both = low + high;
        const Fp::Wide cross = c0.unreduced_sum(c1).wide(b.c0.unreduced_sum(b.c1));
        return Fp2{real, cross.less(both).reduced()};
    }

    friend TL_HD Fp2 dot(const Fp2 &a, const Fp2 &b, const Fp2 &c, const Fp2 &d) {
        return a * b + c * d;
    }

    // Two products by one place in the code, for what kept_sum.cuh says.
    friend TL_HD Fp2 sqr(const Fp2 &a) {
        Fp2 out;
        Fp left = a.c0 + a.c1, right = a.c0 - a.c1;
        TL_NO_UNROLL
        for (int i = 0; i < 2; i++) {
            const Fp product = left * right;
            if (i == 0) {
                out.c0 = product;
                left = a.c0.dbl();
                right = a.c1;
            } else {
                out.c1 = product;
            }
        }
        return out;
    }
};
