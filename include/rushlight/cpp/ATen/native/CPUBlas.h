/* CPUBlas.h - PyTorch's name for rushlight/at/blas.hpp */
#pragma once
#include <rushlight/at/blas.hpp>
