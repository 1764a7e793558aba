/* DeviceGuard.h - PyTorch's name for c10/core/DeviceGuard.h */
#pragma once
#include <c10/core/DeviceGuard.h>
