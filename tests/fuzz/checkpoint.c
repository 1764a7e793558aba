/* checkpoint.c - .pt archives, zip and pickle together; checksums are not looked at, else few inputs got far. */
#include "fuzz.h"

FUZZ({
    const char *path = fuzz_file(data, size);
    const rush_content *x = rush_load(path, .unchecked = true);
    if (x) fuzz_touch_all(rush_content_tensors(x));
    rush_error_clear();
    if (size % 4 == 0) rush_load(path, .mmap = true);
})
