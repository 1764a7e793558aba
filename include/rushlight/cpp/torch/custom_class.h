/* custom_class.h - the base of classes for TorchScript; they can be bound with pybind11, not (yet) registered with a library. */
#pragma once
#include <c10/util/intrusive_ptr.h>
#include <rushlight/at/all.hpp>

namespace torch {
struct CustomClassHolder : c10::intrusive_ptr_target {};
} // namespace torch
