/* picture.c - PNG and JPEG; which, the first bytes say. */
#include "fuzz.h"

FUZZ({ fuzz_touch(rush_picture_decode(data, size, size % 5)); })
