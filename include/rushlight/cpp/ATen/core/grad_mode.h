/* grad_mode.h - PyTorch's name for rushlight/at/library.hpp */
#pragma once
#include <rushlight/at/library.hpp>
