/* safetensors.c - safetensors files. */
#include "fuzz.h"

FUZZ({ fuzz_touch_all(rush_safetensors_load(fuzz_file(data, size))); })
