// Fp2 = Fp[i] / (i^2 + 1).
#pragma once

#include "field.cuh"

struct Fp2 {
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

    TL_HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
    TL_HD bool operator==(const Fp2 &b) const { return c0 == b.c0 && c1 == b.c1; }
    TL_HD bool operator!=(const Fp2 &b) const { return !(*this == b); }

    TL_HD Fp2 operator+(const Fp2 &b) const { return Fp2{c0 + b.c0, c1 + b.c1}; }
    TL_HD Fp2 operator-(const Fp2 &b) const { return Fp2{c0 - b.c0, c1 - b.c1}; }
    TL_HD Fp2 operator-() const { return Fp2{-c0, -c1}; }
    TL_HD Fp2 dbl() const { return Fp2{c0.dbl(), c1.dbl()}; }

    // Two sums of two products: as much work as Karatsuba's three, in fewer registers.
    TL_HD Fp2 operator*(const Fp2 &b) const {
        return Fp2{dot(c0, b.c0, -c1, b.c1), dot(c0, b.c1, c1, b.c0)};
    }

    friend TL_HD Fp2 dot(const Fp2 &a, const Fp2 &b, const Fp2 &c, const Fp2 &d) {
        return a * b + c * d;
    }

    friend TL_HD Fp2 sqr(const Fp2 &a) {
        const Fp cross = a.c0 * a.c1;
        return Fp2{(a.c0 + a.c1) * (a.c0 - a.c1), cross.dbl()};
    }
};
