/* npy.c - NumPy's array files. */
#include "fuzz.h"

FUZZ({ fuzz_touch(rush_npy_load(fuzz_file(data, size))); })
