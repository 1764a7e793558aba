/* aten.hpp - tensors, dispatch by dtype, loops on threads. */
#ifndef RUSHLIGHT_AT_ATEN_HPP
#define RUSHLIGHT_AT_ATEN_HPP

#include "checks.hpp"
#include "dispatch.hpp"
#include "functions.hpp"
#include "ivalue.hpp"
#include "parallel.hpp"
#include "print.hpp"
#include <c10/core/DeviceGuard.h>

#endif
