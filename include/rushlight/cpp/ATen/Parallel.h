/* Parallel.h - PyTorch's name for rushlight/at/parallel.hpp */
#pragma once
#include <ATen/Config.h>
#include <rushlight/at/parallel.hpp>
