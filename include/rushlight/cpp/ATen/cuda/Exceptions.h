/* Exceptions.h - PyTorch's name for c10/cuda/CUDAException.h */
#pragma once
#include <c10/cuda/CUDAException.h>
