/* Dispatch_v2.h - PyTorch's name for rushlight/at/dispatch.hpp */
#pragma once
#include <rushlight/at/dispatch.hpp>
