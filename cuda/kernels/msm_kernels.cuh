// The kernels of `msm_accumulate` and `msm_reduce` for one group, which a unit names.
#pragma once

#include "msm_reduce.cuh"

// Threads 0.. of all blocks.
#define MSM_THREAD (blockIdx.x * blockDim.x + threadIdx.x)

// `sum`, a thread's sum of points: in shared memory where a multiprocessor has 160 KiB or more of it,
// else in local memory, most of which first-level caches hold.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870 || \
                               (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200))
#define MSM_KEPT_SUM(F, threads)                                                             \
    __shared__ alignas(16) char kept[KeptSum<F, 0>::BYTES * threads];                        \
    const KeptSum<F, sizeof(Quad) * threads> sum(kept + sizeof(Quad) * threadIdx.x)
#else
#define MSM_KEPT_SUM(F, threads)                   \
    alignas(16) char kept[KeptSum<F, 0>::BYTES];   \
    const KeptSum<F, sizeof(Quad)> sum(kept)
#endif

#define MSM_PLAN_PARAMS                                                                      \
    const uint32_t *offsets, const uint32_t *entries, uint32_t num_windows,                  \
        uint32_t num_buckets, uint32_t len, uint64_t stride
#define MSM_PLAN \
    msm::Plan { offsets, entries, num_windows, num_buckets, len, stride }

// Grid: one thread a run, `max_runs`. One kernel for bases alone, one for several tables of them.
#define MSM_ACCUMULATE_BY(name, F, threads, blocks, has_tables)                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                            \
        name(MSM_PLAN_PARAMS, uint32_t *runs, const char *bases, const uint32_t *indices,    \
             uint32_t base_first, uint32_t num_bases, uint32_t tables, uint32_t table_len,   \
             char *accumulator, char *heads, uint32_t *keys, uint32_t max_runs) {            \
        MSM_KEPT_SUM(F, threads);                                                            \
        const uint32_t num_scalars = has_tables ? len / tables : len;                        \
        const msm::Bases<has_tables> by_scalar{                                              \
            bases, indices, base_first, num_bases, num_scalars, tables, table_len};          \
        msm::accumulate<F>(MSM_PLAN, msm::Runs{runs}, by_scalar,                             \
                           msm::Sums{accumulator, heads, keys}, sum, max_runs, MSM_THREAD);  \
    }
#define MSM_ACCUMULATE(name, tables_name, F, threads, blocks) \
    MSM_ACCUMULATE_BY(name, F, threads, blocks, false)        \
    MSM_ACCUMULATE_BY(tables_name, F, threads, blocks, true)

// Grid: one thread a run of `run_len` heads.
#define MSM_FOLD(name, F, threads, blocks)                                                   \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                            \
        name(char *accumulator, char *heads, uint32_t *keys, uint32_t runs_in,               \
             uint32_t run_len, uint32_t in_first, uint32_t out_first) {                      \
        MSM_KEPT_SUM(F, threads);                                                            \
        msm::fold<F>(msm::Sums{accumulator, heads, keys},                                    \
                     msm::Level{runs_in, run_len, in_first, out_first}, sum, MSM_THREAD);    \
    }

// Grid: one thread a partial sum of all windows. From buckets, if the counts of parts that come in
// are 0.
#define MSM_SUM(name, F, threads, blocks)                                                    \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                            \
        name(uint32_t num_windows, uint32_t rows, uint32_t columns, uint32_t row_parts_in,   \
             uint32_t column_parts_in, uint32_t row_parts, uint32_t column_parts,            \
             const char *points, char *sums) {                                               \
        MSM_KEPT_SUM(F, threads);                                                            \
        msm::sum<F>(msm::Lines{rows, columns, row_parts_in, column_parts_in},                \
                    msm::Lines{rows, columns, row_parts, column_parts}, num_windows, points, \
                    sums, sum, MSM_THREAD);                                                  \
    }

// Grid: two blocks a window, of its rows and of its columns.
#define MSM_WEIGH(name, F, threads)                                                          \
    extern "C" __global__ void __launch_bounds__(threads)                                    \
        name(uint32_t rows, uint32_t columns, const char *sums, char *weighed) {             \
        using Weigh = msm::Weigh<F, threads>;                                                \
        __shared__ Weigh::Shared shared;                                                     \
        Weigh::Registers mine;                                                               \
        const Weigh weigh{msm::Lines{rows, columns, 1, 1}, sums, blockIdx.x / 2,             \
                          blockIdx.x % 2 == 0};                                              \
        weigh.begin(shared, mine, threadIdx.x);                                              \
        for (uint32_t i = 0; i < weigh.num_steps(); i++) {                                   \
            const Weigh::Step step = weigh.step(i);                                          \
            __syncthreads();                                                                 \
            weigh.read(shared, mine, step, threadIdx.x);                                     \
            __syncthreads();                                                                 \
            weigh.add(shared, mine, step, threadIdx.x);                                      \
        }                                                                                    \
        if (threadIdx.x == 0)                                                                \
            Xyzz<F>::load(shared.points).store(msm::point_at<F>(weighed, blockIdx.x));       \
    }

// Grid: one thread a window.
#define MSM_FINISH(name, F)                                                                  \
    extern "C" __global__ void __launch_bounds__(msm::MAX_WINDOWS)                           \
        name(uint32_t num_windows, uint32_t columns, const char *weighed, char *windows) {   \
        msm::finish<F>(weighed, windows, num_windows, columns, MSM_THREAD);                  \
    }
