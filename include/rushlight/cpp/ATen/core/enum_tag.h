/* enum_tag.h - PyTorch's name for rushlight/at/tags.hpp */
#pragma once
#include <rushlight/at/tags.hpp>
