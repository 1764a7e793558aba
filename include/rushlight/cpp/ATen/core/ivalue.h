/* ivalue.h - PyTorch's name for rushlight/at/ivalue.hpp */
#pragma once
#include <rushlight/at/ivalue.hpp>
