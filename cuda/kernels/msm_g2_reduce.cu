// MSM kernels of G2 that sum what there is. See msm_accumulate.cuh and msm_reduce.cuh.
#include "msm_kernels.cuh"

MSM_FOLD(msm_fold_g2, Fp2, msm::G2_THREADS, msm::G2_BLOCKS_PER_SM)
MSM_SUM(msm_sum_g2, Fp2, msm::G2_THREADS, msm::G2_BLOCKS_PER_SM)
MSM_WEIGH(msm_weigh_g2, Called<Fp2>, msm::G2_WEIGH_THREADS)
MSM_FINISH(msm_finish_g2, Called<Fp2>)
