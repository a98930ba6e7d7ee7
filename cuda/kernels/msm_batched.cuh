// Buckets, filled in affine coordinates: with the inversions of many additions shared (Montgomery's
// trick), one takes 5 products and a square, where a mixed one takes 8 and two.
//
// A plan that is padded, each bucket to a multiple of GROUP entries, is cut into groups that lie
// within one bucket each. A thread takes BATCH groups at once: it adds pairs of bases, then pairs
// of these sums, each time with one inversion, and adds what is left of each group to its bucket
// as usual.
#pragma once

#include "invert.cuh"
#include "msm_accumulate.cuh"

namespace msm {

constexpr uint32_t GROUP = 4;
// Pairs between prefetching bases and adding them.
constexpr uint32_t AHEAD = 3;
// What inversions and scratch take is the same for both groups.
template <class F>
constexpr uint32_t BATCH = 32 * sizeof(Fp) / sizeof(F);

TL_HD Quad quad(const Fp &value, uint32_t i) { return value.quad(i); }
TL_HD Quad quad(const Fp2 &value, uint32_t i) {
    return i < Fp::N / 4 ? value.c0.quad(i) : value.c1.quad(i - Fp::N / 4);
}
TL_HD void set_quad(Fp &value, uint32_t i, const Quad &quad) { value.set_quad(i, quad); }
TL_HD void set_quad(Fp2 &value, uint32_t i, const Quad &quad) {
    if (i < Fp::N / 4)
        value.c0.set_quad(i, quad);
    else
        value.c1.set_quad(i - Fp::N / 4, quad);
}

// A thread's memory, interleaved with the others' by 16 bytes: products of denominators, and sums
// of pairs.
template <class F>
struct Scratch {
    static constexpr uint32_t PAIRS = BATCH<F> * GROUP / 2;
    static constexpr uint32_t QUADS = sizeof(F) / sizeof(Quad);
    static constexpr uint64_t BYTES = PAIRS * 3 * sizeof(F);

    char *bytes;
    uint32_t threads, thread;

    TL_HD char *at(uint32_t element, uint32_t quad) const {
        return bytes + ((uint64_t(element) * QUADS + quad) * threads + thread) * sizeof(Quad);
    }
    TL_HD F load(uint32_t element) const {
        F out;
        TL_UNROLL
        for (uint32_t i = 0; i < QUADS; i++) set_quad(out, i, load_quad(at(element, i)));
        return out;
    }
    TL_HD void store(uint32_t element, const F &value) const {
        TL_UNROLL
        for (uint32_t i = 0; i < QUADS; i++) store_quad(at(element, i), quad(value, i));
    }

    TL_HD F product(uint32_t pair) const { return load(pair); }
    TL_HD void set_product(uint32_t pair, const F &value) const { store(pair, value); }
    TL_HD F x(uint32_t sum) const { return load(PAIRS + 2 * sum); }
    TL_HD Affine<F> sum(uint32_t sum) const {
        return Affine<F>{x(sum), load(PAIRS + 2 * sum + 1)};
    }
    TL_HD void set_sum(uint32_t sum, const Affine<F> &point) const {
        store(PAIRS + 2 * sum, point.x);
        store(PAIRS + 2 * sum + 1, point.y);
    }
};

// Two points to be added. Zeros are infinity, as a missing base is.
template <class F>
struct Pair {
    Affine<F> left, right;

    // What the slope is divided by; one where there is no slope.
    TL_HD F denominator() const {
        if (left.is_infinity() || right.is_infinity()) return F::one();
        const F dx = right.x - left.x;
        if (!dx.is_zero()) return dx;
        // No point of the curve has y = 0, for its order is odd.
        return left.y == right.y ? left.y.dbl() : F::one();
    }

    TL_HD Affine<F> sum(const F &inverse) const {
        if (left.is_infinity()) return right;
        if (right.is_infinity()) return left;
        F rise = right.y - left.y;
        if (left.x == right.x) {
            if (!rise.is_zero()) return Affine<F>{F::zero(), F::zero()};
            const F square = sqr(left.x);
            rise = square.dbl() + square;
        }
        const F slope = rise * inverse;
        const F x = sqr(slope) - left.x - right.x;
        return Affine<F>{x, slope * (left.x - x) - left.y};
    }
};

// The pairs of a batch at both levels: of bases, then of those pairs' sums.
template <class F, bool INDEXED>
struct Batch {
    const Bases &bases;
    const Scratch<F> &scratch;
    // The batch's first.
    const uint32_t *entries;
    uint32_t level;

    TL_HD Affine<F> base(uint32_t entry) const {
        const uint32_t index = bases.template index<INDEXED>(entry);
        if (index == NO_BASE) return Affine<F>{F::zero(), F::zero()};
        Affine<F> point = Affine<F>::load_read_only(bases.template at<F>(index));
        if ((entry & SIGN) != 0) point.y = -point.y;
        return point;
    }

    TL_HD Pair<F> pair(uint32_t i) const {
        if (level == 0) return Pair<F>{base(entries[2 * i]), base(entries[2 * i + 1])};
        return Pair<F>{scratch.sum(2 * i), scratch.sum(2 * i + 1)};
    }

    TL_HD F base_x(uint32_t entry) const {
        const uint32_t index = bases.template index<INDEXED>(entry);
        return index == NO_BASE ? F::zero() : F::load_read_only(bases.template at<F>(index));
    }

    TL_HD F denominator(uint32_t i) const {
        // Nearly always the difference of two x.
        const F left = level == 0 ? base_x(entries[2 * i]) : scratch.x(2 * i);
        const F right = level == 0 ? base_x(entries[2 * i + 1]) : scratch.x(2 * i + 1);
        const F dx = right - left;
        if (left.is_zero() || right.is_zero() || dx.is_zero()) return pair(i).denominator();
        return dx;
    }

    // Bases of a pair some steps on are brought near. `i` may be past the end either way.
    TL_HD void prefetch_pair(uint32_t i, uint32_t pairs) const {
        if (level != 0 || i >= pairs) return;
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t index = bases.template index<INDEXED>(entries[2 * i + k]);
            if (index == NO_BASE) continue;
            prefetch(bases.template at<F>(index));
            prefetch(bases.template at<F>(index) + sizeof(Affine<F>) - 1);
        }
    }

    // Level 0 leaves sum i at place i, level 1 at place 2 i: behind what is still to be read.
    TL_HD void add(uint32_t pairs) const {
        F product = F::one();
        for (uint32_t i = 0; i < pairs; i++) {
            prefetch_pair(i + AHEAD, pairs);
            scratch.set_product(i, product);
            product = product * denominator(i);
        }
        F inverse = invert(product);
        for (uint32_t i = pairs; i-- != 0;) {
            prefetch_pair(i - AHEAD, pairs);
            const Pair<F> pair = this->pair(i);
            const F own = inverse * scratch.product(i);
            inverse = inverse * pair.denominator();
            scratch.set_sum(level == 0 ? i : 2 * i, pair.sum(own));
        }
    }
};

// As `accumulate`, by a padded plan with runs of whole groups.
template <class F, bool INDEXED>
static TL_HD void accumulate_batched(const Plan &plan, const Runs &runs, const Bases &bases,
                                     const Sums &sums, uint32_t max_runs, const Scratch<F> &scratch,
                                     uint32_t id) {
    if (!Run<F>::exists(plan, runs, sums, max_runs, id)) return;
    Run<F> run(plan, runs, sums, id);
    for (uint32_t begin = run.begin; begin < run.end; begin += BATCH<F> * GROUP) {
        // The end of a window that is no plan's may be anywhere.
        const uint32_t rest = (run.end - begin) / GROUP;
        const uint32_t groups = rest < BATCH<F> ? rest : BATCH<F>;
        Batch<F, INDEXED> batch{bases, scratch, run.entries + begin, 0};
        for (; batch.level < 2; batch.level++) batch.add(batch.level == 0 ? 2 * groups : groups);
        for (uint32_t i = 0; i < groups; i++) {
            run.move_to(begin + GROUP * i);
            run.sum.add(scratch.sum(2 * i));
        }
    }
    run.flush();
}

}  // namespace msm
