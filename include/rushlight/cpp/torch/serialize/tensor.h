/* tensor.h - PyTorch's name for rushlight/at/serialize.hpp */
#pragma once
#include <rushlight/at/serialize.hpp>
