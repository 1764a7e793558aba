/* version.h - versions as numbers of eight bytes: major, minor, patch, tag. A program may say by TORCH_TARGET_VERSION with which oldest one it is to run. */
#pragma once
#include <torch/version.h>

#define TORCH_VERSION_NUMBER_(major, minor, patch) (((0ULL + major) << 56) | ((0ULL + minor) << 48) | ((0ULL + patch) << 40))
#define TORCH_ABI_VERSION TORCH_VERSION_NUMBER_(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH)
#define TORCH_VERSION_2_8_0 TORCH_VERSION_NUMBER_(2, 8, 0)
#define TORCH_VERSION_2_9_0 TORCH_VERSION_NUMBER_(2, 9, 0)
#define TORCH_VERSION_2_10_0 TORCH_VERSION_NUMBER_(2, 10, 0)
#define TORCH_VERSION_2_11_0 TORCH_VERSION_NUMBER_(2, 11, 0)
#define TORCH_VERSION_2_12_0 TORCH_VERSION_NUMBER_(2, 12, 0)
#define TORCH_VERSION_2_13_0 TORCH_VERSION_NUMBER_(2, 13, 0)
#ifdef TORCH_TARGET_VERSION
#define TORCH_FEATURE_VERSION TORCH_TARGET_VERSION
static_assert(TORCH_TARGET_VERSION <= TORCH_ABI_VERSION, "TORCH_TARGET_VERSION is newer than these headers");
#else
#define TORCH_FEATURE_VERSION TORCH_ABI_VERSION
#endif
