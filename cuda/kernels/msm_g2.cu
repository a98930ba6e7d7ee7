// MSM kernels of G2 that fill buckets. See msm_accumulate.cuh and msm_batched.cuh.
#include "msm_kernels.cuh"

MSM_ACCUMULATE(msm_accumulate_g2, Fp2, 2)
MSM_ACCUMULATE_BATCHED(msm_accumulate_batched_g2, Fp2, 2)
