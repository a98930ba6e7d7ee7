// Tables of bases' multiples; see the operation `BaseTables`.
#pragma once

#include "normalize.cuh"

namespace base_tables {

// 2^doublings times an affine point.
template <class F>
static TL_HD Xyzz<F> shifted(const Affine<F> &base, uint32_t doublings) {
    using C = typename CalledOf<F>::Type;
    Xyzz<C> point = Xyzz<C>::from_affine(Affine<C>{base.x, base.y});
    for (uint32_t i = 0; i < doublings; i++) point = point.dbl();
    return Xyzz<F>{point.x, point.y, point.zz, point.zzz};
}

}  // namespace base_tables
