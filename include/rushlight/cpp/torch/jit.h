/* jit.h - PyTorch's name for rushlight/at/jit.hpp */
#pragma once
#include <rushlight/at/jit.hpp>
