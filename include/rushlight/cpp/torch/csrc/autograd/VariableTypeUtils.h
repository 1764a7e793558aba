/* VariableTypeUtils.h - PyTorch's name for rushlight/at/autograd.hpp */
#pragma once
#include <rushlight/at/autograd.hpp>
