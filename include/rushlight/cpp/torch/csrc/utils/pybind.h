/* pybind.h - PyTorch's name for rushlight/at/python.hpp */
#pragma once
#include <Python.h>

#include <rushlight/at/all.hpp>
#include <rushlight/at/python.hpp>
