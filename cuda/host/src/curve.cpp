// Curve operations, by number, on sums in XYZZ coordinates.
#include "kept_sum.cuh"

namespace {

enum Operation { ADD_AFFINE, ADD, DOUBLE, NEGATE, TWICE_AFFINE, ADD_AFFINE_KEPT, ADD_KEPT };

template <class F>
uint32_t run(uint32_t operation, void *sum, const void *other) {
    Xyzz<F> a = Xyzz<F>::load(sum);
    switch (operation) {
    case ADD_AFFINE: a.add(Affine<F>::load(other)); break;
    case ADD: a.add(Xyzz<F>::load(other)); break;
    case ADD_AFFINE_KEPT:
    case ADD_KEPT: {
        // Quads further apart than they are long.
        alignas(16) char kept[3 * KeptSum<F, 48>::BYTES];
        const KeptSum<F, 48> slots(kept);
        slots.load(static_cast<const char *>(sum));
        if (operation == ADD_KEPT)
            slots.add_stored(static_cast<const char *>(other));
        else
            slots.add(Affine<F>::load(other));
        slots.store(static_cast<char *>(sum));
        return 1;
    }
    case DOUBLE: a = a.dbl(); break;
    case NEGATE: a = -a; break;
    case TWICE_AFFINE: a = Xyzz<F>::twice(Affine<F>::load(other)); break;
    default: return 0;
    }
    a.store(sum);
    return 1;
}

} // namespace

extern "C" {
uint32_t twinlock_cuda_g1(uint32_t operation, void *sum, const void *other) {
    return run<Fp>(operation, sum, other);
}
uint32_t twinlock_cuda_g2(uint32_t operation, void *sum, const void *other) {
    return run<Fp2>(operation, sum, other);
}
void twinlock_cuda_g1_to_jacobian(const void *sum, void *out) {
    Xyzz<Fp>::load(sum).to_jacobian().store(out);
}
void twinlock_cuda_g2_to_jacobian(const void *sum, void *out) {
    Xyzz<Fp2>::load(sum).to_jacobian().store(out);
}
}
