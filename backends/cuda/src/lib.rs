//! twinlock's backend for NVIDIA GPUs.
