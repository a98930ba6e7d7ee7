// Points of y^2 = x^3 + b over F = Fp (G1) or Fp2 (G2). Sums in XYZZ coordinates: x = X / ZZ,
// y = Y / ZZZ, ZZ^3 = ZZZ^2 (formulas of the EFD, shortw/xyzz: madd-2008-s, add-2008-s,
// dbl-2008-s-1, mdbl-2008-s-1).
#pragma once

#include "called.cuh"

// All zeros: infinity, which is not on the curve.
template <class F>
struct Affine {
    F x, y;

    static TL_HD Affine load(const void *at) {
        return Affine{F::load(at), F::load(static_cast<const char *>(at) + sizeof(F))};
    }
    static TL_HD Affine load_read_only(const void *at) {
        return Affine{F::load_read_only(at),
                      F::load_read_only(static_cast<const char *>(at) + sizeof(F))};
    }
    TL_HD void store(void *at) const {
        x.store(at);
        y.store(static_cast<char *>(at) + sizeof(F));
    }
    TL_HD bool is_infinity() const { return x.is_zero() && y.is_zero(); }
    TL_HD Affine operator-() const { return Affine{x, -y}; }
};

// z = 0: infinity; else (x / z^2, y / z^3).
template <class F>
struct Jacobian {
    F x, y, z;

    TL_HD void store(void *at) const {
        x.store(at);
        y.store(static_cast<char *>(at) + sizeof(F));
        z.store(static_cast<char *>(at) + 2 * sizeof(F));
    }
};

// zz = 0: the identity, whatever the rest.
template <class F>
struct Xyzz {
    F x, y, zz, zzz;

    static TL_HD Xyzz identity() { return Xyzz{F::zero(), F::zero(), F::zero(), F::zero()}; }

    static TL_HD Xyzz from_affine(const Affine<F> &p) {
        if (p.is_infinity()) return identity();
        return Xyzz{p.x, p.y, F::one(), F::one()};
    }

    static TL_HD Xyzz load(const void *at) {
        const char *bytes = static_cast<const char *>(at);
        return Xyzz{F::load(bytes), F::load(bytes + sizeof(F)), F::load(bytes + 2 * sizeof(F)),
                    F::load(bytes + 3 * sizeof(F))};
    }
    TL_HD void store(void *at) const {
        char *bytes = static_cast<char *>(at);
        x.store(bytes);
        y.store(bytes + sizeof(F));
        zz.store(bytes + 2 * sizeof(F));
        zzz.store(bytes + 3 * sizeof(F));
    }

    TL_HD bool is_identity() const { return zz.is_zero(); }
    TL_HD Xyzz operator-() const { return Xyzz{x, -y, zz, zzz}; }

    // Twice an affine point that is not infinity.
    static TL_HD Xyzz twice(const Affine<F> &p) {
        const F u = p.y.dbl();
        const F v = sqr(u);
        const F w = u * v;
        return doubled(p.x, p.y, v, w);
    }

    TL_HD Xyzz dbl() const {
        const F u = y.dbl();
        const F v = sqr(u);
        const F w = u * v;
        Xyzz out = doubled(x, y, v, w);
        out.zz = v * zz;
        out.zzz = w * zzz;
        return out;
    }

    TL_HD void add(const Affine<F> &p) {
        if (p.is_infinity()) return;
        if (is_identity()) {
            *this = Xyzz{p.x, p.y, F::one(), F::one()};
            return;
        }
        const F dx = p.x * zz - x;
        const F dy = p.y * zzz - y;
        // Opposite points get zz = 0 from what follows; equal ones would, too.
        if (dx.is_zero() && dy.is_zero()) {
            *this = rarely_twice(p);
            return;
        }
        const F pp = sqr(dx);
        const F ppp = dx * pp;
        combine(x, y, pp, ppp, dy);
        zz = zz * pp;
        zzz = zzz * ppp;
    }

    TL_HD void add(const Xyzz &p) {
        if (p.is_identity()) return;
        if (is_identity()) {
            *this = p;
            return;
        }
        const F u = x * p.zz;
        const F s = y * p.zzz;
        const F dx = p.x * zz - u;
        const F dy = p.y * zzz - s;
        if (dx.is_zero() && dy.is_zero()) {
            *this = rarely_twice(*this);
            return;
        }
        const F pp = sqr(dx);
        const F ppp = dx * pp;
        combine(u, s, pp, ppp, dy);
        zz = zz * p.zz * pp;
        zzz = zzz * p.zzz * ppp;
    }

    // With z = zz: x / z^2 = X / zz and, as zz^3 = zzz^2, y / z^3 = Y / zzz.
    TL_HD Jacobian<F> to_jacobian() const { return Jacobian<F>{x * zz, y * zzz, zz}; }

  private:
    // Doublings that hardly ever happen are calls, which keeps their products out of every addition's
    // code. They work on copies, so that the sums themselves stay in registers.
    using C = typename CalledOf<F>::Type;
    static TL_HD_CALL void store_twice(const Affine<F> &p, Xyzz &out) {
        const Xyzz<C> sum = Xyzz<C>::twice(Affine<C>{p.x, p.y});
        out = Xyzz{sum.x, sum.y, sum.zz, sum.zzz};
    }
    static TL_HD_CALL void store_twice(const Xyzz &p, Xyzz &out) {
        const Xyzz<C> sum = Xyzz<C>{p.x, p.y, p.zz, p.zzz}.dbl();
        out = Xyzz{sum.x, sum.y, sum.zz, sum.zzz};
    }

    template <class P>
    static TL_HD Xyzz rarely_twice(const P &p) {
        const P copy = p;
        Xyzz out;
        store_twice(copy, out);
        return out;
    }

    // x and y of the sum, from the slope's numerator dy, the square pp and the cube ppp of its
    // denominator, and the first point's coordinates over the common denominator.
    TL_HD void combine(const F &u, const F &s, const F &pp, const F &ppp, const F &dy) {
        const F q = u * pp;
        const F sum = sqr(dy) - ppp - q.dbl();
        y = dot(dy, q - sum, -s, ppp);
        x = sum;
    }

    static TL_HD Xyzz doubled(const F &x, const F &y, const F &v, const F &w) {
        const F s = x * v;
        const F square = sqr(x);
        const F m = square.dbl() + square;
        Xyzz out;
        out.x = sqr(m) - s.dbl();
        out.y = dot(m, s - out.x, -w, y);
        out.zz = v;
        out.zzz = w;
        return out;
    }
};
