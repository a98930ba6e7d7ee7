// MSM kernels of G2 that sum what there is. See msm_accumulate.cuh and msm_reduce.cuh.
#include "msm_kernels.cuh"

MSM_FOLD(msm_fold_g2, Called<Fp2>, 2)
MSM_SUM(msm_sum_g2, Called<Fp2>, 2)
MSM_WEIGH(msm_weigh_g2, Called<Fp2>, 64)
MSM_FINISH(msm_finish_g2, Called<Fp2>)
