/* ops.h - PyTorch's name for rushlight/at/stable_ops.hpp */
#pragma once
#include <rushlight/at/stable_ops.hpp>
