// MSM kernels of G1, and those of both groups. See msm_accumulate.cuh and msm_reduce.cuh.
#include "msm_kernels.cuh"
#include "msm_batched.cuh"

// Grid: one block. `runs` has num_windows + 2 words.
extern "C" __global__ void __launch_bounds__(msm::MAX_WINDOWS)
    msm_runs(MSM_PLAN_PARAMS, uint32_t *runs, uint32_t resident, uint32_t max_waves,
             uint32_t unit) {
    __shared__ uint32_t counts[msm::MAX_WINDOWS];
    const msm::Plan plan = MSM_PLAN;
    if (threadIdx.x < num_windows) counts[threadIdx.x] = plan.count(threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) msm::Runs{runs}.plan(counts, num_windows, resident, max_waves, unit);
}

MSM_ACCUMULATE(msm_accumulate_g1, Fp, false, 3)
MSM_ACCUMULATE(msm_accumulate_indexed_g1, Fp, true, 3)

// Grid: one thread a run, `max_runs`; `scratch` has Scratch::BYTES for each.
#define MSM_ACCUMULATE_BATCHED(name, indexed)                                                \
    extern "C" __global__ void __launch_bounds__(msm::THREADS, 3)                            \
        name(MSM_PLAN_PARAMS, uint32_t *runs, const char *bases, const uint32_t *indices,    \
             uint32_t base_first, uint32_t num_bases, char *accumulator, char *heads,        \
             uint32_t *keys, uint32_t max_runs, char *scratch) {                             \
        msm::accumulate_batched<indexed>(                                                    \
            MSM_PLAN, msm::Runs{runs}, msm::Bases{bases, indices, base_first, num_bases, len}, \
            msm::Sums{accumulator, heads, keys}, max_runs,                                   \
            msm::Scratch{scratch, max_runs, MSM_THREAD}, MSM_THREAD);                        \
    }

MSM_ACCUMULATE_BATCHED(msm_accumulate_batched_g1, false)
MSM_ACCUMULATE_BATCHED(msm_accumulate_batched_indexed_g1, true)
MSM_FOLD(msm_fold_g1, Fp, 3)
MSM_SUM_BUCKETS(msm_sum_buckets_g1, Fp, 3)
MSM_SUM_PARTS(msm_sum_parts_g1, Fp, 3)
MSM_WEIGH(msm_weigh_g1, Fp, 128)
MSM_FINISH(msm_finish_g1, Fp)
