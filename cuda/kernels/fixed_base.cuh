// Multiples of one point by a table of its multiples; see the operation `FixedBase`.
#pragma once

#include "normalize.cuh"

namespace fixed_base {

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

}  // namespace fixed_base
