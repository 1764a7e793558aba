/* other.c - nothing: libc10.so, libtorch.so and libtorch_python.so, which extensions name beside libtorch_cpu.so. */
#include <rushlight.h>
