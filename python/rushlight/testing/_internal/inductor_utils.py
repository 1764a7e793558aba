"""What tests ask about compilers: there are none."""
HAS_CPU = HAS_CUDA = HAS_GPU = HAS_XPU = HAS_TRITON = HAS_MPS = HAS_CUDA_AND_TRITON = HAS_GPU_AND_TRITON = HAS_MULTIGPU = False
GPU_TYPE = "cuda"
