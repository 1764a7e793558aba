/* torch.h - PyTorch's name for rushlight/at/frontend.hpp; where an extension for Python is built, all that torch/extension.h has. */
#pragma once
#include <rushlight/at/frontend.hpp>
#if defined TORCH_API_INCLUDE_EXTENSION_H && __has_include(<pybind11/pybind11.h>) && __has_include(<Python.h>)
#include <torch/extension.h>
#endif
