/* CUDAException.h - errors of CUDA's runtime become exceptions. */
#pragma once
#include <cuda_runtime.h>
#include <rushlight/at/aten.hpp>

#define C10_CUDA_CHECK(call)                                                                                \
    do {                                                                                                    \
        const cudaError_t error_of_call = (call);                                                           \
        TORCH_CHECK(error_of_call == cudaSuccess, "CUDA error: ", cudaGetErrorString(error_of_call));       \
    } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
