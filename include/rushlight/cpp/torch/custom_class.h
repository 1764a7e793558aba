/* custom_class.h - PyTorch's name for rushlight/at/classes.hpp */
#pragma once
#include <rushlight/at/classes.hpp>
