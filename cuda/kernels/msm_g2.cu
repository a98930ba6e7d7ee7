// MSM kernels of G2 that fill buckets. See msm_accumulate.cuh.
#include "msm_kernels.cuh"

MSM_ACCUMULATE(msm_accumulate_g2, msm_accumulate_tables_g2, Fp2, msm::G2_THREADS,
               msm::G2_BLOCKS_PER_SM)
