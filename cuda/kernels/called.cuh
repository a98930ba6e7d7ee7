// A field whose products are calls, for code that does little of the work: products inlined take
// long to compile, and those of Fp2 overflow the instruction cache.
#pragma once

#include "fp2.cuh"

template <class F>
struct Called : F {
    static constexpr bool HAS_DOT = false;

    Called() = default;
    TL_HD Called(const F &value) : F(value) {}

    TL_HD Called operator+(const Called &b) const { return F::operator+(b); }
    TL_HD Called operator-(const Called &b) const { return F::operator-(b); }
    TL_HD Called operator-() const { return F::operator-(); }
    TL_HD Called dbl() const { return F::dbl(); }

    // Calls work on copies, so that the operands stay in registers.
    TL_HD Called operator*(const Called &b) const {
        const F left = *this, right = b;
        F out;
        store_product(left, right, out);
        return out;
    }
    friend TL_HD Called sqr(const Called &a) {
        const F copy = a;
        F out;
        store_square(copy, out);
        return out;
    }
    friend TL_HD Called dot(const Called &a, const Called &b, const Called &c, const Called &d) {
        return a * b + c * d;
    }

  private:
    static TL_HD_CALL void store_product(const F &a, const F &b, F &out) { out = a * b; }
    static TL_HD_CALL void store_square(const F &a, F &out) { out = sqr(a); }
};
static_assert(sizeof(Called<Fp2>) == sizeof(Fp2), "what is stored as one is loaded as the other");

// `Called<F>`, if F is not called already.
template <class F>
struct CalledOf {
    using Type = Called<F>;
};
template <class F>
struct CalledOf<Called<F>> {
    using Type = Called<F>;
};
