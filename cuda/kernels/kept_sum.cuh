// A sum of points whose coordinates are kept in a thread's own memory, not in registers. Additions have
// one general product in the code, beside a square and, where there is one, `dot`.
//
// With its products written out one by one an addition is longer than the instruction cache, and a
// device waits for instructions, the more the more warps it has. What is in registers only while a
// product needs it leaves room for more warps.
#pragma once

#include "curve.cuh"

template <class F, uint32_t STRIDE>
class KeptSum {
    static constexpr uint32_t QUADS = sizeof(F) / sizeof(Quad);

    enum Slot : uint32_t { X, Y, ZZ, ZZZ, A, B, SLOTS };
    // Quads of a slot, and slots, `STRIDE` bytes apart.
    char *at;

    TL_HD F get(uint32_t slot) const { return F::load_apart(at + slot * QUADS * STRIDE, STRIDE); }
    TL_HD void put(uint32_t slot, const F &value) const {
        value.store_apart(at + slot * QUADS * STRIDE, STRIDE);
    }
    TL_HD void put(const F &x, const F &y, const F &zz, const F &zzz) const {
        put(X, x);
        put(Y, y);
        put(ZZ, zz);
        put(ZZZ, zzz);
    }

  public:
    // Of a thread.
    static constexpr uint32_t BYTES = SLOTS * sizeof(F);

    explicit TL_HD KeptSum(char *at) : at(at) {}

    // The identity, as zeros.
    TL_HD void clear() const { put(F::zero(), F::zero(), F::zero(), F::zero()); }

    TL_HD void load(const char *from) const {
        TL_UNROLL
        for (uint32_t i = 0; i < 4 * QUADS; i++)
            store_quad(at + i * STRIDE, load_quad(from + i * sizeof(Quad)));
    }
    TL_HD void store(char *to) const {
        TL_UNROLL
        for (uint32_t i = 0; i < 4 * QUADS; i++)
            store_quad(to + i * sizeof(Quad), load_quad(at + i * STRIDE));
    }

    TL_HD void add(const Affine<F> &p) const {
        if (p.is_infinity()) return;
        if (get(ZZ).is_zero()) {
            put(p.x, p.y, F::one(), F::one());
            return;
        }
        put(A, p.x);
        put(B, p.y);
        add<true>(nullptr);
    }

    // Another sum, stored in memory.
    TL_HD void add_stored(const char *p) const {
        if (F::load(p + ZZ * sizeof(F)).is_zero()) return;
        if (get(ZZ).is_zero()) {
            load(p);
            return;
        }
        put(A, F::load(p));
        put(B, F::load(p + sizeof(F)));
        add<false>(p);
    }

  private:
    // As Xyzz adds, a product a step: the slot LEFT times a factor goes to the slot OUT.
    //
    //   0  X p.zz, is u      4  ZZ p.zz      8  X pp, is q
    //   1  Y p.zzz, is s     5  ZZZ p.zzz    9  ZZZ ppp
    //   2  A ZZ - X, is dx   6  A pp, is ppp   10  Y ppp
    //   3  B ZZZ - Y, is dy  7  ZZ pp       11  B (q - x) - Y
    //
    // pp is the square of dx. Affine points have zz = zzz = 1 and skip 0, 1, 4 and 5; `dot` does the
    // last two where there is one.
    static constexpr uint64_t LEFT = 0x513024325410, OUT = 0x113024325410;

    template <bool IS_AFFINE>
    TL_HD void add(const char *p) const {
        constexpr uint32_t DIFFERENCES = IS_AFFINE ? 3 : 5;
        constexpr uint32_t ABSCISSA = F::HAS_DOT ? 9 : 10;
        F factor;
        TL_NO_UNROLL
        for (uint32_t i = IS_AFFINE ? 2 : 0; i <= (F::HAS_DOT ? 9 : 11); i++) {
            if (i == 2 || i == 3)
                factor = get(i);
            else if (i == 9)
                factor = get(A);
            else if constexpr (!IS_AFFINE)
                if (i < 6) factor = F::load(p + (ZZ + i % 2) * sizeof(F));
            F product = get(LEFT >> 4 * i & 15) * factor;
            if (i == 2 || i == 3) product = product - get(i - 2);
            if (!F::HAS_DOT && i == 11) product = product - get(Y);
            put(OUT >> 4 * i & 15, product);
            if (i != DIFFERENCES && i != ABSCISSA) continue;
            const F base = get(i == ABSCISSA ? B : A);
            if (i == DIFFERENCES && base.is_zero() && get(B).is_zero()) {
                // Opposite points get zz = 0 from what follows; equal ones would, too. The slots still
                // have the point, over whatever denominator.
                double_rarely(at);
                return;
            }
            const F square = sqr(base);
            if (i == DIFFERENCES) {
                factor = square;
                i = 5;
                continue;
            }
            const F q = get(X);
            const F x = square - factor - q.dbl();
            put(X, x);
            if constexpr (F::HAS_DOT)
                put(Y, dot(base, q - x, -get(Y), factor));
            else
                factor = q - x;
        }
    }

    // A call, so that its products are not in the addition's code.
    static TL_HD_CALL void double_rarely(char *at) {
        using C = typename CalledOf<F>::Type;
        const KeptSum sum(at);
        const Xyzz<C> twice = Xyzz<C>{sum.get(X), sum.get(Y), sum.get(ZZ), sum.get(ZZZ)}.dbl();
        sum.put(twice.x, twice.y, twice.zz, twice.zzz);
    }
};
