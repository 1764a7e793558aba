/* library.h - PyTorch's name for rushlight/at/stable.hpp */
#pragma once
#include <rushlight/at/stable.hpp>
