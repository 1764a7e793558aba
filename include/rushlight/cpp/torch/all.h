/* all.h - PyTorch's name for rushlight/at/frontend.hpp */
#pragma once
#include <rushlight/at/frontend.hpp>
