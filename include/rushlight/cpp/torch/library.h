/* library.h - PyTorch's name for rushlight/at/all.hpp */
#pragma once
#include <rushlight/at/all.hpp>
