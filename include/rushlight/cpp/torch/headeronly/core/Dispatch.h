/* Dispatch.h - PyTorch's name for rushlight/at/headeronly.hpp */
#pragma once
#include <rushlight/at/headeronly.hpp>
