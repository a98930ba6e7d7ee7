// Decodes one point.
#include "points.cuh"

namespace {

template <class F>
uint32_t run(const void *source, uint32_t on_curve, void *out) {
    Affine<F> point;
    const bool good = points::decode(static_cast<const char *>(source), on_curve != 0, point);
    point.store(out);
    return good;
}

} // namespace

extern "C" {
uint32_t twinlock_cuda_decode_g1(const void *source, uint32_t on_curve, void *out) {
    return run<Fp>(source, on_curve, out);
}
uint32_t twinlock_cuda_decode_g2(const void *source, uint32_t on_curve, void *out) {
    return run<Fp2>(source, on_curve, out);
}
}
