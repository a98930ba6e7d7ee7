// Products a second: each thread keeps independent chains going, four, or two over Fp2.
#include "curve.cuh"
#include "known.cuh"

namespace {

constexpr uint32_t THREADS = 128;

// Fr without the shortcut for its lowest limbs.
struct FrPlainParams : FrParams {
    static constexpr bool LOW_PAIR_IS_SHIFTS = false;
};

struct Product {
    template <class F>
    static __device__ __forceinline__ F step(const F &a, const F &b) {
        return a * b;
    }
};

struct Square {
    template <class F>
    static __device__ __forceinline__ F step(const F &a, const F &) {
        return sqr(a);
    }
};

// By a factor that stays, as if it were the factor's standard form.
struct ProductByKnown {
    static __device__ __forceinline__ Fr step(const Fr &a, const Fr &b) {
        return a * Known{b, b};
    }
};

struct Butterfly {
    template <class F>
    static __device__ __forceinline__ F step(const F &a, const F &b) {
        const F product = a * b;
        return (b + product) + (b - product);
    }
};

// `count` steps on each of a thread's elements at `data`.
template <class F, class Operation>
__device__ __forceinline__ void chains(uint32_t count, char *data) {
    constexpr int CHAINS = sizeof(F) > sizeof(Fp) ? 2 : 4;
    const size_t thread = size_t(blockIdx.x) * THREADS + threadIdx.x;
    char *at = data + CHAINS * sizeof(F) * thread;
    F v[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) v[i] = F::load(at + sizeof(F) * i);
    const F factor = v[0] + v[1];
#pragma unroll 1
    for (uint32_t k = 0; k < count; k++) {
#pragma unroll
        for (int i = 0; i < CHAINS; i++) v[i] = Operation::step(v[i], factor);
    }
#pragma unroll
    for (int i = 0; i < CHAINS; i++) v[i].store(at + sizeof(F) * i);
}

} // namespace

#define BENCH(name, F, Operation)                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS) name(uint32_t count, char *data) {  \
        chains<F, Operation>(count, data);                                                    \
    }

BENCH(bench_fr_mul, Fr, Product)
BENCH(bench_fr_mul_plain, Mont<FrPlainParams>, Product)
BENCH(bench_fr_mul_known, Fr, ProductByKnown)
BENCH(bench_fr_sqr, Fr, Square)
BENCH(bench_fr_butterfly, Fr, Butterfly)
BENCH(bench_fp_mul, Fp, Product)
BENCH(bench_fp_sqr, Fp, Square)
BENCH(bench_fp2_mul, Fp2, Product)
BENCH(bench_fp2_sqr, Fp2, Square)
