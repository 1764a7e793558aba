/* TensorAccessor.h - PyTorch's name for rushlight/at/accessor.hpp */
#pragma once
#include <rushlight/at/accessor.hpp>
