/* vec_base.h - PyTorch's name for rushlight/at/vec.hpp */
#pragma once
#include <rushlight/at/vec.hpp>
