// Products of Fr by factors known beforehand, with their quotients (Shoup): of w, the standard form
// and floor(w 2^256 / r). For x below 2 r,
//     x w - q r with q = floor(x floor(w 2^256 / r) / 2^256)
// is x w modulo r and below r + x r / 2^256, hence below 2 r. It takes the upper half of one
// product and the lower halves of two, of 64-bit partial products 86 where Montgomery's takes 112.
#pragma once

#include "field.cuh"

struct Known {
    Fr value, quotient;

    static TL_HD Known load(const char *at) { return Known{Fr::load(at), Fr::load(at + 32)}; }
    TL_HD void store(char *at) const {
        value.store(at);
        quotient.store(at + 32);
    }

    // Of a factor in Montgomery form, w 2^256 - q r: Montgomery's reduction adds the multiple q of r
    // to it and divides by 2^256. Rolled, for it is rare.
    static TL_HD Known from_montgomery(const Fr &factor) {
        Known out{factor, Fr::zero()};
        TL_NO_UNROLL
        for (int i = 0; i < 8; i++) {
            const uint32_t m = out.value.l[0] * FrParams::factor(0);
            uint64_t sum = 0;
            TL_UNROLL
            for (int j = 0; j < 8; j++) {
                if (j > 0) out.quotient.l[j - 1] = out.quotient.l[j];
                sum += uint64_t(m) * FrParams::modulus(j) + out.value.l[j];
                if (j > 0) out.value.l[j - 1] = uint32_t(sum);
                sum >>= 32;
            }
            out.value.l[7] = uint32_t(sum);
            out.quotient.l[7] = m;
        }
        return out;
    }
};

namespace known {

// Adds x b 2^(32 row) from x's limb `first` on, each second limb: their partial products are pairs
// side by side in `sum`.
TL_HD void add_upper(uint32_t (&sum)[16], const Fr &x, uint32_t b, int row, int first) {
    Carry carry;
    int at = first + row;
    if (first == 7) {
        sum[at] = mad_lo_cc(x.l[first], b, sum[at], carry);
        sum[at + 1] = madc_hi(x.l[first], b, sum[at + 1], carry);
        return;
    }
    sum[at] = mad_lo_cc(x.l[first], b, sum[at], carry);
    sum[at + 1] = madc_hi_cc(x.l[first], b, sum[at + 1], carry);
    TL_UNROLL
    for (int i = first + 2; i < 7; i += 2) {
        sum[i + row] = madc_lo_cc(x.l[i], b, sum[i + row], carry);
        sum[i + row + 1] = madc_hi_cc(x.l[i], b, sum[i + row + 1], carry);
    }
    if (first % 2 == 1) {
        // Above the highest partial product of all rows so far there is nothing yet.
        sum[7 + row] = madc_lo_cc(x.l[7], b, sum[7 + row], carry);
        sum[8 + row] = madc_hi(x.l[7], b, sum[8 + row], carry);
    } else {
        sum[8 + row] = addc(sum[8 + row], 0, carry);
    }
}

// Adds x b 2^(32 row) modulo 2^256: to `even` the partial products that start at even limbs, to
// `odd` the rest.
TL_HD void add_lower(uint32_t (&even)[8], uint32_t (&odd)[8], const Fr &x, uint32_t b, int row) {
    Carry carry;
    int first = row % 2;
    if (first + row <= 6) {
        even[first + row] = mad_lo_cc(x.l[first], b, even[first + row], carry);
        TL_UNROLL
        for (int i = first; i + row <= 6; i += 2) {
            const int at = i + row;
            if (i != first) even[at] = madc_lo_cc(x.l[i], b, even[at], carry);
            if (at == 6) even[at + 1] = madc_hi(x.l[i], b, even[at + 1], carry);
            else even[at + 1] = madc_hi_cc(x.l[i], b, even[at + 1], carry);
        }
    }
    first = 1 - first;
    if (first + row == 7) {
        odd[7] += x.l[first] * b;
        return;
    }
    odd[first + row] = mad_lo_cc(x.l[first], b, odd[first + row], carry);
    odd[first + row + 1] = madc_hi_cc(x.l[first], b, odd[first + row + 1], carry);
    TL_UNROLL
    for (int i = first + 2; i + row < 7; i += 2) {
        odd[i + row] = madc_lo_cc(x.l[i], b, odd[i + row], carry);
        odd[i + row + 1] = madc_hi_cc(x.l[i], b, odd[i + row + 1], carry);
    }
    odd[7] = x.l[7 - row] * b + addc(odd[7], 0, carry);
}

// x w, or, if SHORT, of w below 2^192 with a lowest limb of 0 and a quotient of 2^192 and less than
// that more.
template <bool SHORT>
TL_HD Fr product(const Fr &x, const Known &w) {
    Carry carry;
    uint32_t even[16], odd[16];
    TL_UNROLL
    for (int i = 0; i < 16; i++) even[i] = odd[i] = 0;
    // Without the limbs below 6, q is short by less than 2^-29 before it is rounded down.
    TL_UNROLL
    for (int row = 0; row < (SHORT ? 6 : 8); row++) {
        const int first = row < 6 ? 6 - row : 0;
        const uint32_t b = w.quotient.l[row];
        if ((first + row) % 2 == 0) {
            add_upper(even, x, b, row, first);
            add_upper(odd, x, b, row, first + 1);
        } else {
            add_upper(odd, x, b, row, first);
            add_upper(even, x, b, row, first + 1);
        }
    }
    if (SHORT) {
        even[6] = add_cc(even[6], x.l[0], carry);
        TL_UNROLL
        for (int i = 1; i < 8; i++) even[6 + i] = addc_cc(even[6 + i], x.l[i], carry);
        even[14] = addc(0, 0, carry);
    }
    Fr q;
    add_cc(even[7], odd[7], carry);
    TL_UNROLL
    for (int i = 0; i < 7; i++) q.l[i] = addc_cc(even[8 + i], odd[8 + i], carry);
    q.l[7] = addc(even[15], odd[15], carry);

    // -q r modulo 2^256 is q times 2^32 - 1, which are the lowest limbs of -r, and the others.
    static_assert(FrParams::LOW_PAIR_IS_SHIFTS, "the lowest limbs of -r are 2^32 - 1 and 0");
    uint32_t low_even[8], low_odd[8];
    low_odd[0] = 0;
    TL_UNROLL
    for (int i = 0; i < 8; i++) {
        low_even[i] = 0;
        if (i > 0) low_odd[i] = q.l[i - 1];
    }
    TL_UNROLL
    for (int row = SHORT ? 1 : 0; row < (SHORT ? 6 : 8); row++)
        add_lower(low_even, low_odd, x, w.value.l[row], row);
    TL_UNROLL
    for (int row = 2; row < 8; row++)
        add_lower(low_even, low_odd, q, FrParams::negative(row), row);
    Fr out;
    out.l[0] = low_even[0];
    out.l[1] = add_cc(low_even[1], low_odd[1], carry);
    TL_UNROLL
    for (int i = 2; i < 7; i++) out.l[i] = addc_cc(low_even[i], low_odd[i], carry);
    out.l[7] = addc(low_even[7], low_odd[7], carry);
    out.l[0] = sub_cc(out.l[0], q.l[0], carry);
    TL_UNROLL
    for (int i = 1; i < 7; i++) out.l[i] = subc_cc(out.l[i], q.l[i], carry);
    out.l[7] = subc(out.l[7], q.l[7], carry);
    return out.subtract_if_not_below();
}

} // namespace known

// x must be below 2 r.
TL_HD Fr operator*(const Fr &x, const Known &w) { return known::product<false>(x, w); }

// Of a fourth root of unity, the curve's parameter to the third power or its negative (r is the
// parameter's twelfth cyclotomic polynomial), that which is short: three quarters of the work.
struct FourthRoot {
    Known root;
    // Whether its negative is meant.
    bool negated;

    // (a - b) times what is meant.
    TL_HD Fr times_difference(const Fr &a, const Fr &b) const {
        Fr from, less;
        TL_UNROLL
        for (int i = 0; i < 8; i++) {
            from.l[i] = negated ? b.l[i] : a.l[i];
            less.l[i] = negated ? a.l[i] : b.l[i];
        }
        return known::product<true>(from.unreduced_difference(less), root);
    }
};
