// MSM kernels of G1, and those of both groups. See msm_accumulate.cuh and msm_reduce.cuh.
#include "msm_kernels.cuh"

// Grid: one block. `runs` has num_windows + 2 words.
extern "C" __global__ void __launch_bounds__(msm::MAX_WINDOWS)
    msm_runs(MSM_PLAN_PARAMS, uint32_t *runs, uint32_t resident) {
    __shared__ uint32_t counts[msm::MAX_WINDOWS];
    const msm::Plan plan = MSM_PLAN;
    if (threadIdx.x < num_windows) counts[threadIdx.x] = plan.count(threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) msm::Runs{runs}.plan(counts, num_windows, resident);
}

MSM_ACCUMULATE(msm_accumulate_g1, msm_accumulate_tables_g1, Fp, msm::G1_THREADS, msm::G1_BLOCKS_PER_SM)
MSM_FOLD(msm_fold_g1, Fp, msm::G1_THREADS, msm::G1_BLOCKS_PER_SM)
MSM_SUM(msm_sum_g1, Fp, msm::G1_THREADS, msm::G1_BLOCKS_PER_SM)
MSM_WEIGH(msm_weigh_g1, Called<Fp>, msm::G1_WEIGH_THREADS)
MSM_FINISH(msm_finish_g1, Called<Fp>)
