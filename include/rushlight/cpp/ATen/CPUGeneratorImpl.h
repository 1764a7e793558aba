/* CPUGeneratorImpl.h - PyTorch's name for rushlight/at/generator.hpp */
#pragma once
#include <rushlight/at/generator.hpp>
