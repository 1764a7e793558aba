/* version.h - the PyTorch that these headers stand for: programs choose by it what they call. */
#pragma once
#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 13
#define TORCH_VERSION_PATCH 0
#define TORCH_VERSION_ABI_TAG 0
#define TORCH_VERSION "2.13.0"
