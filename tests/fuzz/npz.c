/* npz.c - archives of NumPy's array files. */
#include "fuzz.h"

FUZZ({ fuzz_touch_all(rush_npz_load(fuzz_file(data, size))); })
