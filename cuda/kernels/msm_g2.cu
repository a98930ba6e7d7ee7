// MSM kernels of G2. See msm_accumulate.cuh and msm_reduce.cuh.
#include "msm_kernels.cuh"

MSM_ACCUMULATE(msm_accumulate_g2, Fp2, false, 2)
MSM_ACCUMULATE(msm_accumulate_indexed_g2, Fp2, true, 2)
MSM_ACCUMULATE_BATCHED(msm_accumulate_batched_g2, Fp2, false, 2)
MSM_ACCUMULATE_BATCHED(msm_accumulate_batched_indexed_g2, Fp2, true, 2)
MSM_FOLD(msm_fold_g2, Fp2, 2)
MSM_SUM_BUCKETS(msm_sum_buckets_g2, Fp2, 2)
MSM_SUM_PARTS(msm_sum_parts_g2, Fp2, 2)
MSM_WEIGH(msm_weigh_g2, Fp2, 64)
MSM_FINISH(msm_finish_g2, Fp2)
