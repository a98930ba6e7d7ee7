// Field operations over arrays, by number.
#include "fp2.cuh"
#include "known.cuh"

namespace {

enum Operation {
    ADD, SUB, NEG, MUL, SQR, DBL, FROM_MONTGOMERY, TO_MONTGOMERY, IS_ZERO, EQUAL, BELOW, DOT,
    MUL_KNOWN, MUL_KNOWN_UNREDUCED, DIFFERENCE_BY_FOURTH_ROOT
};

template <class F>
F flag(bool value) {
    return value ? F::one() : F::zero();
}

template <class F>
bool arithmetic(uint32_t operation, const F &a, const F &b, F &out) {
    switch (operation) {
    case ADD: out = a + b; return true;
    case SUB: out = a - b; return true;
    case NEG: out = -a; return true;
    case MUL: out = a * b; return true;
    case SQR: out = sqr(a); return true;
    case DBL: out = a.dbl(); return true;
    case IS_ZERO: out = flag<F>(a.is_zero()); return true;
    case EQUAL: out = flag<F>(a == b); return true;
    default: return false;
    }
}

template <class P>
bool compute(uint32_t operation, const Mont<P> &a, const Mont<P> &b, Mont<P> &out) {
    switch (operation) {
    case FROM_MONTGOMERY: out = a.from_montgomery(); return true;
    case TO_MONTGOMERY: out = a.to_montgomery(); return true;
    case BELOW: out = flag<Mont<P>>(a.below_modulus()); return true;
    default: return arithmetic(operation, a, b, out);
    }
}

bool compute(uint32_t operation, const Fp &a, const Fp &b, Fp &out) {
    if (operation == DOT) {
        out = dot(a, b, a + b, -a);
        return true;
    }
    return compute<FpParams>(operation, a, b, out);
}

bool compute(uint32_t operation, const Fr &a, const Fr &b, Fr &out) {
    if (operation == MUL_KNOWN) {
        out = a * Known::from_montgomery(b);
        return true;
    }
    if (operation == MUL_KNOWN_UNREDUCED) {
        out = a.unreduced_difference(Fr::zero()) * Known::from_montgomery(b);
        return true;
    }
    if (operation == DIFFERENCE_BY_FOURTH_ROOT) {
        Fr root;
        for (int i = 0; i < 8; i++) root.l[i] = FR_ROOTS[8 * 2 + i];
        const Known known = Known::from_montgomery(root);
        out = FourthRoot{known, false}.times_difference(a, b);
        const Fr negated = FourthRoot{known, true}.times_difference(a, b);
        return (out + negated).is_zero() && negated.below_modulus();
    }
    return compute<FrParams>(operation, a, b, out);
}

bool compute(uint32_t operation, const Fp2 &a, const Fp2 &b, Fp2 &out) {
    return arithmetic(operation, a, b, out);
}

template <class F>
uint32_t run(uint32_t operation, const void *a, const void *b, void *out) {
    F result;
    if (!compute(operation, F::load(a), F::load(b), result)) return 0;
    result.store(out);
    return 1;
}

} // namespace

extern "C" {
uint32_t twinlock_cuda_fr(uint32_t operation, const void *a, const void *b, void *out) {
    return run<Fr>(operation, a, b, out);
}
uint32_t twinlock_cuda_fp(uint32_t operation, const void *a, const void *b, void *out) {
    return run<Fp>(operation, a, b, out);
}
uint32_t twinlock_cuda_fp2(uint32_t operation, const void *a, const void *b, void *out) {
    return run<Fp2>(operation, a, b, out);
}
}
