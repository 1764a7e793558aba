/* ScalarTypeToTypeMeta.h - PyTorch's name for rushlight/at/types.hpp */
#pragma once
#include <rushlight/at/types.hpp>
