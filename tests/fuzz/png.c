/* png.c - pictures. */
#include "fuzz.h"

FUZZ({ fuzz_touch(rush_png_load(fuzz_file(data, size))); })
