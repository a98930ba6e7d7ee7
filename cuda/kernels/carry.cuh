// Steps of carry chains. On a device they are single instructions that share the carry flag, so a
// chain must be written without anything between that could use it; on the host the flag is a
// variable.
//
// Suffixes: _cc sets the flag, c before it reads the flag.
#pragma once

#include "device.cuh"

TL_HD uint32_t mul_lo(uint32_t a, uint32_t b) { return a * b; }

// Both halves of a product, as one instruction.
TL_HD void mul_wide(uint32_t &low, uint32_t &high, uint32_t a, uint32_t b) {
    const uint64_t product = uint64_t(a) * b;
    low = uint32_t(product);
    high = uint32_t(product >> 32);
}

#ifdef __CUDA_ARCH__

struct Carry {};

#define TL_STEP2(name, instruction)                                                       \
    static __device__ __forceinline__ uint32_t name(uint32_t a, uint32_t b, Carry &) {    \
        uint32_t out;                                                                     \
        asm volatile(instruction " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));            \
        return out;                                                                       \
    }
#define TL_STEP3(name, instruction)                                                       \
    static __device__ __forceinline__ uint32_t name(uint32_t a, uint32_t b, uint32_t c,   \
                                                    Carry &) {                            \
        uint32_t out;                                                                     \
        asm volatile(instruction " %0, %1, %2, %3;"                                       \
                     : "=r"(out)                                                          \
                     : "r"(a), "r"(b), "r"(c));                                           \
        return out;                                                                       \
    }

TL_STEP2(add_cc, "add.cc.u32")
TL_STEP2(addc_cc, "addc.cc.u32")
TL_STEP2(addc, "addc.u32")
TL_STEP2(sub_cc, "sub.cc.u32")
TL_STEP2(subc_cc, "subc.cc.u32")
TL_STEP2(subc, "subc.u32")
TL_STEP3(mad_lo_cc, "mad.lo.cc.u32")
TL_STEP3(madc_lo_cc, "madc.lo.cc.u32")
TL_STEP3(madc_hi_cc, "madc.hi.cc.u32")
TL_STEP3(madc_hi, "madc.hi.u32")

#undef TL_STEP2
#undef TL_STEP3

#else

struct Carry {
    uint32_t flag = 0;
};

TL_HD uint32_t carry_sum(uint64_t a, uint64_t b, uint32_t in, Carry &carry) {
    const uint64_t sum = a + b + in;
    carry.flag = uint32_t(sum >> 32);
    return uint32_t(sum);
}
TL_HD uint32_t carry_difference(uint64_t a, uint64_t b, uint32_t in, Carry &carry) {
    const uint64_t difference = a - b - in;
    carry.flag = uint32_t(difference >> 63);
    return uint32_t(difference);
}
TL_HD uint32_t mul_hi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }

TL_HD uint32_t add_cc(uint32_t a, uint32_t b, Carry &c) { return carry_sum(a, b, 0, c); }
TL_HD uint32_t addc_cc(uint32_t a, uint32_t b, Carry &c) { return carry_sum(a, b, c.flag, c); }
// What does not set the flag leaves it as it is.
TL_HD uint32_t addc(uint32_t a, uint32_t b, Carry &c) { return a + b + c.flag; }
TL_HD uint32_t sub_cc(uint32_t a, uint32_t b, Carry &c) { return carry_difference(a, b, 0, c); }
TL_HD uint32_t subc_cc(uint32_t a, uint32_t b, Carry &c) {
    return carry_difference(a, b, c.flag, c);
}
TL_HD uint32_t subc(uint32_t a, uint32_t b, Carry &c) { return a - b - c.flag; }
TL_HD uint32_t mad_lo_cc(uint32_t a, uint32_t b, uint32_t c, Carry &carry) {
    return carry_sum(mul_lo(a, b), c, 0, carry);
}
TL_HD uint32_t madc_lo_cc(uint32_t a, uint32_t b, uint32_t c, Carry &carry) {
    return carry_sum(mul_lo(a, b), c, carry.flag, carry);
}
TL_HD uint32_t madc_hi_cc(uint32_t a, uint32_t b, uint32_t c, Carry &carry) {
    return carry_sum(mul_hi(a, b), c, carry.flag, carry);
}
TL_HD uint32_t madc_hi(uint32_t a, uint32_t b, uint32_t c, Carry &carry) {
    return mul_hi(a, b) + c + carry.flag;
}

#endif

// Of numbers of M limbs, which may be one and the same: a + b and a - b without what is carried out.
template <int M>
TL_HD void add_limbs(uint32_t *out, const uint32_t *a, const uint32_t *b) {
    Carry carry;
    out[0] = add_cc(a[0], b[0], carry);
    TL_UNROLL
    for (int i = 1; i < M - 1; i++) out[i] = addc_cc(a[i], b[i], carry);
    out[M - 1] = addc(a[M - 1], b[M - 1], carry);
}
template <int M>
TL_HD void sub_limbs(uint32_t *out, const uint32_t *a, const uint32_t *b) {
    Carry carry;
    out[0] = sub_cc(a[0], b[0], carry);
    TL_UNROLL
    for (int i = 1; i < M - 1; i++) out[i] = subc_cc(a[i], b[i], carry);
    out[M - 1] = subc(a[M - 1], b[M - 1], carry);
}
// a - b; all ones if that is negative, else 0.
template <int M>
TL_HD uint32_t sub_limbs_borrow(uint32_t *out, const uint32_t *a, const uint32_t *b) {
    Carry carry;
    out[0] = sub_cc(a[0], b[0], carry);
    TL_UNROLL
    for (int i = 1; i < M; i++) out[i] = subc_cc(a[i], b[i], carry);
    return subc(0, 0, carry);
}
