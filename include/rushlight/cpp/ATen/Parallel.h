/* Parallel.h - PyTorch's name for rushlight/at/parallel.hpp */
#pragma once
#include <rushlight/at/parallel.hpp>
