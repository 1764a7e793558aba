/* c_shim_aten.h - PyTorch's name for torch/csrc/inductor/aoti_torch/c/shim.h */
#pragma once
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
