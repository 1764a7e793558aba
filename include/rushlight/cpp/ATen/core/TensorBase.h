/* TensorBase.h - PyTorch's name for rushlight/at/aten.hpp */
#pragma once
#include <rushlight/at/aten.hpp>
