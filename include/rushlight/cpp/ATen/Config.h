/* Config.h - what programs ask of PyTorch's build: no library of others' is shown to them, and loops run on OpenMP's threads. */
#pragma once
#define AT_MKL_ENABLED() 0
#define AT_MKL_SEQUENTIAL() 0
#define AT_MKLDNN_ENABLED() 0
#define AT_POCKETFFT_ENABLED() 0
#define AT_NNPACK_ENABLED() 0
#define AT_BUILD_WITH_BLAS() 0
#define AT_BUILD_WITH_LAPACK() 0
#define AT_PARALLEL_OPENMP 1
#define AT_PARALLEL_NATIVE 0
