/* ArrayRef.h - PyTorch's name for rushlight/at/base.hpp */
#pragma once
#include <rushlight/at/base.hpp>
