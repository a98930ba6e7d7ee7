// Fr and Fp: 32-bit limbs, least significant first, in Montgomery form with R = 2^(32 N).
//
// A product is Montgomery's with one limb a round (CIOS, Koc, Acar, Kaliski 1996). Two
// accumulators take the 64-bit partial products, one those at even limbs, one those at odd limbs,
// so that each row is two carry chains of whole pairs; dividing by 2^32 swaps the two.
#pragma once

#include "carry.cuh"
#include "constants.cuh"

template <class P>
struct alignas(16) Mont {
    static constexpr int N = P::N;
    // Whether `dot` takes less than two products.
    static constexpr bool HAS_DOT = N == 12;
    static_assert(N % 4 == 0, "quads");

    uint32_t l[N];

    static TL_HD Mont zero() {
        Mont out;
        TL_UNROLL
        for (int i = 0; i < N; i++) out.l[i] = 0;
        return out;
    }

    static TL_HD Mont one() {
        Mont out;
        TL_UNROLL
        for (int i = 0; i < N; i++) out.l[i] = P::one(i);
        return out;
    }

    static TL_HD Mont load(const void *at) {
        Mont out;
        TL_UNROLL
        for (int i = 0; i < N / 4; i++) out.set_quad(i, load_quad(bytes(at) + 16 * i));
        return out;
    }

    static TL_HD Mont load_read_only(const void *at) {
        Mont out;
        TL_UNROLL
        for (int i = 0; i < N / 4; i++) out.set_quad(i, load_quad_read_only(bytes(at) + 16 * i));
        return out;
    }

    TL_HD void store(void *at) const {
        TL_UNROLL
        for (int i = 0; i < N / 4; i++) store_quad(static_cast<char *>(at) + 16 * i, quad(i));
    }

    // Quads so many bytes apart.
    static TL_HD Mont load_apart(const char *at, uint32_t stride) {
        Mont out;
        TL_UNROLL
        for (int i = 0; i < N / 4; i++) out.set_quad(i, load_quad(at + i * stride));
        return out;
    }
    TL_HD void store_apart(char *at, uint32_t stride) const {
        TL_UNROLL
        for (int i = 0; i < N / 4; i++) store_quad(at + i * stride, quad(i));
    }

    TL_HD Quad quad(int i) const {
        return Quad{{l[4 * i], l[4 * i + 1], l[4 * i + 2], l[4 * i + 3]}};
    }

    TL_HD void set_quad(int i, const Quad &q) {
        TL_UNROLL
        for (int k = 0; k < 4; k++) l[4 * i + k] = q.w[k];
    }

    TL_HD bool is_zero() const {
        uint32_t any = 0;
        TL_UNROLL
        for (int i = 0; i < N; i++) any |= l[i];
        return any == 0;
    }

    TL_HD bool operator==(const Mont &b) const {
        uint32_t any = 0;
        TL_UNROLL
        for (int i = 0; i < N; i++) any |= l[i] ^ b.l[i];
        return any == 0;
    }

    TL_HD bool operator!=(const Mont &b) const { return !(*this == b); }

    // Whether the limbs are those of a number below the modulus.
    TL_HD bool below_modulus() const {
        Carry carry;
        sub_cc(l[0], P::modulus(0), carry);
        TL_UNROLL
        for (int i = 1; i < N; i++) subc_cc(l[i], P::modulus(i), carry);
        return subc(0, 0, carry) != 0;
    }

    TL_HD Mont operator+(const Mont &b) const {
        return unreduced_sum(b).subtract_if_not_below();
    }

    TL_HD Mont operator-(const Mont &b) const {
        Mont out;
        add_modulus(out.l, sub_limbs_borrow<N>(out.l, l, b.l));
        return out;
    }

    TL_HD Mont operator-() const {
        const uint32_t mask = is_zero() ? 0 : ~0u;
        Mont out;
        Carry carry;
        out.l[0] = sub_cc(P::modulus(0) & mask, l[0], carry);
        TL_UNROLL
        for (int i = 1; i < N - 1; i++)
            out.l[i] = subc_cc(P::modulus(i) & mask, l[i], carry);
        out.l[N - 1] = subc(P::modulus(N - 1) & mask, l[N - 1], carry);
        return out;
    }

    TL_HD Mont dbl() const { return *this + *this; }

    // The right factor's limbs may be any number below 2^(32 N).
    TL_HD Mont operator*(const Mont &b) const {
        uint32_t even[N], odd[N];
        first_row(even, odd, b.l[0]);
        reduce_row(even, odd);
        TL_UNROLL
        for (int i = 1; i < N; i += 2) {
            next_row(odd, even, b.l[i]);
            reduce_row(odd, even);
            if (i + 1 < N) {
                next_row(even, odd, b.l[i + 1]);
                reduce_row(even, odd);
            }
        }
        // N is even: the last row had the odd accumulator at limb 0, and that limb is spent.
        return joined(even, odd).subtract_if_not_below();
    }

    friend TL_HD Mont sqr(const Mont &a) { return a.squared(); }

    // a b + c d with one reduction: three quarters of the work.
    friend TL_HD Mont dot(const Mont &a, const Mont &b, const Mont &c, const Mont &d) {
        // Each round's sum is below 3 (2^32 + 1) times the modulus.
        static_assert(N == 12, "Fp has room for that, Fr has not");
        uint32_t even[N], odd[N];
        a.first_row(even, odd, b.l[0]);
        c.add_row(even, odd, d.l[0]);
        reduce_row(even, odd);
        TL_UNROLL
        for (int i = 1; i < N; i += 2) {
            a.next_row(odd, even, b.l[i]);
            c.add_row(odd, even, d.l[i]);
            reduce_row(odd, even);
            if (i + 1 < N) {
                a.next_row(even, odd, b.l[i + 1]);
                c.add_row(even, odd, d.l[i + 1]);
                reduce_row(even, odd);
            }
        }
        return joined(even, odd).subtract_if_not_below();
    }

    // A product before its reduction, or a sum or difference of such.
    struct Wide {
        uint32_t l[2 * N];

        // Without a carry out.
        TL_HD Wide operator+(const Wide &b) const {
            Wide sum;
            add_limbs<2 * N>(sum.l, l, b.l);
            return sum;
        }

        // R times the modulus more where that is negative: for what is less than that apart.
        TL_HD Wide operator-(const Wide &b) const {
            Wide out;
            add_modulus(out.l + N, sub_limbs_borrow<2 * N>(out.l, l, b.l));
            return out;
        }

        // Less one that is not larger.
        TL_HD Wide less(const Wide &b) const {
            Wide out;
            sub_limbs<2 * N>(out.l, l, b.l);
            return out;
        }

        // Over R, of what is below R times the modulus.
        TL_HD Mont reduced() const {
            Mont out;
            TL_UNROLL
            for (int i = 0; i < N; i++) out.l[i] = l[i];
            out = out.divided_by_r();
            add_limbs<N>(out.l, out.l, l + N);
            return out.subtract_if_not_below();
        }
    };

    // The product; the limbs of both may be any.
    TL_HD Wide wide(const Mont &b) const {
        uint32_t even[2 * N], odd[2 * N];
        TL_UNROLL
        for (int i = 0; i < 2 * N; i++) even[i] = odd[i] = 0;
        // odd[k] is limb k + 1: pairs start at even k in both.
        TL_UNROLL
        for (int i = 0; i < N; i += 2) {
            add_half_row(even, i, 0, b.l[i]);
            add_half_row(odd, i, 1, b.l[i]);
            add_half_row(odd, i, 0, b.l[i + 1]);
            add_half_row(even, i + 2, 1, b.l[i + 1]);
        }
        Wide out;
        Carry carry;
        out.l[0] = even[0];
        out.l[1] = add_cc(even[1], odd[0], carry);
        TL_UNROLL
        for (int i = 2; i < 2 * N - 1; i++) out.l[i] = addc_cc(even[i], odd[i - 1], carry);
        out.l[2 * N - 1] = addc(even[2 * N - 1], odd[2 * N - 2], carry);
        return out;
    }

    // The sum, not reduced. Twice the modulus has no more limbs; three times has for Fr.
    TL_HD Mont unreduced_sum(const Mont &b) const {
        Mont sum;
        add_limbs<N>(sum.l, l, b.l);
        return sum;
    }

    // The difference and the modulus: above 0 and below twice the modulus.
    TL_HD Mont unreduced_difference(const Mont &b) const {
        Mont out = *this;
        add_modulus(out.l, ~0u);
        sub_limbs<N>(out.l, out.l, b.l);
        return out;
    }

    // The integer that this is the Montgomery form of.
    TL_HD Mont from_montgomery() const {
        Mont out = *this;
        return out.divided_by_r().subtract_if_not_below();
    }

    // The Montgomery form of the integer in these limbs, modulo the modulus.
    TL_HD Mont to_montgomery() const {
        Mont r_squared;
        TL_UNROLL
        for (int i = 0; i < N; i++) r_squared.l[i] = P::r_squared(i);
        return r_squared * *this;
    }

    // Limbs below twice the modulus to limbs below it.
    TL_HD Mont subtract_if_not_below() const {
        Mont less;
        Carry carry;
        less.l[0] = sub_cc(l[0], P::modulus(0), carry);
        TL_UNROLL
        for (int i = 1; i < N; i++) less.l[i] = subc_cc(l[i], P::modulus(i), carry);
        const bool below = subc(0, 0, carry) != 0;
        TL_UNROLL
        for (int i = 0; i < N; i++) less.l[i] = below ? l[i] : less.l[i];
        return less;
    }

  private:
    // Adds the modulus, if the mask is all ones, to N limbs.
    static TL_HD void add_modulus(uint32_t *limbs, uint32_t mask) {
        Carry carry;
        limbs[0] = add_cc(limbs[0], P::modulus(0) & mask, carry);
        TL_UNROLL
        for (int i = 1; i < N - 1; i++) limbs[i] = addc_cc(limbs[i], P::modulus(i) & mask, carry);
        limbs[N - 1] = addc(limbs[N - 1], P::modulus(N - 1) & mask, carry);
    }

    static TL_HD const char *bytes(const void *at) { return static_cast<const char *>(at); }

    // Adds each second limb from `first` on times b, the first of them at sum[at].
    TL_HD void add_half_row(uint32_t (&sum)[2 * N], int at, int first, uint32_t b) const {
        Carry carry;
        sum[at] = mad_lo_cc(l[first], b, sum[at], carry);
        sum[at + 1] = madc_hi_cc(l[first], b, sum[at + 1], carry);
        TL_UNROLL
        for (int j = 2; j < N; j += 2) {
            sum[at + j] = madc_lo_cc(l[first + j], b, sum[at + j], carry);
            sum[at + j + 1] = madc_hi_cc(l[first + j], b, sum[at + j + 1], carry);
        }
        if (at + N < 2 * N) sum[at + N] = addc(sum[at + N], 0, carry);
    }

    // low + high 2^32 = *this b.
    TL_HD void first_row(uint32_t (&low)[N], uint32_t (&high)[N], uint32_t b) const {
        TL_UNROLL
        for (int j = 0; j < N; j += 2) {
            mul_wide(low[j], low[j + 1], l[j], b);
            mul_wide(high[j], high[j + 1], l[j + 1], b);
        }
    }

    // Divides spent + low 2^32, whose lowest limb is 0, by 2^32 and adds *this b: the sum is
    // low + spent 2^32.
    TL_HD void next_row(uint32_t (&low)[N], uint32_t (&spent)[N], uint32_t b) const {
        Carry carry;
        low[0] = add_cc(low[0], spent[1], carry);
        TL_UNROLL
        for (int j = 0; j < N - 2; j += 2) {
            spent[j] = madc_lo_cc(l[j + 1], b, spent[j + 2], carry);
            spent[j + 1] = madc_hi_cc(l[j + 1], b, spent[j + 3], carry);
        }
        spent[N - 2] = madc_lo_cc(l[N - 1], b, 0, carry);
        spent[N - 1] = madc_hi(l[N - 1], b, 0, carry);
        low[0] = mad_lo_cc(l[0], b, low[0], carry);
        low[1] = madc_hi_cc(l[0], b, low[1], carry);
        TL_UNROLL
        for (int j = 2; j < N; j += 2) {
            low[j] = madc_lo_cc(l[j], b, low[j], carry);
            low[j + 1] = madc_hi_cc(l[j], b, low[j + 1], carry);
        }
        spent[N - 1] = addc(spent[N - 1], 0, carry);
    }

    // Adds *this b to low + high 2^32.
    TL_HD void add_row(uint32_t (&low)[N], uint32_t (&high)[N], uint32_t b) const {
        Carry carry;
        high[0] = mad_lo_cc(l[1], b, high[0], carry);
        high[1] = madc_hi_cc(l[1], b, high[1], carry);
        TL_UNROLL
        for (int j = 2; j < N - 2; j += 2) {
            high[j] = madc_lo_cc(l[j + 1], b, high[j], carry);
            high[j + 1] = madc_hi_cc(l[j + 1], b, high[j + 1], carry);
        }
        high[N - 2] = madc_lo_cc(l[N - 1], b, high[N - 2], carry);
        high[N - 1] = madc_hi(l[N - 1], b, high[N - 1], carry);
        low[0] = mad_lo_cc(l[0], b, low[0], carry);
        low[1] = madc_hi_cc(l[0], b, low[1], carry);
        TL_UNROLL
        for (int j = 2; j < N; j += 2) {
            low[j] = madc_lo_cc(l[j], b, low[j], carry);
            low[j + 1] = madc_hi_cc(l[j], b, low[j + 1], carry);
        }
        high[N - 1] = addc(high[N - 1], 0, carry);
    }

    // Adds the multiple of the modulus to low + high 2^32 that makes the lowest limb 0. That limb
    // is not written where nothing reads it.
    static TL_HD void reduce_row(uint32_t (&low)[N], uint32_t (&high)[N]) {
        const uint32_t m = mul_lo(low[0], P::factor(0));
        Carry carry;
        if (P::LOW_PAIR_IS_SHIFTS) {
            // x + m (1 - 2^32 + 2^64), where m = -x modulo 2^32, is (x + 1) 2^32 + (m - 1) 2^64,
            // or 0 for x = 0: no products. Their carries are those of x - 1.
            add_cc(low[0], ~0u, carry);
            high[0] = addc_cc(high[0], low[0], carry);
            high[1] = addc_cc(high[1], m < m - 1 ? m : m - 1, carry);
        } else {
            high[0] = mad_lo_cc(P::modulus(1), m, high[0], carry);
            high[1] = madc_hi_cc(P::modulus(1), m, high[1], carry);
        }
        TL_UNROLL
        for (int j = 2; j < N - 2; j += 2) {
            high[j] = madc_lo_cc(P::modulus(j + 1), m, high[j], carry);
            high[j + 1] = madc_hi_cc(P::modulus(j + 1), m, high[j + 1], carry);
        }
        high[N - 2] = madc_lo_cc(P::modulus(N - 1), m, high[N - 2], carry);
        high[N - 1] = madc_hi(P::modulus(N - 1), m, high[N - 1], carry);
        if (P::LOW_PAIR_IS_SHIFTS) {
            low[2] = mad_lo_cc(P::modulus(2), m, low[2], carry);
            low[3] = madc_hi_cc(P::modulus(2), m, low[3], carry);
            TL_UNROLL
            for (int j = 4; j < N; j += 2) {
                low[j] = madc_lo_cc(P::modulus(j), m, low[j], carry);
                low[j + 1] = madc_hi_cc(P::modulus(j), m, low[j + 1], carry);
            }
            high[N - 1] = addc(high[N - 1], 0, carry);
        } else {
            add_multiple_to_low(low, high[N - 1], m);
        }
    }

    // (spent + low 2^32) / 2^32, where spent's lowest limb is 0.
    static TL_HD Mont joined(const uint32_t (&low)[N], const uint32_t (&spent)[N]) {
        Mont out;
        Carry carry;
        out.l[0] = add_cc(low[0], spent[1], carry);
        TL_UNROLL
        for (int i = 1; i < N - 1; i++) out.l[i] = addc_cc(low[i], spent[i + 1], carry);
        out.l[N - 1] = addc(low[N - 1], 0, carry);
        return out;
    }

    // As next_row and reduce_row without a product to add.
    static TL_HD void reduce_next_row(uint32_t (&low)[N], uint32_t (&spent)[N]) {
        Carry carry;
        low[0] = add_cc(low[0], spent[1], carry);
        const uint32_t m = mul_lo(low[0], P::factor(0));
        TL_UNROLL
        for (int j = 0; j < N - 2; j += 2) {
            spent[j] = madc_lo_cc(P::modulus(j + 1), m, spent[j + 2], carry);
            spent[j + 1] = madc_hi_cc(P::modulus(j + 1), m, spent[j + 3], carry);
        }
        spent[N - 2] = madc_lo_cc(P::modulus(N - 1), m, 0, carry);
        spent[N - 1] = madc_hi(P::modulus(N - 1), m, 0, carry);
        add_multiple_to_low(low, spent[N - 1], m);
    }

    // The even limbs' products of m and the modulus; `top` is the limb above.
    static TL_HD void add_multiple_to_low(uint32_t (&low)[N], uint32_t &top, uint32_t m) {
        Carry carry;
        low[0] = mad_lo_cc(P::modulus(0), m, low[0], carry);
        low[1] = madc_hi_cc(P::modulus(0), m, low[1], carry);
        TL_UNROLL
        for (int j = 2; j < N; j += 2) {
            low[j] = madc_lo_cc(P::modulus(j), m, low[j], carry);
            low[j + 1] = madc_hi_cc(P::modulus(j), m, low[j + 1], carry);
        }
        top = addc(top, 0, carry);
    }

    // These limbs, any number below 2^(32 N), over R: at most the modulus.
    TL_HD Mont divided_by_r() const {
        uint32_t even[N], odd[N];
        const uint32_t m = mul_lo(l[0], P::factor(0));
        TL_UNROLL
        for (int j = 0; j < N; j += 2) {
            even[j] = l[j];
            even[j + 1] = l[j + 1];
            mul_wide(odd[j], odd[j + 1], P::modulus(j + 1), m);
        }
        add_multiple_to_low(even, odd[N - 1], m);
        TL_UNROLL
        for (int i = 1; i < N; i += 2) {
            reduce_next_row(odd, even);
            if (i + 1 < N) reduce_next_row(even, odd);
        }
        return joined(even, odd);
    }

    // The products of unlike limbs once, doubled, and those of like limbs.
    TL_HD Mont squared() const {
        uint32_t even[2 * N], odd[2 * N];
        TL_UNROLL
        for (int i = 0; i < 2 * N; i++) even[i] = odd[i] = 0;
        TL_UNROLL
        for (int i = 0; i < N - 1; i++) {
            // odd[k] is limb k + 1: pairs start at even k in both.
            add_products(odd, 2 * i, i, i + 1);
            if (i + 2 < N) add_products(even, 2 * i + 2, i, i + 2);
        }
        Wide square;
        Carry carry;
        // Their sum is below 2^(32 (2 N - 1)) / 2.
        square.l[1] = odd[0];
        square.l[2] = add_cc(even[2], odd[1], carry);
        TL_UNROLL
        for (int i = 3; i < 2 * N - 2; i++) square.l[i] = addc_cc(even[i], odd[i - 1], carry);
        square.l[2 * N - 2] = addc(even[2 * N - 2], odd[2 * N - 3], carry);
        square.l[1] = add_cc(square.l[1], square.l[1], carry);
        TL_UNROLL
        for (int i = 2; i < 2 * N - 2; i++) square.l[i] = addc_cc(square.l[i], square.l[i], carry);
        square.l[2 * N - 2] = addc(square.l[2 * N - 2], square.l[2 * N - 2], carry);
        square.l[0] = mad_lo_cc(l[0], l[0], 0, carry);
        square.l[1] = madc_hi_cc(l[0], l[0], square.l[1], carry);
        TL_UNROLL
        for (int i = 1; i < N - 1; i++) {
            square.l[2 * i] = madc_lo_cc(l[i], l[i], square.l[2 * i], carry);
            square.l[2 * i + 1] = madc_hi_cc(l[i], l[i], square.l[2 * i + 1], carry);
        }
        square.l[2 * N - 2] = madc_lo_cc(l[N - 1], l[N - 1], square.l[2 * N - 2], carry);
        square.l[2 * N - 1] = madc_hi(l[N - 1], l[N - 1], 0, carry);
        return square.reduced();
    }

    // Adds l[i] l[j] for each second j from `first`, the first of them at sum[at].
    TL_HD void add_products(uint32_t (&sum)[2 * N], int at, int i, int first) const {
        Carry carry;
        sum[at] = mad_lo_cc(l[i], l[first], sum[at], carry);
        sum[at + 1] = madc_hi_cc(l[i], l[first], sum[at + 1], carry);
        at += 2;
        TL_UNROLL
        for (int j = first + 2; j < N; j += 2) {
            sum[at] = madc_lo_cc(l[i], l[j], sum[at], carry);
            sum[at + 1] = madc_hi_cc(l[i], l[j], sum[at + 1], carry);
            at += 2;
        }
        sum[at] = addc(sum[at], 0, carry);
    }
};

using Fr = Mont<FrParams>;
using Fp = Mont<FpParams>;
