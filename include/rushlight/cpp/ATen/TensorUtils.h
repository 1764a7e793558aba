/* TensorUtils.h - PyTorch's name for rushlight/at/checks.hpp */
#pragma once
#include <rushlight/at/checks.hpp>
