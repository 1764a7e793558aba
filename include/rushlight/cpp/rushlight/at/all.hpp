/* all.hpp - all of it but Python: tensors, operations of the program, autograd. */
#ifndef RUSHLIGHT_AT_ALL_HPP
#define RUSHLIGHT_AT_ALL_HPP

#include "aten.hpp"
#include "autograd.hpp"
#include <torch/version.h>

#endif
