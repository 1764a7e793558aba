/* CUDAContext.h - PyTorch's name for what an extension's kernels need of a device. */
#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
