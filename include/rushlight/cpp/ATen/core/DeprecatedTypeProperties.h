/* DeprecatedTypeProperties.h - PyTorch's name for rushlight/at/tensor.hpp */
#pragma once
#include <rushlight/at/tensor.hpp>
