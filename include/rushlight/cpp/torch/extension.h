/* extension.h - all of it, and tensors for functions that pybind11 binds. */
#pragma once
#include <Python.h>

#include <rushlight/at/frontend.hpp>
#include <rushlight/at/python.hpp>
